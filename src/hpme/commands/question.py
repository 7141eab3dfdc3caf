"""What all commands beyond one graph ask for: a model, graphs, and where answers go."""

from __future__ import annotations

import csv
import functools
import inspect
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpme.commands.options import (
    GraphsOption,
    NameColumnOption,
    OptionsOption,
    QuietOption,
    SmilesColumnOption,
)
from hpme.commands.page import PageOption, check_page, explanations_of, write_page
from hpme.commands.shared import check_writable, parse_options, say, usage
from hpme.commands.subject import (
    ClassesOption,
    DataOption,
    ModelOption,
    ModeOption,
    SeedOption,
    Subject,
    TargetOption,
    WeightsOption,
    read_subject,
)
from hpme.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from hpme.explainers import HPMEExplainer

BEYOND = "Beyond one graph"
OutOption = Annotated[
    Path | None,
    typer.Option(dir_okay=False, help="File to write: .json or .csv (default: print only)."),
]


@dataclass(frozen=True)
class Question:
    """The options that the commands share, by the names they have on the command line."""

    data: DataOption
    model: ModelOption = None
    weights: WeightsOption = None
    out: OutOption = None
    page: PageOption = None
    graphs: GraphsOption = 200
    seed: SeedOption = 0
    mode: ModeOption = None
    target: TargetOption = None
    classes: ClassesOption = None
    option: OptionsOption = None
    smiles_column: SmilesColumnOption = None
    name_column: NameColumnOption = None
    quiet: QuietOption = False

    def check(self) -> None:
        """Refuses files that could not be written, before any work."""
        if self.out is not None:
            usage("--out", _check_table, self.out)
        if self.page is not None:
            usage("--page", check_page, self.page)

    def read(self, source: str) -> list[Data]:
        """Further graphs, read as ``--data`` is."""
        from hpme.commands.factories import TABLES, read_data

        given: dict[str, Any] = {name: value for name, value in self._columns.items() if value}
        table = given if Path(source).suffix.lower() in TABLES else {}
        return read_data(source, progress=not self.quiet, **table)

    def fitted(self) -> tuple[Subject, HPMEExplainer]:
        """What the question is about, and HPME fitted to it."""
        from hpme.commands.factories import make_explainers
        from hpme.explainers import HPMEExplainer

        options = usage("--option", parse_options, self.option or [])
        explainer = usage("--option", make_explainers, ["hpme"], self.seed, options)["hpme"]
        assert isinstance(explainer, HPMEExplainer)
        read = read_subject(
            self.data,
            self.model,
            self.weights,
            count=self.graphs,
            seed=self.seed,
            quiet=self.quiet,
            skipped=(self.out or self.page or Path("graphs")).with_suffix(".skipped.csv"),
            mode=self.mode,
            target=self.target,
            classes=self.classes,
            table=self._columns,
        )
        explainer.fit(read.model, read.fitted, target=read.model.target, progress=not self.quiet)
        if explainer.report is not None and not self.quiet:
            for warning in explainer.report.warnings:
                say(f"warning: {warning}", style="yellow")
        return read, explainer

    def write(self, result: Any, rows: list[dict[str, Any]]) -> None:
        """Everything as JSON, or the rows as a table, if a file is asked for."""
        from hpme.storage import write_atomically

        if self.out is None:
            return
        if self.out.suffix.lower() == ".json":
            text = json.dumps(result, indent=1, allow_nan=False) + "\n"
        else:
            table = io.StringIO(newline="")
            writer = csv.DictWriter(table, list(rows[0]) if rows else ["graph"])
            writer.writeheader()
            writer.writerows(rows)
            text = table.getvalue()
        write_atomically(self.out, text.encode())

    def write_page(self, read: Subject, explainer: HPMEExplainer, **answer: Any) -> None:
        """The answer on the page of explanations, if one is asked for."""
        if self.page is None:
            return
        found = {"hpme": explanations_of(explainer, read, quiet=self.quiet)}
        explainers = {"hpme": explainer}
        write_page(read, explainers, found, self.page, seed=self.seed, quiet=self.quiet, **answer)

    @property
    def _columns(self) -> dict[str, str | None]:
        return {"smiles_column": self.smiles_column, "name_column": self.name_column}


def asks(graphs: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of :class:`Question`, which it gets as its first argument.

    Args:
        graphs: How many graphs it asks about by default.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        shared = dict(inspect.signature(Question, eval_str=True).parameters)
        shared["graphs"] = shared["graphs"].replace(default=graphs)
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]

        @functools.wraps(function)
        def asked(**given: Any) -> None:
            question = Question(**{name: given.pop(name) for name in shared})
            question.check()
            function(question, **given)

        every = [one.replace(kind=one.KEYWORD_ONLY) for one in (*shared.values(), *own)]
        # Typer reads options from here.
        asked.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
        asked.__annotations__ = {one.name: one.annotation for one in every}
        return asked

    return decorate


def _check_table(path: Path) -> None:
    if path.suffix.lower() not in (".json", ".csv"):
        raise InputError(f"'{path}' must end in .json or .csv")
    check_writable(path)
