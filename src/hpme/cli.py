"""The ``hpme`` command."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from hpme import __version__
from hpme.commands import shared
from hpme.commands.apply import apply
from hpme.commands.bench import bench
from hpme.commands.beyond import audit, counterfactual, judge, pairs, rules
from hpme.commands.demo import demo
from hpme.commands.explain import explain
from hpme.commands.list import list_names
from hpme.commands.run import run
from hpme.commands.serve import serve
from hpme.commands.start import UNUSED, defer
from hpme.commands.tables import tables

app = typer.Typer(
    name="hpme",
    help="Explain graph neural networks: datasets with ground truth, explainers, scores.",
    epilog="Built datasets and trained models are kept in $HPME_CACHE_DIR, by default the "
    "platform's cache folder.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
ALL = (apply, bench, explain, serve, rules, counterfactual, audit, judge, pairs, tables, run, demo)
for function in ALL:
    app.command()(function)
app.command("list")(list_names)


def main() -> None:
    """Entry point of the ``hpme`` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # of a console that lacks letters: no traceback
            stream.reconfigure(errors="replace")
    defer(*UNUSED)
    app()


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hpme {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
    threads: Annotated[
        int,
        typer.Option(
            min=1, max=1024, help="Threads for computing; more than one pays for huge graphs only."
        ),
    ] = 1,
) -> None:
    shared.threads = threads
