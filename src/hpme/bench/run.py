"""From an experiment to its record."""

from __future__ import annotations

import functools
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch_geometric

from hpme import __version__
from hpme.bench.experiment import Experiment
from hpme.bench.measures import EXHIBITS, MEASURES, Measured
from hpme.bench.outcome import Outcome, Target, explain, recipe_of
from hpme.bench.store import Record
from hpme.data import GraphDataset, load_dataset
from hpme.errors import UnknownNameError
from hpme.explainers.metagnn_adaptation import AdaptationReport
from hpme.metrics import GraphScores
from hpme.storage import json_values

if sys.platform != "win32":
    import resource

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def run_experiment(experiment: Experiment) -> Record:
    """Runs an experiment from nothing but its description; what it needs is made or cached."""
    return run_on(experiment, *dataset_and_target(*experiment.target))[0]


def run_on(
    experiment: Experiment, dataset: GraphDataset, target: Target, *, progress: bool = False
) -> tuple[Record, Outcome]:
    """Runs an experiment on its dataset and target; its record, and what that was computed from."""
    own_peak = reset_peak()
    start = time.process_time()
    outcome = explain(experiment, dataset, target, progress=progress)
    record = record_of(outcome)
    record.cost.update(
        cpu_seconds=time.process_time() - start,
        peak_memory_mib=peak_mib(),
        peak_memory_of="experiment" if own_peak else "process",
    )
    return record, outcome


@functools.lru_cache(maxsize=1)  # experiments come sorted, and a large dataset is large
def dataset_and_target(
    name: str,
    variant: str | None,
    size: int | None,
    model: str,
    target_seed: int,
    train_steps: int | None,
) -> tuple[GraphDataset, Target]:
    """The dataset and the target of :attr:`Experiment.target`."""
    dataset = load_dataset(name, variant=variant, size=size, progress=False)
    recipe = recipe_of(dataset, train_steps)
    return dataset, Target.prepare(dataset, model, target_seed, recipe=recipe)


def record_of(outcome: Outcome) -> Record:
    """Computes the metrics an experiment asks for."""
    experiment, start = outcome.experiment, time.perf_counter()
    measured: Measured = {}
    exhibits: dict[str, Any] = {}
    for name in experiment.metrics:
        if name in EXHIBITS:
            exhibits[name] = EXHIBITS[name](outcome)
        elif name in MEASURES:
            measured.update(MEASURES[name](outcome))
        else:
            raise UnknownNameError("metric set", name, [*MEASURES, *EXHIBITS])
    means = {k: v.mean if isinstance(v, GraphScores) else v for k, v in measured.items()}
    defined = {name: float(mean) for name, mean in means.items() if mean.reason is None}
    return Record(
        experiment=experiment,
        values={name: defined.get(name) for name in means},
        spread={
            k: float(v.std)
            for k, v in measured.items()
            if isinstance(v, GraphScores) and k in defined
        },
        undefined={name: mean.reason for name, mean in means.items() if mean.reason is not None},
        context={**_context(outcome), **({"exhibits": exhibits} if exhibits else {})},
        cost={
            "fit_seconds": outcome.fit_seconds,
            "explain_seconds": outcome.explain_seconds,
            "explainer_cpu_seconds": outcome.cpu_seconds,
            "target_passes": outcome.target_passes,
            "metric_seconds": time.perf_counter() - start,
        },
        versions=versions(),
    )


def _context(outcome: Outcome) -> dict[str, Any]:
    dataset, explainer = outcome.dataset, outcome.explainer
    report, copy = getattr(explainer, "report", None), None
    if isinstance(report, AdaptationReport):  # of the copy that was trained and explained
        copy = {report.metric: report.after, "graphs": report.graphs, "held_out": report.held_out}
    context = {
        "variant": dataset.variant,
        "rule": dataset.rule,
        "size": len(dataset),
        "graphs": len(outcome.graphs),
        "companions": len(outcome.companions),
        "seen_before": dataset.drawn_before(outcome.numbers),
        "config": None if explainer is None else explainer.config(),
        "pool_ratio_source": outcome.pool_ratio_source,
        "report": None if report is None else report.to_dict(),
        "target_metrics": outcome.target.report and outcome.target.report.metrics,
        "target_model_metrics": copy,
    }
    return {name: json_values(value) for name, value in context.items()}


def versions() -> dict[str, str]:
    """What the last bits of a result depend on: the software, and the processor's vector units."""
    return {
        "commit": commit(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "hpme": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "torch_geometric": torch_geometric.__version__,
    }


@functools.cache
def commit() -> str:
    """The commit this code was checked out from, ``+`` if files were changed; else ``release``."""
    folder = Path(__file__).parents[3]
    if not (folder / ".git").exists():
        return "release"
    command = ["git", "-C", str(folder), "describe", "--always", "--abbrev=10", "--dirty=+"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return asked.stdout.strip()


def reset_peak() -> bool:
    """Sets the kernel's high-water mark back; false where only the peak of the process is known."""
    try:
        _CLEAR.write_text("5")
    except OSError:
        return False
    return True


def peak_mib() -> float | None:
    """Most memory the process has held at once since :func:`reset_peak`, in MiB."""
    try:
        lines = _STATUS.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        if sys.platform == "win32":
            return None
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
