"""``hpme list``: what can be run."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hpme.commands.catalog import HEADERS, rows
from hpme.commands.shared import command


class Kind(str, Enum):
    """What ``hpme list`` can list."""

    datasets = "datasets"
    explainers = "explainers"
    models = "models"


@command
def list_names(kind: Annotated[Kind, typer.Argument(help="What to list.")]) -> None:
    """List what can be run: datasets, explainers or models."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in HEADERS[kind.value]:
        table.add_column(name, no_wrap=name != "description")
    for row in rows(kind.value):
        table.add_row(*row)
    # A pipe has no width; the 80 columns rich assumes would break lines somebody wants to grep.
    Console(width=None if Console().is_terminal else 160).print(table)
