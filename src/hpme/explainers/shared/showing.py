"""How explanations and reports show themselves in notebooks."""

from __future__ import annotations

from html import escape
from typing import Any, SupportsIndex, overload

SHOWN = 12
"""Explanations of a list that are drawn; each picture is about 30 kB."""
_ROW = "display:flex;flex-wrap:wrap;gap:8px;align-items:flex-end"
_CELL = "margin:0;max-width:300px"


class Explanations(list[Any]):
    """Explanations of many graphs: a list that notebooks show as pictures."""

    @overload
    def __getitem__(self, index: SupportsIndex) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Explanations: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        found = super().__getitem__(index)
        return Explanations(found) if isinstance(index, slice) else found

    def _repr_html_(self) -> str:
        figures = "".join(
            f'<figure style="{_CELL}">{one._repr_html_()}<figcaption>{number}</figcaption></figure>'
            for number, one in enumerate(self[:SHOWN])
        )
        more = len(self) - SHOWN
        rest = f"<p>and {more} more</p>" if more > 0 else ""
        return f'<div style="{_ROW}">{figures}</div>{rest}'


def report_html(summary: str, warnings: list[str]) -> str:
    """A summary, and what it warns about."""
    items = "".join(f"<li>{escape(text)}</li>" for text in warnings)
    listed = f"<p><b>Take care:</b></p><ul>{items}</ul>" if items else "<p>No warnings.</p>"
    lines = "".join(f"<p>{escape(line)}</p>" for line in summary.splitlines() if line.strip())
    return f"<div>{lines}{listed}</div>"
