"""The page of explanations, as several commands write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpme.commands.shared import check_writable
from hpme.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from hpme.commands.subject import Subject
    from hpme.explainers import GraphExplainer
    from hpme.models.explained import ExplainedModel

PageOption = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        help="Page to write (.html): the answer, and explanations of the same graphs.",
    ),
]


def check_page(path: Path) -> None:
    """Fails now, not after the work, if a page could not be written."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"'{path}' must end in .html")
    check_writable(path)


def explanations_of(explainer: GraphExplainer, read: Subject, *, quiet: bool) -> list[Any]:
    """Explanations by a fitted explainer, with their quality if it is known."""
    found = explainer.explain(read.model, read.graphs, progress=not quiet)
    if hasattr(explainer, "quality"):
        qualities = explainer.quality(read.model, read.graphs)
        effects = explainer.effects(read.model, read.graphs, nodes=False)
        for item, quality, effect in zip(found, qualities, effects, strict=True):
            item.quality = {**asdict(quality), "effect": effect.mean}
    return list(found)


def write_page(
    read: Subject,
    explainers: Mapping[str, GraphExplainer],
    explanations: Mapping[str, Sequence[Any]],
    out: Path,
    *,
    seed: int,
    quiet: bool,
    **more: Any,
) -> None:
    """Writes the page, and says where it is; ``more`` are arguments of :func:`hpme.viz.report`."""
    from hpme.page import report

    report(
        read.model,
        read.graphs,
        explanations,
        out,
        names=[
            _name(graph, number) for graph, number in zip(read.graphs, read.numbers, strict=True)
        ],
        class_names=_sides(read.model, read.classes),
        reports={name: getattr(one, "report", None) for name, one in explainers.items()},
        seed=seed,
        progress=not quiet,
        **more,
    )
    if not quiet:
        typer.echo(str(out))


def _sides(subject: ExplainedModel, names: list[str] | None) -> list[str] | None:
    """Names of the classes on the page; a question about one class has two sides."""
    if subject.target is None and subject.contrast is None:
        return names
    if subject.view.mode == "regression" or subject.tasks is not None:
        return None
    ours, other = subject.target, subject.contrast
    return [
        f"not {ours}" if other is None else str(other),
        f"not {other}" if ours is None else str(ours),
    ]


def _name(graph: Data, number: int) -> str:
    name = graph.get("name")
    return name if isinstance(name, str) and name else f"graph {number}"
