"""``hpme rules``, ``hpme counterfactual`` and ``hpme audit``: what goes beyond one graph."""

from __future__ import annotations

import csv
import io
import json
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
from hpme.commands.shared import check_writable, command, parse_options, say, usage
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
    from hpme.explainers import HPMEExplainer

OutOption = Annotated[
    Path | None,
    typer.Option(dir_okay=False, help="File to write: .json or .csv (default: print only)."),
]


@command
def rules(
    data: DataOption,
    model: ModelOption = None,
    weights: WeightsOption = None,
    out: OutOption = None,
    picture: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Picture to draw: .png or .svg.")
    ] = None,
    graphs: GraphsOption = 1000,
    seed: SeedOption = 0,
    mode: ModeOption = None,
    target: TargetOption = None,
    classes: ClassesOption = None,
    option: OptionsOption = None,
    smiles_column: SmilesColumnOption = None,
    name_column: NameColumnOption = None,
    quiet: QuietOption = False,
) -> None:
    """Say what your model has learned: a short ordered list of rules about subgraphs.

    Rules are learned from 70 % of the graphs; all numbers are of the others.

    Exit codes: 0 done, 1 failed while running, 2 wrong usage.
    """
    _check(out)
    if picture is not None:
        usage("--picture", _check_picture, picture)
    read, explainer = _fitted(locals())
    book = explainer.rules(read.model, read.graphs, progress=not quiet)
    typer.echo(str(book))
    if picture is not None:
        book.draw(picture)
    found = book.to_dict()
    keep = ("label", "coverage", "precision", "recall", "lift", "effect", "pooled")
    rows = [
        {"if": " AND ".join(rule["if"]), **{k: rule[k] for k in keep}} for rule in found["rules"]
    ]
    _write(out, found, rows)


@command
def counterfactual(
    data: DataOption,
    model: ModelOption = None,
    weights: WeightsOption = None,
    out: OutOption = None,
    n: Annotated[int, typer.Option("-n", min=1, help="How many for each graph.")] = 3,
    threshold: Annotated[
        float | None, typer.Option(help="For values: the value to get past.")
    ] = None,
    graphs: GraphsOption = 200,
    seed: SeedOption = 0,
    mode: ModeOption = None,
    target: TargetOption = None,
    classes: ClassesOption = None,
    option: OptionsOption = None,
    smiles_column: SmilesColumnOption = None,
    name_column: NameColumnOption = None,
    quiet: QuietOption = False,
) -> None:
    """Find what would change the answer: small regions replaced by those of other real graphs.

    Molecules stay molecules; atoms that come from elsewhere are marked with :1.

    Exit codes: 0 done, 1 failed while running, 2 wrong usage.
    """
    _check(out)
    read, explainer = _fitted(locals())
    found = explainer.counterfactuals(
        read.model, read.graphs, n, threshold=threshold, progress=not quiet
    )
    rows: list[dict[str, Any]] = []
    for number, graph, some in zip(read.numbers, read.graphs, found, strict=True):
        for one in some:
            row = {"graph": number, "original": graph.get("smiles"), "smiles": one.smiles}
            row |= {"marked": one.marked, "before": one.before, "after": one.after}
            rows.append(row | {"size": one.size, "similarity": one.similarity})
            typer.echo(f"graph {number}: {one}")
    hits = sum(bool(some) for some in found)
    say(f"the answer was changed for {hits:,} of {len(found):,} graphs")
    _write(out, rows, rows)


@command
def audit(
    data: DataOption,
    should: Annotated[str, typer.Option(metavar="SMARTS", help="Pattern that should matter.")],
    should_not: Annotated[
        str | None, typer.Option(metavar="SMARTS", help="Pattern that should not.")
    ] = None,
    model: ModelOption = None,
    weights: WeightsOption = None,
    out: OutOption = None,
    graphs: GraphsOption = 500,
    seed: SeedOption = 0,
    mode: ModeOption = None,
    target: TargetOption = None,
    classes: ClassesOption = None,
    option: OptionsOption = None,
    smiles_column: SmilesColumnOption = None,
    name_column: NameColumnOption = None,
    quiet: QuietOption = False,
) -> None:
    """Ask whether your model reads what it should, by transplants of a pattern.

    Exit codes: 0 done, 1 failed while running, 2 wrong usage.
    """
    from hpme.data.molecules.chem import compile_smarts

    _check(out)
    usage("--should", compile_smarts, [should])
    if should_not is not None:
        usage("--should-not", compile_smarts, [should_not])
    read, explainer = _fitted(locals())
    found = explainer.audit(read.model, read.graphs, should, should_not)
    typer.echo(str(found))
    result = found.to_dict()
    rows = [
        {"role": role, "verdict": found.verdict, **result[role]}
        for role in ("should", "should_not")
        if result[role] is not None
    ]
    _write(out, result, rows)


def _fitted(given: dict[str, Any]) -> tuple[Subject, HPMEExplainer]:
    """The subject of a command, and HPME fitted to it, from the command's arguments."""
    from hpme.commands.factories import make_explainers
    from hpme.explainers import HPMEExplainer

    options = usage("--option", parse_options, given["option"] or [])
    explainer = usage("--option", make_explainers, ["hpme"], given["seed"], options)["hpme"]
    assert isinstance(explainer, HPMEExplainer)
    table = {name: given[name] for name in ("smiles_column", "name_column")}
    out, quiet = given["out"] or Path("graphs.csv"), given["quiet"]
    read = read_subject(
        given["data"],
        given["model"],
        given["weights"],
        count=given["graphs"],
        seed=given["seed"],
        quiet=quiet,
        skipped=out.with_suffix(".skipped.csv"),
        mode=given["mode"],
        target=given["target"],
        classes=given["classes"],
        table=table,
    )
    explainer.fit(read.model, read.fitted, target=read.model.target, progress=not quiet)
    if explainer.report is not None and not quiet:
        for warning in explainer.report.warnings:
            say(f"warning: {warning}", style="yellow")
    return read, explainer


def _check(out: Path | None) -> None:
    if out is not None:
        usage("--out", _check_table, out)


def _check_table(path: Path) -> None:
    if path.suffix.lower() not in (".json", ".csv"):
        raise InputError(f"'{path}' must end in .json or .csv")
    check_writable(path)


def _check_picture(path: Path) -> None:
    from hpme.viz.gallery import check_picture_path

    check_writable(check_picture_path(path))


def _write(out: Path | None, result: Any, rows: list[dict[str, Any]]) -> None:
    """Everything as JSON, or the rows as a table."""
    from hpme.storage import write_atomically

    if out is None:
        return
    if out.suffix.lower() == ".json":
        write_atomically(out, (json.dumps(result, indent=1, allow_nan=False) + "\n").encode())
        return
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["graph"])
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(out, text.getvalue().encode())
