"""``hpme rules``, ``hpme counterfactual`` and ``hpme audit``: what goes beyond one graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hpme.commands.question import BEYOND, Question, asks
from hpme.commands.shared import check_writable, command, say, usage

ThresholdOption = Annotated[
    float | None,
    typer.Option(rich_help_panel=BEYOND, help="Of counterfactuals of values: what to get past."),
]
ShouldNotOption = Annotated[
    str | None,
    typer.Option(metavar="SMARTS", rich_help_panel=BEYOND, help="Pattern that should not matter."),
]


@command
@asks(1000)
def rules(
    question: Question,
    picture: Annotated[
        Path | None,
        typer.Option(dir_okay=False, rich_help_panel=BEYOND, help="Picture: .png or .svg."),
    ] = None,
) -> None:
    """Say what your model has learned: a short ordered list of rules about subgraphs.

    Rules are learned from 70 % of the graphs; all numbers are of the others.

    Exit codes: 0 done, 1 failed while running, 2 wrong usage.
    """
    if picture is not None:
        usage("--picture", _check_picture, picture)
    read, explainer = question.fitted()
    book = explainer.rules(read.model, read.graphs, progress=not question.quiet)
    typer.echo(str(book))
    if picture is not None:
        book.draw(picture)
    found = book.to_dict()
    keep = ("label", "coverage", "precision", "recall", "lift", "effect", "pooled")
    rows = [
        {"if": " AND ".join(rule["if"]), **{k: rule[k] for k in keep}} for rule in found["rules"]
    ]
    question.write(found, rows)
    question.write_page(read, explainer, rules=book)


@command
@asks(200)
def counterfactual(
    question: Question,
    n: Annotated[
        int, typer.Option("-n", min=1, rich_help_panel=BEYOND, help="How many for each graph.")
    ] = 3,
    threshold: ThresholdOption = None,
    donors: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|MODULE:FUNCTION",
            rich_help_panel=BEYOND,
            help="Other molecules that may give regions, as --data (default: the given ones).",
        ),
    ] = None,
) -> None:
    """Find what would change the answer: small regions replaced by those of other real graphs.

    Molecules stay molecules; atoms that come from elsewhere are marked with :1.

    Exit codes: 0 done, 1 failed while running, 2 wrong usage.
    """
    others = None if donors is None else question.read(donors)
    read, explainer = question.fitted()
    found = explainer.counterfactuals(
        read.model,
        read.graphs,
        n,
        threshold=threshold,
        donors=others,
        progress=not question.quiet,
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
    question.write(rows, rows)
    question.write_page(read, explainer, counterfactuals=found)


@command
@asks(500)
def audit(
    question: Question,
    should: Annotated[
        str,
        typer.Option(metavar="SMARTS", rich_help_panel=BEYOND, help="Pattern that should matter."),
    ],
    should_not: ShouldNotOption = None,
) -> None:
    """Ask whether your model reads what it should, by transplants of a pattern.

    Exit codes: 0 done, 1 failed while running, 2 wrong usage.
    """
    check_patterns(should, should_not)
    read, explainer = question.fitted()
    found = explainer.audit(read.model, read.graphs, should, should_not)
    typer.echo(str(found))
    result = found.to_dict()
    rows = [
        {"role": role, "verdict": found.finding, **result[role]}
        for role in ("should", "should_not")
        if result[role] is not None
    ]
    question.write(result, rows)
    question.write_page(read, explainer, audit=found)


def check_patterns(should: str | None, should_not: str | None) -> None:
    """Refuses what is no SMARTS."""
    for name, pattern in (("--should", should), ("--should-not", should_not)):
        if pattern is not None:
            from hpme.data.molecules.chem import compile_smarts

            usage(name, compile_smarts, [pattern])


def _check_picture(path: Path) -> None:
    from hpme.viz.gallery import check_picture_path

    check_writable(check_picture_path(path))
