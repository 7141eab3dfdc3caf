"""One HTML page with explanations of many graphs; it opens without a network."""

from __future__ import annotations

import warnings
from typing import Any

from hpme.page.page import payload, write_page

__all__ = ["payload", "write_page"]


def __getattr__(name: str) -> Any:
    if name == "report":
        warnings.warn("report is now called write_page", DeprecationWarning, stacklevel=2)
        return write_page
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
