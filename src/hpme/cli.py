"""The ``hpme`` command."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.table import Table

from hpme import __version__
from hpme.bench import (
    Experiment,
    Outcome,
    Record,
    Summary,
    Target,
    explain,
    make_explainer,
    parse_seeds,
    recipe_of,
    record_of,
)
from hpme.commands.bench import bench
from hpme.commands.explain import explain as explain_command
from hpme.commands.report import report
from hpme.commands.shared import (
    check_writable,
    known,
    number,
    parse_options,
    parse_rules,
    refuse,
    reports_errors,
    say,
    usage,
)
from hpme.data import DATASETS, GraphDataset, from_smiles_csv, load_dataset
from hpme.explainers import EXPLAINERS
from hpme.models import MODELS
from hpme.viz import check_picture_path, gallery

app = typer.Typer(
    name="hpme",
    help="Explain graph neural networks: datasets with ground truth, explainers, scores.",
    epilog="Built datasets and trained models are kept in $HPME_CACHE_DIR, by default the "
    "platform's cache folder.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
app.command()(bench)
app.command("explain")(explain_command)
app.command()(report)
GALLERY_GRAPHS = 6


class Kind(str, Enum):
    """What ``hpme list`` can list."""

    datasets = "datasets"
    explainers = "explainers"
    models = "models"


class TaskName(str, Enum):
    """What the labels of a user's molecules are."""

    classification = "classification"
    regression = "regression"


class OnErrorName(str, Enum):
    """What to do with a row that is no molecule."""

    skip = "skip"
    stop = "raise"


def main() -> None:
    """Entry point of the ``hpme`` command."""
    app()


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hpme {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
    threads: Annotated[
        int,
        typer.Option(min=1, help="Threads for computing; more than one pays for huge graphs only."),
    ] = 1,
) -> None:
    # Small tensors: threads wait for each other, on a busy machine for most of the time.
    torch.set_num_threads(threads)


