"""The numbers the paper prints, to stand beside measured ones."""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any, NamedTuple

from hpme.errors import UnknownNameError


class PaperValue(NamedTuple):
    """A printed value.

    Args:
        mean: The value.
        std: What stands behind its ±, if anything.
    """

    mean: float
    std: float | None


PaperTable = dict[str, dict[str, dict[str, PaperValue]]]
"""Values by dataset, method (for targets: model) and metric."""


def paper_table(name: str) -> PaperTable:
    """A table of the paper, as it prints it.

    Args:
        name: ``table1``, ``nodes``, ``links``, ``shift`` (main text), ``shift-classification`` and
            ``shift-regression`` (appendix), ``fidelity``, ``targets-classification`` or
            ``targets-regression`` (percent, but for RMSE).
    """
    values: PaperTable = {
        dataset: {
            method: {metric: PaperValue(*value) for metric, value in metrics.items()}
            for method, metrics in methods.items()
        }
        for dataset, methods in _entry(name)["values"].items()
    }
    return values


def paper_note(name: str) -> str | None:
    """What to know about a table of the paper, if anything."""
    note: str | None = _entry(name).get("note")
    return note


def paper_names() -> list[str]:
    """Names of all tables."""
    return list(_all())


def _entry(name: str) -> dict[str, Any]:
    if name not in _all():
        raise UnknownNameError("table of the paper", name, paper_names())
    entry: dict[str, Any] = _all()[name]
    return entry


@functools.cache
def _all() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("numbers.json").read_text("utf-8")
    tables: dict[str, Any] = json.loads(text)
    return tables
