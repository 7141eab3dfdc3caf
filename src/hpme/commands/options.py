"""Options that several commands have.

Options that belong together are the fields of a dataclass; a command with a parameter of that type
has them all, see :func:`~hpme.commands.shared.command`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from hpme.commands.shared import check_writable, parse_rules, refuse, usage
from hpme.limits import MAX_SEED, MAX_SIZE

about_model = partial(typer.Option, rich_help_panel="Your model")
about_molecules = partial(typer.Option, rich_help_panel="Your own molecules")
about_chemprop = partial(typer.Option, rich_help_panel="Chemprop models")
beyond_one_graph = partial(typer.Option, rich_help_panel="Beyond one graph")
array_file = partial(about_chemprop, dir_okay=False, metavar="FILE.npz")

# Options that stand alone #########################################################################

GraphsOption = Annotated[int, typer.Option(min=1, help="Number of graphs to explain.")]
OptionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="KEY=VALUE",
        help="An argument of the explainer, such as ratio=0.2; may be repeated. All of them: "
        "hpme list explainers NAME.",
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
TargetOption = Annotated[
    str | None,
    about_model(
        metavar="NAME",
        help="Class or task to explain, by name or number (default: the predicted class).",
    ),
]
SmilesColumnOption = Annotated[
    str | None, about_molecules(help="Column of the SMILES (default: smiles).")
]
NameColumnOption = Annotated[str | None, about_molecules(help="Column of names, for pictures.")]
HydrogensOption = Annotated[bool, about_molecules("--hydrogens", help="Make hydrogens nodes, too.")]
ThresholdOption = Annotated[
    float | None, beyond_one_graph(help="Of counterfactuals of values: what to get past.")
]
ShouldNotOption = Annotated[
    str | None, beyond_one_graph(metavar="SMARTS", help="Pattern that should not matter.")
]

# Options that belong together #####################################################################


@dataclass(frozen=True, kw_only=True)
class NamedModel:
    """Of commands that ask a user's own model: which, and where it runs."""

    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="MODULE:FUNCTION",
            help="Function that returns your model, such as my_models:build; it is called "
            "without arguments.",
        ),
    ] = None
    weights: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False, help="Weights (.safetensors) (default: those the function sets)."
        ),
    ] = None
    call: Annotated[
        str | None,
        about_model(
            metavar="MODULE:FUNCTION",
            help="Function call(model, batch) that calls the model on a PyG Batch with all fields "
            "of the graphs (default: found by trial).",
        ),
    ] = None
    device: DeviceOption = None
    quiet: QuietOption = False


@dataclass(frozen=True, kw_only=True)
class SavedOptions(NamedModel):
    """Of commands that ask an explainer that was saved."""

    explainer: Annotated[
        Path, typer.Argument(dir_okay=False, help="File of explainer.save() or --save-explainer.")
    ]
    smiles_column: SmilesColumnOption = None
    name_column: NameColumnOption = None
    hydrogens: HydrogensOption = False


