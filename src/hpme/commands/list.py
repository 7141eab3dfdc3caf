"""``hpme list``: what can be run."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hpme.commands.shared import command


class Kind(str, Enum):
    """What ``hpme list`` can list."""

    datasets = "datasets"
    explainers = "explainers"
    models = "models"


@command
def list_names(kind: Annotated[Kind, typer.Argument(help="What to list.")]) -> None:
    """List what can be run: datasets, explainers or models."""
    from hpme.data import DATASETS
    from hpme.explainers import EXPLAINERS
    from hpme.models import MODELS

    table = Table(box=None, pad_edge=False, header_style="bold")
    if kind is Kind.datasets:
        _columns(table, "name", "task", "graphs", "variants", "description")
        for info in DATASETS.values():
            variants = ", ".join(info.variants)
            table.add_row(info.name, info.task, f"{info.num_graphs:,}", variants, info.description)
    elif kind is Kind.explainers:
        _columns(table, "name", "learns", "tasks", "levels", "description")
        for name, explainer in EXPLAINERS.items():
            learns = "from labels" if explainer.needs_labels else "yes"
            table.add_row(
                name,
                learns if explainer.needs_fit else "no",
                ", ".join(explainer.tasks),
                ", ".join(explainer.levels),
                explainer.summary,
            )
    else:
        _columns(table, "name", "description")
        for name, model in MODELS.items():
            table.add_row(name, (model.__doc__ or "").strip().splitlines()[0])
    # A pipe has no width; the 80 columns rich assumes would break lines somebody wants to grep.
    Console(width=None if Console().is_terminal else 160).print(table)


def _columns(table: Table, *names: str) -> None:
    for name in names:
        table.add_column(name, no_wrap=name != "description")