@app.command("list")
def list_names(kind: Annotated[Kind, typer.Argument(help="What to list.")]) -> None:
    """List what can be run: datasets, explainers or models."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    if kind is Kind.datasets:
        _columns(table, "name", "task", "graphs", "variants", "description")
        for info in DATASETS.values():
            variants = ", ".join(info.variants)
            table.add_row(info.name, info.task, f"{info.num_graphs:,}", variants, info.description)
    elif kind is Kind.explainers:
        _columns(table, "name", "learns", "tasks", "levels", "description")
        for name, explainer in EXPLAINERS.items():
            learns = "from labels" if explainer.needs_labels else "yes"
            table.add_row(
                name,
                learns if explainer.needs_fit else "no",
                ", ".join(explainer.tasks),
                ", ".join(explainer.levels),
                explainer.summary,
            )
    else:
        _columns(table, "name", "description")
        for name, model in MODELS.items():
            table.add_row(name, (model.__doc__ or "").strip().splitlines()[0])
    # A pipe has no width; the 80 columns rich assumes would break lines somebody wants to grep.
    Console(width=None if Console().is_terminal else 160).print(table)


def _columns(table: Table, *names: str) -> None:
    for name in names:
        table.add_column(name, no_wrap=name != "description")


DatasetOption = Annotated[
    str | None, typer.Option("--dataset", "-d", help="See: hpme list datasets.")
]
ExplainerOption = Annotated[
    str, typer.Option("--explainer", "-e", help="See: hpme list explainers.")
]
ModelOption = Annotated[
    str, typer.Option("--model", "-m", help="Model to explain. See: hpme list models.")
]
SeedsOption = Annotated[
    str,
    typer.Option(
        "--seeds",
        "-s",
        help="Seeds of the explainer and of the choice of graphs: 0-4, or 0,3,7, or 0-2,7.",
    ),
]
VariantOption = Annotated[
    str | None,
    typer.Option(help="See: hpme list datasets; by default the first that the dataset has."),
]
GraphsOption = Annotated[int, typer.Option(min=1, help="Number of graphs to explain.")]
TargetSeedOption = Annotated[int, typer.Option(min=0, help="Seed the model is trained with.")]
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
    int | None, typer.Option(min=10, help="Number of graphs in the dataset, to try things out.")
]
StepsOption = Annotated[
    int | None,
    typer.Option(min=1, help="Longest training of the model, in steps, to try things out."),
]
JsonOption = Annotated[
    Path | None,
    typer.Option("--json", dir_okay=False, help="Result file, rewritten after every seed."),
]
GalleryOption = Annotated[
    Path | None,
    typer.Option(
        "--gallery", dir_okay=False, help="Picture (.png or .svg) of some graphs of the first seed."
    ),
]
OWN = "Your own molecules"
SmilesOption = Annotated[
    Path | None,
    typer.Option(
        "--smiles",
        exists=True,
        dir_okay=False,
        rich_help_panel=OWN,
        help="CSV file of molecules with a header, in place of --dataset.",
    ),
]
SmilesColumnOption = Annotated[
    str | None, typer.Option(rich_help_panel=OWN, help="Column of the SMILES [default: smiles].")
]
LabelColumnOption = Annotated[
    str | None,
    typer.Option(rich_help_panel=OWN, help="Column of the labels; without it, rules give them."),
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
TaskOption = Annotated[
    TaskName | None,
    typer.Option(rich_help_panel=OWN, help="What the labels are [default: classification]."),
]
OnErrorOption = Annotated[
    OnErrorName | None,
    typer.Option(
        rich_help_panel=OWN,
        help="Skip rows that are no molecule or have no label, or stop [default: skip].",
    ),
]
HydrogensOption = Annotated[
    bool, typer.Option("--hydrogens", rich_help_panel=OWN, help="Make hydrogens nodes, too.")
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        rich_help_panel=OWN,
        help="Processes that read molecules [default: one, for many molecules one per processor].",
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


@app.command()
@reports_errors
def run(
    dataset: DatasetOption = None,
    explainer: ExplainerOption = "hpme",
    model: ModelOption = "gcn",
    seeds: SeedsOption = "0",
    variant: VariantOption = None,
    graphs: GraphsOption = 200,
    target_seed: TargetSeedOption = 0,
    option: OptionsOption = None,
    size: SizeOption = None,
    train_steps: StepsOption = None,
    json_file: JsonOption = None,
    gallery_file: GalleryOption = None,
    smiles: SmilesOption = None,
    smiles_column: SmilesColumnOption = None,
    label_column: LabelColumnOption = None,
    name_column: NameColumnOption = None,
    rule: RuleOption = None,
    task: TaskOption = None,
    on_error: OnErrorOption = None,
    hydrogens: HydrogensOption = False,
    workers: WorkersOption = None,
    quiet: QuietOption = False,
) -> None:
    """Explain a model on a dataset and score the explanations against the ground truth.

    The model is trained first, or taken from the cache. For every seed the explainer is fitted to
    the same graphs it then explains; AUC is the ROC-AUC of edge scores pooled over all of them.

    Exit codes: 0 done, 1 failed while running, 2 wrong usage.
    """
    own: dict[str, Any] = {
        "smiles_column": smiles_column,
        "label_column": label_column,
        "name_column": name_column,
        "rules": usage("--rule", parse_rules, rule or []),
        "task": task and task.value,
        "on_error": on_error and on_error.value,
        "hydrogens": hydrogens,
        "workers": workers,
    }
    _check_source(dataset, smiles, variant, own)
    known("--explainer", "explainer", explainer, EXPLAINERS)
    known("--model", "model", model, MODELS)
    numbers = usage("--seeds", parse_seeds, seeds)
    options = usage("--option", parse_options, option or [])
    if gallery_file is not None:
        usage("--gallery", check_picture_path, gallery_file)
    usage("--json", check_writable, json_file)
    usage("--gallery", check_writable, gallery_file)
    loaded: GraphDataset
    if smiles is None:
        load = functools.partial(load_dataset, variant=variant, size=size, progress=not quiet)
        loaded = usage("--variant", load, dataset)
    else:
        given = {name: value for name, value in own.items() if value}
        loaded = from_smiles_csv(smiles, size=size, progress=not quiet, **given)
    usage("--option", make_explainer, explainer, loaded, numbers[0], options)
    target = _prepare(loaded, model, target_seed, train_steps, quiet)
    records: list[Record] = []
    for seed in numbers:
        experiment = Experiment(
            loaded.info.name,
            explainer,
            seed,
            model=model,
            variant=loaded.variant,
            size=len(loaded),
            target_seed=target_seed,
            graphs=graphs,
            options=options,
            train_steps=train_steps,
        )
        outcome = explain(experiment, loaded, target, progress=not quiet)
        records.append(record_of(outcome))
        if json_file is not None:
            Summary(records).write(json_file)
        if gallery_file is not None and seed == numbers[0]:
            draw(outcome, loaded, gallery_file)
        if not quiet:
            _announce(outcome, records[-1])
    if not quiet:
        show(Summary(records))


def _check_source(
    dataset: str | None, smiles: Path | None, variant: str | None, own: Mapping[str, Any]
) -> None:
    """Refuses options that would do nothing where the graphs come from."""
    if (dataset is None) == (smiles is None):
        refuse("give one of --dataset and --smiles", "--dataset")
    if dataset is not None:
        known("--dataset", "dataset", dataset, DATASETS)
        for name, value in own.items():
            if value:
                option = "rule" if name == "rules" else name.replace("_", "-")
                refuse("belongs to --smiles", f"--{option}")
        return
    if variant is not None:
        refuse("belongs to --dataset", "--variant")
    if own["label_column"] is None and not own["rules"]:
        refuse("give the column of the labels, or a --rule to label by", "--label-column")
    if own["label_column"] is None and own["task"] == "regression":
        refuse("regression needs labels; rules give classes", "--label-column")


@app.command()
@reports_errors
def demo(
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder to write to.")] = Path(
        "out/demo"
    ),
    size: SizeOption = None,
    graphs: GraphsOption = 200,
    train_steps: StepsOption = None,
) -> None:
    """Explain a GCN on BA-2Motifs with HPME: a table, a picture, a result file, the explainer."""
    files = [out / "gallery.png", out / "result.json", out / "explainer.safetensors"]
    for path in files:
        usage("--out", check_writable, path)
    dataset = load_dataset("ba-2motifs", size=size)
    target = _prepare(dataset, "gcn", 0, train_steps, quiet=False)
    experiment = Experiment(
        "ba-2motifs", "hpme", 0, size=size, graphs=graphs, train_steps=train_steps
    )
    outcome = explain(experiment, dataset, target, progress=True)
    record = record_of(outcome)
    _announce(outcome, record)
    summary = Summary([record])
    draw(outcome, dataset, files[0])
    summary.write(files[1])
    assert outcome.explainer is not None
    outcome.explainer.save(files[2])
    show(summary)
    typer.echo("\nwritten:")
    for path in files:
        typer.echo(f"  {path}")


def _prepare(
    dataset: GraphDataset, model: str, seed: int, train_steps: int | None, quiet: bool
) -> Target:
    recipe = recipe_of(dataset, train_steps)
    target = Target.prepare(dataset, model, seed, recipe=recipe, progress=not quiet)
    if not quiet:
        test = ", ".join(
            f"{key} {value:.4g}" for key, value in target.report.metrics["test"].items()
        )
        say(f"{model} on {dataset.info.title} ({dataset.variant}), test {test}")
        if dataset.info.rules:
            say(f"label: {dataset.rule}")
    return target


def _announce(outcome: Outcome, record: Record) -> None:
    say(
        f"seed {record.experiment.seed}: AUC {number(record.values['auc'])}, "
        f"fitted in {outcome.fit_seconds:.1f} s, explained in {outcome.explain_seconds:.2f} s"
    )
    report = getattr(outcome.explainer, "report", None)
    if report is not None:
        say(f"  {report.summary()}")
        for warning in report.warnings:
            say(f"  warning: {warning}", style="yellow")


def show(summary: Summary) -> None:
    """Prints a table with a row per seed and the mean."""
    experiment, variant = summary.records[0].experiment, summary.records[0].context["variant"]
    table = Table(
        title=f"{experiment.explainer} explains {experiment.model} on {experiment.dataset} "
        f"({variant})",
        title_justify="left",
        header_style="bold",
    )
    for name in ("seed", "graphs", "AUC", "AUC per graph", "fit [s]", "explain [s]"):
        table.add_column(name.replace("[", r"\["), justify="right")
    for record in summary.records:
        table.add_row(
            str(record.experiment.seed),
            str(record.context["graphs"]),
            number(record.values["auc"]),
            number(record.values["auc_per_graph"]),
            f"{record.cost['fit_seconds']:.1f}",
            f"{record.cost['explain_seconds']:.2f}",
        )
    console = Console()
    console.print(table)
    spread = f"{number(summary.auc_mean)} ± {number(summary.auc_std)}"
    runs = len(summary.records)
    console.print(f"AUC {spread} over {runs} seed{'s' * (runs > 1)}", style="bold")
    for reason in dict.fromkeys(r.undefined["auc"] for r in summary.records if r.undefined):
        console.print(f"AUC is undefined: {reason}", style="yellow")


def draw(outcome: Outcome, dataset: GraphDataset, path: Path) -> None:
    """Draws the first explained graphs."""
    method, model = str(outcome.experiment.explainer), outcome.target.name
    gallery(
        outcome.graphs[:GALLERY_GRAPHS],
        {method: outcome.explanations[:GALLERY_GRAPHS]},
        path,
        predictions=outcome.predictions[:GALLERY_GRAPHS],
        title=f"{dataset.info.title}: {model} explained by {method}",
    )
