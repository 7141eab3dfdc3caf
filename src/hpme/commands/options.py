"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpme.limits import MAX_SIZE

GraphsOption = Annotated[int, typer.Option(min=1, help="Number of graphs to explain.")]
OptionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="KEY=VALUE",
        help="An argument of the explainer, such as ratio=0.2; may be repeated.",
    ),
]
SizeOption = Annotated[
    int | None,
    typer.Option(min=10, max=MAX_SIZE, help="Number of graphs in the dataset, to try things out."),
]
StepsOption = Annotated[
    int | None,
    typer.Option(min=1, help="Longest training of the model, in steps, to try things out."),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        metavar="DEVICE",
        help="Where the model runs, such as cuda or cuda:1; masks are the same on every device.",
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
OWN = "Your own molecules"
SmilesColumnOption = Annotated[
    str | None, typer.Option(rich_help_panel=OWN, help="Column of the SMILES [default: smiles].")
]
NameColumnOption = Annotated[
    str | None, typer.Option(rich_help_panel=OWN, help="Column of names, for pictures.")
]
RuleOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rule",
        metavar="NAME=SMARTS",
        rich_help_panel=OWN,
        help="Pattern that must match, such as 'carbonyl=[CX3]=O'; its matches are the ground "
        "truth. If repeated, all must match.",
    ),
]
HydrogensOption = Annotated[
    bool, typer.Option("--hydrogens", rich_help_panel=OWN, help="Make hydrogens nodes, too.")
]
CHEMPROP = "Chemprop models"
DescriptorsOption = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        metavar="FILE.npz",
        rich_help_panel=CHEMPROP,
        help="Descriptors of molecules, a row for each, as for chemprop predict.",
    ),
]
AtomFeaturesOption = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        metavar="FILE.npz",
        rich_help_panel=CHEMPROP,
        help="Additional features of atoms, an array per molecule.",
    ),
]
AtomDescriptorsOption = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        metavar="FILE.npz",
        rich_help_panel=CHEMPROP,
        help="Additional descriptors of atoms, an array per molecule.",
    ),
]
BondFeaturesOption = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        metavar="FILE.npz",
        rich_help_panel=CHEMPROP,
        help="Additional features of bonds, an array per molecule.",
    ),
]
