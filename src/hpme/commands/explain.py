"""``hpme explain``: anybody's model on anybody's graphs, as a page."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpme.commands import catalog
from hpme.commands.options import (
    CHEMPROP,
    OWN,
    AtomDescriptorsOption,
    AtomFeaturesOption,
    BondFeaturesOption,
    DescriptorsOption,
    DeviceOption,
    GraphsOption,
    HydrogensOption,
    NameColumnOption,
    OptionsOption,
    QuietOption,
    RuleOption,
    SmilesColumnOption,
)
from hpme.commands.shared import (
    check_device,
    check_writable,
    command,
    known,
    parse_options,
    parse_rules,
    refuse,
    say,
    usage,
)
from hpme.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from hpme.explainers import GraphExplainer
    from hpme.models.explained import ExplainedModel


class ModeName(str, Enum):
    """What the model's output means."""

    multiclass = "multiclass_classification"
    binary = "binary_classification"
    regression = "regression"


@command
def explain(
    data: Annotated[
        str,
        typer.Option(
            "--data",
            "-d",
            metavar="FILE|MODULE:FUNCTION",
            help="Table of SMILES (.csv, .tsv), file of hpme.data.save_graphs (.safetensors), or "
            "function that returns a dataset or a list of Data.",
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="MODULE:FUNCTION",
            help="Function that returns your model, such as my_models:build; it is called "
            "without arguments.",
        ),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False, help="Weights (.safetensors) (default: those the function sets)."
        ),
    ] = None,
    explainer: Annotated[
        str,
        typer.Option("--explainer", "-e", help="Names from hpme list explainers, with commas."),
    ] = "hpme",
    out: Annotated[Path, typer.Option(dir_okay=False, help="The page to write.")] = Path(
        "report.html"
    ),
    graphs: GraphsOption = 200,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the explainers and of the choice of graphs.")
    ] = 0,
    mode: Annotated[
        ModeName | None,
        typer.Option(help="What the output means; needed if it is one value per graph."),
    ] = None,
    call: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="Function call(model, batch) that calls the model on a PyG Batch with all fields "
            "of the graphs (default: found by trial).",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Entry of the output, if the model returns several."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Class or task to explain, by name or number (default: the predicted class).",
        ),
    ] = None,
    contrast: Annotated[
        str | None,
        typer.Option(metavar="CLASS", help="Class that it is told apart from: why not this one?"),
    ] = None,
    option: OptionsOption = None,
    classes: Annotated[
        str | None,
        typer.Option(help="Names of the classes, with commas (default: class 0, class 1, ...)."),
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    save_explainer: Annotated[
        Path | None,
        typer.Option(file_okay=False, metavar="DIR", help="Folder for the fitted explainers."),
    ] = None,
    smiles_column: SmilesColumnOption = None,
    name_column: NameColumnOption = None,
    label_column: Annotated[
        str | None, typer.Option(rich_help_panel=OWN, help="Column of labels, to show them.")
    ] = None,
    rule: RuleOption = None,
    hydrogens: HydrogensOption = False,
    device: DeviceOption = None,
    chemprop: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            rich_help_panel=CHEMPROP,
            help="Model file of Chemprop 2, in place of --model; --data is a table of SMILES.",
        ),
    ] = None,
    trust_model_file: Annotated[
        bool,
        typer.Option(
            "--trust-model-file",
            rich_help_panel=CHEMPROP,
            help="Read a model file that names code other than Chemprop's. Such files are pickles: "
            "that code runs while they are read, so trust only files you made.",
        ),
    ] = False,
    descriptors_path: DescriptorsOption = None,
    atom_features_path: AtomFeaturesOption = None,
    atom_descriptors_path: AtomDescriptorsOption = None,
    bond_features_path: BondFeaturesOption = None,
    quiet: QuietOption = False,
) -> None:
    """Explain your own trained model: one HTML page that opens without a network.

    Explainers learn from the graphs alone; labels and ground truth, if there are any, are only
    shown. The page says what the model predicts on the edges an explanation keeps, and without
    them.

    Exit codes: 0 done, 1 failed while running, 2 wrong usage.
    """
    names = list(dict.fromkeys(name.strip() for name in explainer.split(",") if name.strip()))
    if not names:
        refuse("name at least one explainer", "--explainer")
    for name in names:
        known("--explainer", "explainer", name, catalog.names("explainers"))
    if (model is None) == (chemprop is None):
        refuse("give one of --model and --chemprop", "--model")
    options = usage("--option", parse_options, option or [])
    from hpme.commands.factories import (
        TRIAL_GRAPHS,
        build_model,
        choose_graphs,
        find_function,
        make_explainers,
        read_data,
        try_model,
    )
    from hpme.models.explained import ExplainedModel
    from hpme.report import report

    explainers = usage("--option", make_explainers, names, seed, options)
    usage("--out", _check_page, out)
    if save_explainer is not None:
        usage("--save-explainer", check_writable, save_explainer / f"{names[0]}.safetensors")
    table = {
        "smiles_column": smiles_column,
        "name_column": name_column,
        "label_column": label_column,
        "rules": usage("--rule", parse_rules, rule or []),
        "hydrogens": hydrogens,
        "task": "regression" if mode is ModeName.regression and label_column else None,
    }
    place = None if device is None else usage("--device", check_device, device)
    extra = {
        "x_d": descriptors_path,
        "V_f": atom_features_path,
        "V_d": atom_descriptors_path,
        "E_f": bond_features_path,
    }
    if chemprop is None and (trust_model_file or any(extra.values())):
        refuse("belongs to --chemprop", "--trust-model-file" if trust_model_file else "--model")
    skipped, given = out.with_suffix(".skipped.csv"), {k: v for k, v in table.items() if v}
    found = read_data(data, skipped, progress=not quiet, **given)
    if chemprop is not None:
        from hpme.commands.molecules import read_chemprop

        if not all(isinstance(graph.get("smiles"), str) for graph in found):
            refuse("--chemprop needs a table of SMILES", "--data")
        subject, found = read_chemprop(
            chemprop, found, extra, hydrogens=hydrogens, trust=trust_model_file
        )
    else:
        subject = ExplainedModel(build_model(model or "", weights))
    class_names = None if classes is None else [name.strip() for name in classes.split(",")]
    subject = ExplainedModel.of(
        subject,
        mode=None if mode is None else mode.value,
        call=None if call is None else usage("--call", find_function, call),
        output=_name_or_number(output),
        classes=class_names,
        target=_name_or_number(target),
        contrast=_name_or_number(contrast),
    )
    if place is not None:
        subject.model.to(place)
    fitted, explained, numbers = choose_graphs(found, graphs, seed)
    try_model(subject, explained[:TRIAL_GRAPHS])
    if not quiet:
        say(f"{len(found):,} graphs; {len(explained):,} explained, learning from {len(fitted):,}")
        if weights is None and chemprop is None:
            say("no --weights: the model is explained as the function returns it")
    explanations, reports = {}, {}
    for name, one in explainers.items():
        one.fit(subject, fitted, target=subject.target, progress=not quiet)
        explanations[name] = one.explain(subject, explained, progress=not quiet)
        if hasattr(one, "quality"):
            found_quality = one.quality(subject, explained)
            effects = one.effects(subject, explained, nodes=False)
            for item, quality, effect in zip(
                explanations[name], found_quality, effects, strict=True
            ):
                item.quality = {**asdict(quality), "effect": effect.mean}
        reports[name] = getattr(one, "report", None)
        if not quiet:
            _announce(name, one, reports[name])
            if hasattr(one, "quality"):
                counts = Counter(quality.verdict for quality in found_quality)
                shown = ", ".join(f"{word} {count:,}" for word, count in counts.most_common())
                say(f"  what predictions rest on: {shown}")
        if save_explainer is not None:
            one.save(save_explainer / f"{name}.safetensors")
    report(
        subject,
        explained,
        explanations,
        out,
        title=title,
        names=[_name(graph, number) for graph, number in zip(explained, numbers, strict=True)],
        class_names=_sides(subject, class_names),
        reports=reports,
        seed=seed,
        progress=not quiet,
    )
    if not quiet:
        typer.echo(str(out))


def _check_page(path: Path) -> None:
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"'{path}' must end in .html")
    check_writable(path)


def _announce(name: str, explainer: GraphExplainer, found: Any) -> None:
    size = getattr(explainer, "size", None)
    ratio = None if size is None else size.ratio
    say(f"{name}: done" + ("" if ratio is None else f", explanations of {ratio:.0%} of the nodes"))
    if found is not None:
        say(f"  {found.summary()}")
        for warning in found.warnings:
            say(f"  warning: {warning}", style="yellow")


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


def _name_or_number(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isdecimal() else text


def _name(graph: Data, number: int) -> str:
    name = graph.get("name")
    return name if isinstance(name, str) and name else f"graph {number}"
