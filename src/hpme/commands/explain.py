"""``hpme explain``: anybody's model on anybody's graphs, as a page."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
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
    check_writable,
    command,
    known,
    parse_options,
    parse_rules,
    refuse,
    say,
    usage,
)
from hpme.commands.subject import (
    CallOption,
    ClassesOption,
    DataOption,
    ModelOption,
    ModeName,
    ModeOption,
    OutputOption,
    SeedOption,
    TargetOption,
    WeightsOption,
    read_subject,
)
from hpme.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from hpme.explainers import GraphExplainer
    from hpme.models.explained import ExplainedModel


@command
def explain(
    data: DataOption,
    model: ModelOption = None,
    weights: WeightsOption = None,
    explainer: Annotated[
        str,
        typer.Option("--explainer", "-e", help="Names from hpme list explainers, with commas."),
    ] = "hpme",
    out: Annotated[Path, typer.Option(dir_okay=False, help="The page to write.")] = Path(
        "report.html"
    ),
    graphs: GraphsOption = 200,
    seed: SeedOption = 0,
    mode: ModeOption = None,
    call: CallOption = None,
    output: OutputOption = None,
    target: TargetOption = None,
    contrast: Annotated[
        str | None,
        typer.Option(metavar="CLASS", help="Class that it is told apart from: why not this one?"),
    ] = None,
    option: OptionsOption = None,
    classes: ClassesOption = None,
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
    from hpme.commands.factories import make_explainers
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
    extra = {
        "x_d": descriptors_path,
        "V_f": atom_features_path,
        "V_d": atom_descriptors_path,
        "E_f": bond_features_path,
    }
    if chemprop is None and (trust_model_file or any(extra.values())):
        refuse("belongs to --chemprop", "--trust-model-file" if trust_model_file else "--model")
    read = read_subject(
        data,
        model,
        weights,
        count=graphs,
        seed=seed,
        quiet=quiet,
        skipped=out.with_suffix(".skipped.csv"),
        mode=mode,
        call=call,
        output=output,
        target=target,
        contrast=contrast,
        classes=classes,
        device=device,
        chemprop=chemprop,
        trust_model_file=trust_model_file,
        extra=extra,
        table=table,
    )
    subject, fitted, explained = read.model, read.fitted, read.graphs
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
        names=[_name(graph, number) for graph, number in zip(explained, read.numbers, strict=True)],
        class_names=_sides(subject, read.classes),
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


def _name(graph: Data, number: int) -> str:
    name = graph.get("name")
    return name if isinstance(name, str) and name else f"graph {number}"
