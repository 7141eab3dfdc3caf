"""``hpme run``: one explainer on one dataset, over seeds."""

from __future__ import annotations

import functools
import hashlib
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from hpme.commands import catalog, options, shared
from hpme.limits import MAX_SEED

if TYPE_CHECKING:
    from hpme.bench import Outcome, Record, Target
    from hpme.data import GraphDataset


GALLERY_GRAPHS = 6


@shared.command
def run(
    table: options.TableOptions,
    chemprop: options.ChempropOptions,
    dataset: Annotated[
        str | None, typer.Option("--dataset", "-d", help="See: hpme list datasets.")
    ] = None,
    explainer: Annotated[
        str, typer.Option("--explainer", "-e", help="See: hpme list explainers.")
    ] = "hpme",
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            help="Model to explain, see: hpme list models (default: gcn, for heterogeneous graphs "
            "hetero; for explainers made for another one that).",
        ),
    ] = None,
    seeds: Annotated[
        str,
        typer.Option(
            "--seeds",
            "-s",
            help="Seeds of the explainer and of the choice of graphs: 0-4, or 0,3,7, or 0-2,7.",
        ),
    ] = "0",
    variant: Annotated[
        str | None,
        typer.Option(help="See: hpme list datasets; by default the first that the dataset has."),
    ] = None,
    graphs: options.GraphsOption = 200,
    target_seed: Annotated[
        int, typer.Option(min=0, max=MAX_SEED, help="Seed the model is trained with.")
    ] = 0,
    option: options.OptionsOption = None,
    size: options.SizeOption = None,
    train_steps: options.StepsOption = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", dir_okay=False, help="Result file, rewritten after every seed."),
    ] = None,
    gallery_file: Annotated[
        Path | None,
        typer.Option(
            "--gallery",
            dir_okay=False,
            help="Picture (.png or .svg) of some graphs of the first seed.",
        ),
    ] = None,
    smiles: Annotated[
        Path | None,
        options.about_molecules(
            "--smiles",
            exists=True,
            dir_okay=False,
            help="CSV file of molecules with a header, in place of --dataset.",
        ),
    ] = None,
    task: Annotated[
        Literal["classification", "regression"] | None,
        options.about_molecules(help="What the labels are (default: classification)."),
    ] = None,
    on_error: Annotated[
        Literal["skip", "raise"] | None,
        options.about_molecules(
            help="Skip rows without molecule or label, or stop (default: skip)."
        ),
    ] = None,
    workers: Annotated[
        int | None,
        options.about_molecules(
            min=1,
            help="Processes that read molecules (default: one, or for many one per processor).",
        ),
    ] = None,
    target: options.TargetOption = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out", file_okay=False, help="Folder of the results; seeds that are in it are done."
        ),
    ] = Path("out/run"),
    device: options.DeviceOption = None,
    quiet: options.QuietOption = False,
) -> None:
    """Explain a model on a dataset and score the explanations against the ground truth.

    The model is trained first, or taken from the cache; one of Chemprop, with --chemprop and
    --smiles, is explained as it is. For every seed the explainer is fitted to the same graphs it
    then explains; AUC is the ROC-AUC of edge scores pooled over all of them.

    Every finished seed is kept: a run that was stopped goes on where it was when started again.
    """
    shared.known("--explainer", "explainer", explainer, catalog.names("explainers"))
    if model is not None:
        shared.known("--model", "model", model, catalog.names("models"))
    more = {"task": task, "on_error": on_error, "workers": workers}
    own = table.arguments() | {name: value for name, value in more.items() if value}
    foreign = next((name.replace("_", "-") for name in own), "").replace("rules", "rule")
    unlabelled = smiles is not None and "label_column" not in own
    trained_here = "belongs to models that are trained here, not to --chemprop"
    alone = "needs molecules of your own: give --smiles in place of --dataset"
    for wrong, message, hint in (
        ((dataset is None) == (smiles is None), "give one of --dataset and --smiles", "--dataset"),
        (dataset is not None and bool(foreign), "belongs to --smiles", f"--{foreign}"),
        (dataset is None and variant is not None, "belongs to --dataset", "--variant"),
        (unlabelled and "rules" not in own, "give the column of the labels, or a --rule to label "
         "by", "--label-column"),
        (unlabelled and task == "regression", "regression needs labels; rules give classes",
         "--label-column"),
        (not chemprop.chemprop and target is not None, "belongs to --chemprop", "--target"),
        (bool(chemprop.chemprop) and smiles is None, alone, "--chemprop"),
        (bool(chemprop.chemprop) and model is not None, trained_here, "--model"),
        (bool(chemprop.chemprop) and train_steps is not None, trained_here, "--train-steps"),
    ):  # fmt: skip
        if wrong:
            shared.refuse(message, hint)
    if dataset is not None:
        shared.known("--dataset", "dataset", dataset, catalog.names("datasets"))
    if not chemprop.chemprop:
        chemprop.check("a model of the benchmark")
    from hpme.bench import Experiment, Plan, ResultStore, parse_seeds, run_on
    from hpme.commands.chemprop import chemprop_target
    from hpme.data import from_smiles_csv, load_dataset
    from hpme.explainers import EXPLAINERS
    from hpme.explainers.registry import make_explainer
    from hpme.models import ExplainedModel

    numbers = shared.usage("--seeds", parse_seeds, seeds)
    place = shared.usage("--device", shared.check_device, device or "cpu")
    given = shared.usage("--option", shared.parse_options, option or [])
    shared.usage("--json", shared.check_writable, json_file)
    shared.usage("--gallery", shared.check_writable, gallery_file, ".png", ".svg")
    loaded: GraphDataset
    trained: Target | None = None
    if smiles is None:
        load = functools.partial(load_dataset, variant=variant, size=size, progress=not quiet)
        loaded = shared.usage("--variant", load, dataset)
    else:
        loaded = from_smiles_csv(smiles, size=size, progress=not quiet, **own)
        content = smiles.read_bytes() + repr(sorted(own.items())).encode()
        out = out / f"{smiles.stem}-{hashlib.sha256(content).hexdigest()[:12]}"
        shared.list_skipped(loaded.skipped, len(loaded), out / "skipped.csv", quiet=quiet)
        if chemprop.chemprop:
            trained, loaded = chemprop_target(chemprop, loaded, target, hydrogens=table.hydrogens)
            model = trained.name
    if model is None:
        model = EXPLAINERS[explainer].default_model if loaded.schema is None else "hetero"
    shared.usage("--option", make_explainer, explainer, loaded, numbers[0], given)
    settings: dict[str, Any] = {"variant": variant, "size": size, "target_seed": target_seed}
    settings |= {"graphs": graphs, "model": model, "options": given, "train_steps": train_steps}
    experiments = [Experiment(loaded.info.name, explainer, seed, **settings) for seed in numbers]
    store = ResultStore(out)
    shared.usage("--out", shared.check_writable, store.path())
    done = {record.experiment.seed: record for record in Plan.of(experiments, store).done}
    if gallery_file is not None:
        done.pop(numbers[0], None)  # a result does not keep what is drawn
    records: list[Record] = []
    for experiment in experiments:
        record = done.get(experiment.seed)
        if record is None:
            if trained is None:
                trained = prepare(loaded, model, target_seed, train_steps, quiet=quiet)
            ExplainedModel.of(trained.model).model.to(place)
            record, outcome = run_on(experiment, loaded, trained, progress=not quiet)
            store.put(record)
            if gallery_file is not None and experiment.seed == numbers[0]:
                draw(outcome, gallery_file)
            if not quiet:
                announce(outcome, record)
        elif not quiet:
            auc = shared.number(record.values["auc"])
            shared.say(f"seed {experiment.seed}: AUC {auc}, from an earlier run; see {out}")
        records.append(record)
        if json_file is not None:
            write_summary(summary(records), json_file)
    if not quiet:
        show(summary(records))


