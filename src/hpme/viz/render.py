"""Figures as files: the same figure gives the same bytes."""

from __future__ import annotations

import io
from typing import Any

import matplotlib

RESOLUTION = 110
"""Pixels per inch of a picture."""


def render(figure: Any, suffix: str, *, dpi: int = RESOLUTION) -> bytes:
    """A figure as ``.png``, ``.svg`` or ``.pdf``, without dates and names of software."""
    content = io.BytesIO()
    meta: dict[str, dict[str, None]] = {
        ".svg": {"Date": None},
        ".png": {"Software": None},
        ".pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    }
    # A fixed salt, because identifiers in an SVG would be random otherwise.
    with matplotlib.rc_context({"svg.hashsalt": "hpme"}):
        figure.savefig(content, format=suffix[1:], dpi=dpi, metadata=meta[suffix])
    return content.getvalue()