@dataclass(frozen=True, kw_only=True)
class ModelOptions(NamedModel):
    """Of commands that explain a user's own model: the graphs, and how the output is read."""

    data: Annotated[
        str,
        typer.Option(
            "--data",
            "-d",
            metavar="FILE|MODULE:FUNCTION",
            help="Table of SMILES (.csv, .tsv), file of hpme.data.save_graphs (.safetensors), or "
            "function that returns a dataset or a list of Data.",
        ),
    ]
    mode: Annotated[
        Literal["multiclass_classification", "binary_classification", "regression"] | None,
        about_model(help="What the output means; needed if it is one value per graph."),
    ] = None
    output: Annotated[
        str | None,
        about_model(metavar="KEY", help="Entry of the output, if the model returns several."),
    ] = None
    target: TargetOption = None
    contrast: Annotated[
        str | None,
        about_model(metavar="CLASS", help="Class that it is told apart from: why not this one?"),
    ] = None
    classes: Annotated[
        str | None,
        about_model(help="Names of the classes, with commas (default: class 0, class 1, ...)."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class InputOptions(ModelOptions):
    """Of commands that fit an explainer."""

    background: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|MODULE:FUNCTION",
            help="Graphs to learn from, as --data (default: those of --data).",
        ),
    ] = None
    seed: Annotated[
        int,
        typer.Option(
            min=0, max=MAX_SEED, help="Seed of the explainers and of the choice of graphs."
        ),
    ] = 0
    option: OptionsOption = None


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Of commands that read tables of SMILES: what stands where, and what becomes a node."""

    smiles_column: SmilesColumnOption = None
    name_column: NameColumnOption = None
    label_column: Annotated[
        str | None, about_molecules(help="Column of the labels; without it, rules give them.")
    ] = None
    rule: Annotated[
        list[str] | None,
        about_molecules(
            "--rule",
            metavar="NAME=SMARTS",
            help="Pattern that must match, such as 'carbonyl=[CX3]=O'; its matches are the ground "
            "truth. If repeated, all must match.",
        ),
    ] = None
    hydrogens: HydrogensOption = False

    def arguments(self) -> dict[str, Any]:
        """Those that are given, as arguments of :func:`~hpme.data.from_smiles_csv`."""
        found = {one.name: getattr(self, one.name) for one in fields(TableOptions)}
        found["rules"] = usage("--rule", parse_rules, self.rule or [])
        return {name: value for name, value in found.items() if value and name != "rule"}


@dataclass(frozen=True, kw_only=True)
class ChempropFiles:
    """Model files of Chemprop, in place of a function."""

    chemprop: Annotated[
        list[Path] | None,
        about_chemprop(
            metavar="FILE|FOLDER",
            help="Model file of Chemprop 2, in place of --model; --data is a table of SMILES. If "
            "repeated, or a folder of files, their mean is explained.",
        ),
    ] = None
    trust_model_file: Annotated[
        bool,
        about_chemprop(
            "--trust-model-file",
            help="Read a model file that names code other than Chemprop's. Such files are pickles: "
            "that code runs while they are read, so trust only files you made.",
        ),
    ] = False

    def check(self, model: str | None) -> None:
        """Refuses two models or none, and options that would do nothing."""
        if (model is None) == (not self.chemprop):
            refuse("give one of --model and --chemprop", "--model")
        if not self.chemprop and self.trust_model_file:
            refuse("belongs to --chemprop", "--trust-model-file")
        if not self.chemprop and self.files():
            refuse("belongs to --chemprop", "--model")

    def files(self) -> dict[str, Path]:
        """Files of additional features and descriptors by Chemprop's names."""
        return {}


@dataclass(frozen=True, kw_only=True)
class ChempropOptions(ChempropFiles):
    """Model files of Chemprop, and files of additional features."""

    descriptors_path: Annotated[
        Path | None,
        array_file(help="Descriptors of molecules, a row for each, as for chemprop predict."),
    ] = None
    atom_features_path: Annotated[
        Path | None, array_file(help="Additional features of atoms, an array per molecule.")
    ] = None
    atom_descriptors_path: Annotated[
        Path | None, array_file(help="Additional descriptors of atoms, an array per molecule.")
    ] = None
    bond_features_path: Annotated[
        Path | None, array_file(help="Additional features of bonds, an array per molecule.")
    ] = None

    def files(self) -> dict[str, Path]:
        """Files of additional features and descriptors by Chemprop's names."""
        found = {"x_d": self.descriptors_path, "V_d": self.atom_descriptors_path}
        found |= {"V_f": self.atom_features_path, "E_f": self.bond_features_path}
        return {name: path for name, path in found.items() if path is not None}


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """Of commands that ask beyond one graph: where the answer goes, besides being printed."""

    out: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="File to write: .json or .csv (default: print only)."),
    ] = None
    page: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="Page to write (.html): the answer, and explanations of the same graphs.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Question(AnswerOptions, ChempropOptions, TableOptions, InputOptions):
    """All of commands that ask beyond one graph."""

    def check_files(self) -> None:
        """Refuses files that could not be written, and two models or none, before any work."""
        self.check(self.model)
        usage("--out", check_writable, self.out, ".json", ".csv")
        usage("--page", check_writable, self.page, ".html", ".htm")
