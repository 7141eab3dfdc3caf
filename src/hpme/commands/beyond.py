"""``hpme rules``, ``counterfactual``, ``audit``, ``judge``, ``pairs``: beyond one graph."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

from hpme.commands import options, shared
from hpme.commands.explain import explanations_of, save_page

if TYPE_CHECKING:
    from hpme.commands.inputs import Inputs
    from hpme.explainers import HPMEExplainer


@shared.command
def rules(
    asked: options.Question,
    graphs: options.GraphsOption = 1000,
    picture: Annotated[
        Path | None, options.beyond_one_graph(dir_okay=False, help="Picture: .png or .svg.")
    ] = None,
) -> None:
    """Say what your model has learned: a short ordered list of rules about subgraphs.

    Rules are learned from 70 % of the graphs; all numbers are of the others.
    """
    asked.check_files()
    shared.usage("--picture", shared.check_writable, picture, ".png", ".svg")
    read, explainer = _read(asked, graphs)
    explainer.fit(read.model, read.fitted, target=read.model.target, progress=not asked.quiet)
    book = explainer.rules(read.model, read.store, progress=not asked.quiet)
    shared.tell(str(book), quiet=asked.quiet)
    if picture is not None:
        book.draw(picture)
    found = book.to_dict()
    keep = ("label", "coverage", "precision", "recall", "lift", "effect", "pooled")
    rows = [
        {"if": " AND ".join(rule["if"]), **{k: rule[k] for k in keep}} for rule in found["rules"]
    ]
    _write(asked, read, explainer, found, rows, rules=book)


@shared.command
def counterfactual(
    asked: options.Question,
    graphs: options.GraphsOption = 200,
    n: Annotated[int, options.beyond_one_graph("-n", min=1, help="How many for each graph.")] = 3,
    threshold: options.ThresholdOption = None,
    donors: Annotated[
        str | None,
        options.beyond_one_graph(
            metavar="FILE|MODULE:FUNCTION",
            help="Other molecules that may give regions, as --data (default: the given ones).",
        ),
    ] = None,
) -> None:
    """Find what would change the answer: small regions replaced by those of other real graphs.

    Molecules stay molecules that a chemist would keep, and near twins among the given ones come
    first; in the column "marked" of --out, atoms that come from elsewhere have :1.
    """
    asked.check_files()
    from hpme.commands.inputs import check_threshold, read_unlabelled
    from hpme.page.entries import text_or_none

    read, explainer = _read(asked, graphs)
    check_threshold(read, threshold)
    others = None if donors is None else read_unlabelled(donors, asked, asked, read.model)
    explainer.fit(read.model, read.fitted, target=read.model.target, progress=not asked.quiet)
    found = explainer.counterfactuals(
        read.model, read.store, n, threshold=threshold, donors=others, progress=not asked.quiet
    )
    rows: list[dict[str, Any]] = []
    for number, graph, some in zip(read.numbers, read.graphs, found, strict=True):
        for one in some:
            row = {"graph": number, "original": graph.get("smiles"), "smiles": one.smiles}
            row |= {"marked": one.marked, "before": one.before, "after": one.after}
            row |= dict(zip(("output", "new_output"), one.outputs, strict=True))
            row |= {"exchanged": one.exchanged, "known": one.known, "size": one.size}
            rows.append(row | {"similarity": one.similarity, "accessibility": one.accessibility})
            name = text_or_none(graph.get("name")) or f"graph {number}"
            shared.tell(f"{name}: {one}", quiet=asked.quiet)
    if not asked.quiet:
        hits = sum(bool(some) for some in found)
        shared.say(f"the answer was changed for {hits:,} of {len(found):,} graphs")
    _write(asked, read, explainer, rows, rows, counterfactuals=found)


@shared.command
def audit(
    asked: options.Question,
    should: Annotated[
        str, options.beyond_one_graph(metavar="SMARTS", help="Pattern that should matter.")
    ],
    should_not: options.ShouldNotOption = None,
    graphs: options.GraphsOption = 500,
) -> None:
    """Ask whether your model reads what it should: average effects of putting a pattern in alone,
    and of taking it out, with intervals and random fragments beside them.
    """
    asked.check_files()
    shared.check_patterns(should, should_not)
    read, explainer = _read(asked, graphs)
    explainer.fit(read.model, read.fitted, target=read.model.target, progress=not asked.quiet)
    found = explainer.audit(read.model, read.store, should, should_not)
    shared.tell(str(found), quiet=asked.quiet)
    _write(asked, read, explainer, found.to_dict(), found.rows(), audit=found)


@shared.command
def judge(
    asked: options.Question,
    masks: Annotated[
        list[Path],
        options.beyond_one_graph(
            exists=True,
            dir_okay=False,
            help="Masks of another explainer: .csv, .tsv or .parquet with columns graph, node (or "
            "source and target) and importance; may be repeated.",
        ),
    ],
    graphs: options.GraphsOption = 500,
) -> None:
    """Judge masks of other explainers by transplants, beside HPME's own and random regions.

    Graphs are numbered from 0 as they are read; rows about others than the --graphs are ignored.
    """
    asked.check_files()
    from hpme.explainers.hpme.judging import read_masks

    read, explainer = _read(asked, graphs)
    given = {
        path.stem: shared.usage("--masks", read_masks, path, read.store, read.numbers)
        for path in masks
    }
    explainer.fit(read.model, read.fitted, target=read.model.target, progress=not asked.quiet)
    found = explainer.judge(read.model, read.store, given)
    shared.tell(str(found), quiet=asked.quiet)
    rows = [one.row() for one in found.masks]
    _write(asked, read, explainer, rows, rows, found.explanations())


@shared.command
def pairs(
    model: options.ModelOptions,
    chemprop: options.ChempropFiles,
    answer: options.AnswerOptions,
    smiles_column: Annotated[
        str, options.about_molecules(help="Column of the first molecule of every pair.")
    ] = "smiles_a",
    second_column: Annotated[
        str, options.about_molecules(help="Column of the second.")
    ] = "smiles_b",
    hydrogens: options.HydrogensOption = False,
) -> None:
    """Say why the model tells near twins apart: differing parts, exchanged one by one.

    --data is a table with two molecules per row.
    """
    asked = options.Question(**vars(model), **vars(chemprop), **vars(answer), hydrogens=hydrogens)
    asked.check_files()
    from hpme.data.molecules.columns import read_columns
    from hpme.errors import InputError

    path = Path(asked.data)
    if path.suffix.lower() not in (".csv", ".tsv"):
        shared.refuse("pairs are read from a table of SMILES (.csv, .tsv)", "--data")
    sides = [
        shared.usage("--data", partial(read_columns, path, smiles_column=name)).smiles
        for name in (smiles_column, second_column)
    ]
    texts = [text for pair in zip(*sides, strict=True) for text in pair]
    with TemporaryDirectory() as folder:
        both = Path(folder) / "pairs.csv"
        both.write_text("\n".join(["smiles", *texts]) + "\n")
        asked = replace(asked, data=str(both))
        read, explainer = _read(asked, max(1, len(texts)))
    if len(read.graphs) != len(texts):
        raise InputError("some molecules cannot be read; leave their rows out of the table")
    found = explainer.pairs(read.model, read.graphs[::2], read.graphs[1::2])
    for number, one in enumerate(found):
        shared.tell(f"pair {number}: {one}", quiet=asked.quiet)
    rows = [{"pair": n, **row} for n, one in enumerate(found) for row in one.rows()]
    _write(asked, read, explainer, rows, rows, {"pairs": found.explanations()})


def _read(asked: options.Question, graphs: int) -> tuple[Inputs, HPMEExplainer]:
    """The model and its graphs, and HPME as it is asked for."""
    from hpme.commands.inputs import make_explainers, read_inputs
    from hpme.explainers import HPMEExplainer

    explainer = shared.usage("--option", make_explainers, ["hpme"], asked)["hpme"]
    assert isinstance(explainer, HPMEExplainer)
    skipped = (asked.out or asked.page or Path("graphs")).with_suffix(".skipped.csv")
    return read_inputs(asked, asked, chemprop=asked, count=graphs, skipped=skipped), explainer


def _write(
    asked: options.Question,
    read: Inputs,
    explainer: HPMEExplainer,
    result: Any,
    rows: list[dict[str, Any]],
    explanations: Mapping[str, Sequence[Any]] | None = None,
    **found: Any,
) -> None:
    """Everything as JSON or the rows as a table, and what was found on a page, as asked for."""
    from hpme.storage import write_atomically
    from hpme.text import write_csv

    if asked.out is not None and asked.out.suffix.lower() == ".json":
        write_atomically(asked.out, (json.dumps(result, indent=1, allow_nan=False) + "\n").encode())
    elif asked.out is not None:
        written = io.StringIO(newline="")
        write_csv(written, rows[0] if rows else ["graph"], (row.values() for row in rows))
        write_atomically(asked.out, written.getvalue().encode())
    if asked.page is not None:
        if explanations is None:
            explanations = {"hpme": explanations_of(explainer, read, quiet=asked.quiet)}
        fitted = {"hpme": explainer} if "hpme" in explanations else {}
        save_page(read, fitted, explanations, asked.page, asked, **found)