def prepare(
    dataset: GraphDataset, model: str, seed: int, train_steps: int | None, *, quiet: bool
) -> Target:
    """The model to explain, trained or from the cache."""
    from hpme.bench import Target, recipe_of

    recipe = recipe_of(dataset, train_steps)
    target = Target.prepare(dataset, model, seed, recipe=recipe, progress=not quiet)
    if target.report is not None and not quiet:
        metrics = target.report.metrics["test"].items()
        test = ", ".join(f"{key} {value:.4g}" for key, value in metrics)
        shared.say(f"{model} on {dataset.info.title} ({dataset.variant}), test {test}")
        if dataset.info.rules:
            shared.say(f"label: {dataset.rule}")
    return target


def announce(outcome: Outcome, record: Record) -> None:
    """Says how a seed went."""
    shared.say(
        f"seed {record.experiment.seed}: AUC {shared.number(record.values['auc'])}, "
        f"fitted in {outcome.fit_seconds:.1f} s, explained in {outcome.explain_seconds:.2f} s"
    )
    report = getattr(outcome.explainer, "report", None)
    if report is not None:
        shared.say(f"  {report.summary()}")


def draw(outcome: Outcome, path: Path) -> None:
    """Draws the first explained graphs."""
    from hpme.viz import gallery

    method, some = str(outcome.experiment.explainer), slice(GALLERY_GRAPHS)
    gallery(
        outcome.graphs[some],
        {method: outcome.explanations[some]},
        path,
        predictions=outcome.predictions[some],
        title=f"{outcome.dataset.info.title}: {outcome.target.name} explained by {method}",
    )


