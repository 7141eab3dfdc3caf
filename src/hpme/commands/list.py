"""``hpme list``: what can be run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hpme.commands.catalog import HEADERS, Kind, rows
from hpme.commands.shared import command, known, refuse

OPTIONS = ("option", "default", "may be", "description")


@command
def list_names(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    name: Annotated[
        str | None, typer.Argument(help="An explainer, to list its arguments for --option.")
    ] = None,
) -> None:
    """List what can be run: datasets, explainers or models, or the arguments of an explainer."""
    if name is None:
        _print(HEADERS[kind], rows(kind))
        return
    if kind != "explainers":
        refuse("only explainers have arguments to list", "NAME")
    from hpme.explainers import EXPLAINERS, describe_options

    known("NAME", "explainer", name, EXPLAINERS)
    options = describe_options(EXPLAINERS[name])
    _print(OPTIONS, [[o.name, str(o.default), o.constraint, o.meaning] for o in options])


def _print(headers: Sequence[str], listed: Sequence[Sequence[str]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in headers:
        table.add_column(header, no_wrap=header != "description")
    for row in listed:
        table.add_row(*map(escape, row))
    # A pipe has no width; the 80 columns rich assumes would break lines somebody wants to grep.
    Console(width=None if Console().is_terminal else 160).print(table)
