"""One HTML file out of a template, a style, a script and data; nothing is loaded from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib import resources
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

SCRIPTS = (
    *("data.js", "elements.js", "drawing.js", "chart.js", "saving.js", "proof.js", "evidence.js"),
    *("trust.js", "card.js", "rules.js", "beyond.js", "page.js"),
)
NOT_A_NUMBER = 65535
"""What stands for NaN in a column of shares; the others are 0 to 65534."""

Column = dict[str, Any]
"""Numbers as JSON: ``type``, ``data`` in base64, and ``low`` and ``high`` if they are shares."""
_TYPES: dict[str, Any] = {"u8": "<u1", "u16": "<u2", "u32": "<u4", "f32": "<f4"}


def render(data: dict[str, Any]) -> str:
    """The page. The browser runs its own script, whose digest it is told, and no other."""
    style = _read("page.css")
    script = "\n".join(_read(name) for name in SCRIPTS)
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "title": html.escape(data["title"]),
        "policy": html.escape(policy, quote=True).replace("&#x27;", "'"),
        "style": style,
        "script": script,
        "data": embeddable_json(data),
    }
    # One pass, so that a title or name which looks like a placeholder stays what it is.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _read("page.html"))


def embeddable_json(data: Any) -> str:
    """JSON that may stand inside a ``<script>`` element whatever texts it holds."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)  # escapes all but ASCII
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def whole_numbers(values: Tensor) -> Column:
    """A column of numbers from 0 on, in as few bytes as they need."""
    largest = int(values.max()) if values.numel() else 0
    return _column(values, "u8" if largest < 2**8 else "u16" if largest < 2**16 else "u32")


def decimals(values: Tensor) -> Column:
    """A column of numbers in single precision, NaN among them."""
    return _column(values, "f32")


def shares(values: Tensor, low: float, high: float) -> Column:
    """A column of numbers between two bounds in steps of 1/65534 of their distance, or NaN."""
    span = high - low if high > low else 1.0
    level = ((values.double().clamp(low, high) - low) / span * (NOT_A_NUMBER - 1)).round()
    column = _column(level.nan_to_num(nan=NOT_A_NUMBER), "u16")
    return {**column, "low": low, "high": low + span}


def _column(values: Tensor, kind: Literal["u8", "u16", "u32", "f32"]) -> Column:
    array = values.detach().cpu().contiguous().to(torch.float64).numpy().astype(_TYPES[kind])
    return {"type": kind, "data": base64.b64encode(np.ascontiguousarray(array).data).decode()}


def _read(name: str) -> str:
    return (resources.files("hpme.page") / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
