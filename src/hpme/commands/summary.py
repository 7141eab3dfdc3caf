"""Results of one explainer over seeds: how they come about, and how they are shown and written."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from hpme.commands.shared import number, say

if TYPE_CHECKING:
    from hpme.bench import Outcome, Record, Target
    from hpme.data import GraphDataset

GALLERY_GRAPHS = 6


def prepare(
    dataset: GraphDataset, model: str, seed: int, train_steps: int | None, *, quiet: bool
) -> Target:
    """The model to explain, trained or from the cache."""
    from hpme.bench import Target, recipe_of

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


def announce(outcome: Outcome, record: Record) -> None:
    """Says how a seed went."""
    say(
        f"seed {record.experiment.seed}: AUC {number(record.values['auc'])}, "
        f"fitted in {outcome.fit_seconds:.1f} s, explained in {outcome.explain_seconds:.2f} s"
    )
    report = getattr(outcome.explainer, "report", None)
    if report is not None:
        say(f"  {report.summary()}")
        for warning in report.warnings:
            say(f"  warning: {warning}", style="yellow")


def draw(outcome: Outcome, path: Path) -> None:
    """Draws the first explained graphs."""
    from hpme.viz import gallery

    method, model = str(outcome.experiment.explainer), outcome.target.name
    gallery(
        outcome.graphs[:GALLERY_GRAPHS],
        {method: outcome.explanations[:GALLERY_GRAPHS]},
        path,
        predictions=outcome.predictions[:GALLERY_GRAPHS],
        title=f"{outcome.dataset.info.title}: {model} explained by {method}",
    )


def summary(records: Sequence[Record]) -> dict[str, Any]:
    """Records that differ in the seed alone as JSON values, with mean and spread over seeds."""
    first = records[0]
    aucs = [auc for record in records if (auc := record.values["auc"]) is not None]
    return {
        "dataset": first.experiment.dataset,
        "variant": first.context["variant"],
        "explainer": first.experiment.explainer,
        "model": first.experiment.model,
        "auc_mean": statistics.fmean(aucs) if aucs else None,
        "auc_std": statistics.pstdev(aucs) if aucs else None,
        "runs": [_flat(record) for record in records],
    }


def _flat(record: Record) -> dict[str, Any]:
    experiment = record.experiment
    return {
        "dataset": experiment.dataset,
        "explainer": experiment.explainer,
        "model": experiment.model,
        "seed": experiment.seed,
        "target_seed": experiment.target_seed,
        **record.context,
        **record.values,
        "auc_undefined": record.undefined.get("auc"),
        **record.cost,
        "versions": record.versions,
    }


def write_summary(content: dict[str, Any], path: Path) -> None:
    """Writes a result file; a kill leaves the previous one or this one, never a part."""
    from hpme.storage import write_atomically

    write_atomically(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())


def show(content: dict[str, Any]) -> None:
    """Prints a table with a row per seed and the mean."""
    runs = content["runs"]
    table = Table(
        title="{explainer} explains {model} on {dataset} ({variant})".format(**content),
        title_justify="left",
        header_style="bold",
    )
    for name in ("seed", "graphs", "AUC", "AUC per graph", "fit [s]", "explain [s]"):
        table.add_column(name.replace("[", r"\["), justify="right")
    for run in runs:
        table.add_row(
            str(run["seed"]),
            str(run["graphs"]),
            number(run["auc"]),
            number(run["auc_per_graph"]),
            f"{run['fit_seconds']:.1f}",
            f"{run['explain_seconds']:.2f}",
        )
    console = Console()
    console.print(table)
    spread = f"{number(content['auc_mean'])} ± {number(content['auc_std'])}"
    console.print(f"AUC {spread} over {len(runs)} seed{'s' * (len(runs) > 1)}", style="bold")
    for reason in dict.fromkeys(run["auc_undefined"] for run in runs if run["auc_undefined"]):
        console.print(f"AUC is undefined: {reason}", style="yellow")