def summary(records: Sequence[Record]) -> dict[str, Any]:
    """Records that differ in the seed alone as JSON values, with mean and spread over seeds."""
    names = ("dataset", "explainer", "model", "seed", "target_seed")
    runs = [
        {name: getattr(one.experiment, name) for name in names}
        | {**one.context, **one.values, "auc_undefined": one.undefined.get("auc")}
        | {**one.cost, "versions": one.versions}
        for one in records
    ]
    aucs = [run["auc"] for run in runs if run["auc"] is not None]
    return {
        **{name: runs[0][name] for name in ("dataset", "variant", "explainer", "model")},
        "auc_mean": statistics.fmean(aucs) if aucs else None,
        "auc_std": statistics.pstdev(aucs) if aucs else None,
        "runs": runs,
    }


def write_summary(content: dict[str, Any], path: Path) -> None:
    """Writes a result file; a kill leaves the previous one or this one, never a part."""
    from hpme.storage import write_atomically

    write_atomically(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def show(content: dict[str, Any]) -> None:
    """Prints a table with a row per seed and the mean."""
    runs = content["runs"]
    title = "{explainer} explains {model} on {dataset} ({variant})".format(**content)
    table = Table(title=title, title_justify="left", header_style="bold")
    for name in ("seed", "graphs", "AUC", "AUC per graph", r"fit \[s]", r"explain \[s]"):
        table.add_column(name, justify="right")
    for run in runs:
        scores = (shared.number(run[name]) for name in ("auc", "auc_per_graph"))
        seconds = f"{run['fit_seconds']:.1f}", f"{run['explain_seconds']:.2f}"
        table.add_row(str(run["seed"]), str(run["graphs"]), *scores, *seconds)
    console = Console()
    console.print(table)
    spread = f"{shared.number(content['auc_mean'])} ± {shared.number(content['auc_std'])}"
    console.print(f"AUC {spread} over {len(runs)} seed{'s' * (len(runs) > 1)}", style="bold")
    for reason in dict.fromkeys(run["auc_undefined"] for run in runs if run["auc_undefined"]):
        console.print(f"AUC is undefined: {reason}", style="yellow")
