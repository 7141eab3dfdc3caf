"""``hpme explain``: anybody's model on anybody's graphs, as a page."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpme.commands import catalog
from hpme.commands.insight import ShouldNotOption, ThresholdOption, check_patterns
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
from hpme.commands.page import check_page, explanations_of, write_page
from hpme.commands.question import BEYOND
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
    Subject,
    TargetOption,
    WeightsOption,
    read_subject,
)

if TYPE_CHECKING:
    from hpme.explainers import GraphExplainer

HPME, ANSWERS = "hpme", ("rules", "counterfactuals")


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
    beyond: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="rules,counterfactuals",
            rich_help_panel=BEYOND,
            help="What else the page says, by HPME: what the model has learned, what would change "
            "its answers.",
        ),
    ] = None,
    threshold: ThresholdOption = None,
    should: Annotated[
        str | None,
        typer.Option(
            metavar="SMARTS", rich_help_panel=BEYOND, help="Pattern that should matter, to audit."
        ),
    ] = None,
    should_not: ShouldNotOption = None,
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
    asked = _asked(beyond, should, should_not, threshold, names)
    options = usage("--option", parse_options, option or [])
    from hpme.commands.factories import make_explainers

    explainers = usage("--option", make_explainers, names, seed, options)
    usage("--out", check_page, out)
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
    explanations = {}
    for name, one in explainers.items():
        one.fit(read.model, read.fitted, target=read.model.target, progress=not quiet)
        explanations[name] = explanations_of(one, read, quiet=quiet)
        if not quiet:
            _announce(name, one, explanations[name])
        if save_explainer is not None:
            one.save(save_explainer / f"{name}.safetensors")
    answers = {}
    if asked:
        answers = _answers(explainers[HPME], read, asked, should, should_not, threshold, quiet)
    write_page(read, explainers, explanations, out, title=title, seed=seed, quiet=quiet, **answers)


def _asked(
    beyond: str | None,
    should: str | None,
    should_not: str | None,
    threshold: float | None,
    names: list[str],
) -> list[str]:
    """What the page is to say beyond one graph, checked before any work."""
    asked = [word.strip() for word in (beyond or "").split(",") if word.strip()]
    for word in asked:
        known("--with", "answer", word, ANSWERS)
    if threshold is not None and "counterfactuals" not in asked:
        refuse("belongs to --with counterfactuals", "--threshold")
    if should_not is not None and should is None:
        refuse("needs --should, the pattern that should matter", "--should-not")
    check_patterns(should, should_not)
    if should is not None:
        asked.append("audit")
    if asked and HPME not in names:
        refuse("rules, counterfactuals and audits need the explainer hpme", "--explainer")
    return asked


def _answers(
    explainer: GraphExplainer,
    read: Subject,
    asked: list[str],
    should: str | None,
    should_not: str | None,
    threshold: float | None,
    quiet: bool,
) -> dict[str, Any]:
    """What goes beyond one graph, by the names that the page knows."""
    from hpme.explainers import HPMEExplainer

    assert isinstance(explainer, HPMEExplainer)
    model, graphs, progress = read.model, read.graphs, not quiet
    answers: dict[str, Any] = {}
    if "rules" in asked:
        answers["rules"] = explainer.rules(model, graphs, progress=progress)
    if "counterfactuals" in asked:
        answers["counterfactuals"] = explainer.counterfactuals(
            model, graphs, threshold=threshold, progress=progress
        )
    if should is not None:
        answers["audit"] = explainer.audit(model, graphs, should, should_not)
    return answers


def _announce(name: str, explainer: GraphExplainer, explanations: list[Any]) -> None:
    size, found = getattr(explainer, "size", None), getattr(explainer, "report", None)
    ratio = None if size is None else size.ratio
    say(f"{name}: done" + ("" if ratio is None else f", explanations of {ratio:.0%} of the nodes"))
    if found is not None:
        say(f"  {found.summary()}")
        for warning in found.warnings:
            say(f"  warning: {warning}", style="yellow")
    qualities = [item.get("quality") for item in explanations]
    counts = Counter(quality["verdict"] for quality in qualities if quality)
    if counts:
        shown = ", ".join(f"{word} {count:,}" for word, count in counts.most_common())
        say(f"  what predictions rest on: {shown}")
