"""The model and the graphs that a command is about."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpme.commands.shared import check_device, refuse, say, usage
from hpme.limits import MAX_SEED

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from hpme.models.explained import ExplainedModel


class ModeName(str, Enum):
    """What the model's output means."""

    multiclass = "multiclass_classification"
    binary = "binary_classification"
    regression = "regression"


DataOption = Annotated[
    str,
    typer.Option(
        "--data",
        "-d",
        metavar="FILE|MODULE:FUNCTION",
        help="Table of SMILES (.csv, .tsv), file of hpme.data.save_graphs (.safetensors), or "
        "function that returns a dataset or a list of Data.",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        metavar="MODULE:FUNCTION",
        help="Function that returns your model, such as my_models:build; it is called "
        "without arguments.",
    ),
]
WeightsOption = Annotated[
    Path | None,
    typer.Option(dir_okay=False, help="Weights (.safetensors) (default: those the function sets)."),
]
ModeOption = Annotated[
    ModeName | None,
    typer.Option(help="What the output means; needed if it is one value per graph."),
]
CallOption = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:FUNCTION",
        help="Function call(model, batch) that calls the model on a PyG Batch with all fields "
        "of the graphs (default: found by trial).",
    ),
]
OutputOption = Annotated[
    str | None,
    typer.Option(metavar="KEY", help="Entry of the output, if the model returns several."),
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Class or task to explain, by name or number (default: the predicted class).",
    ),
]
ClassesOption = Annotated[
    str | None,
    typer.Option(help="Names of the classes, with commas (default: class 0, class 1, ...)."),
]
SeedOption = Annotated[
    int,
    typer.Option(min=0, max=MAX_SEED, help="Seed of the explainers and of the choice of graphs."),
]


@dataclass(frozen=True)
class Subject:
    """What was asked about.

    Args:
        model: The model, with all that is known about it.
        found: All graphs.
        fitted: Graphs to learn from.
        graphs: Graphs to answer about.
        numbers: Numbers of the latter among all.
        classes: Names of the classes.
    """

    model: ExplainedModel
    found: list[Data]
    fitted: list[Data]
    graphs: list[Data]
    numbers: list[int]
    classes: list[str] | None


def name_or_number(text: str | None) -> int | str | None:
    """A class or task as it is known to the model."""
    return int(text) if text is not None and text.isdecimal() else text


def read_subject(
    data: str,
    model: str | None,
    weights: Path | None,
    *,
    count: int,
    seed: int,
    quiet: bool,
    skipped: Path,
    mode: ModeName | None = None,
    call: str | None = None,
    output: str | None = None,
    target: str | None = None,
    contrast: str | None = None,
    classes: str | None = None,
    device: str | None = None,
    chemprop: Path | None = None,
    trust_model_file: bool = False,
    extra: dict[str, Path | None] | None = None,
    table: dict[str, Any] | None = None,
) -> Subject:
    """Reads model and graphs, and calls the model once."""
    from hpme.commands.factories import (
        TRIAL_GRAPHS,
        build_model,
        choose_graphs,
        find_function,
        read_data,
        try_model,
    )
    from hpme.models.explained import ExplainedModel

    place = None if device is None else usage("--device", check_device, device)
    if (model is None) == (chemprop is None):
        refuse("give one of --model and --chemprop", "--model")
    given = {name: value for name, value in (table or {}).items() if value}
    found = read_data(data, skipped, progress=not quiet, **given)
    if chemprop is not None:
        from hpme.commands.molecules import read_chemprop

        if not all(isinstance(graph.get("smiles"), str) for graph in found):
            refuse("--chemprop needs a table of SMILES", "--data")
        hydrogens = bool(given.get("hydrogens"))
        subject, found = read_chemprop(
            chemprop, found, extra or {}, hydrogens=hydrogens, trust=trust_model_file
        )
    else:
        subject = ExplainedModel(build_model(model or "", weights))
    names = None if classes is None else [name.strip() for name in classes.split(",")]
    subject = ExplainedModel.of(
        subject,
        mode=None if mode is None else mode.value,
        call=None if call is None else usage("--call", find_function, call),
        output=name_or_number(output),
        classes=names,
        target=name_or_number(target),
        contrast=name_or_number(contrast),
    )
    if place is not None:
        subject.model.to(place)
    fitted, explained, numbers = choose_graphs(found, count, seed)
    try_model(subject, explained[:TRIAL_GRAPHS])
    if not quiet:
        say(f"{len(found):,} graphs; {len(explained):,} explained, learning from {len(fitted):,}")
        if weights is None and chemprop is None:
            say("no --weights: the model is explained as the function returns it")
    return Subject(subject, found, fitted, explained, numbers, names)
