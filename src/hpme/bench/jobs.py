"""A plan as jobs that any process can do, here or on a cluster, with estimates and progress."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from hpme.bench.experiment import Experiment
from hpme.bench.outcome import recipe_of
from hpme.bench.run import dataset_and_target, run_experiment
from hpme.bench.store import OTHER, Plan, Record, ResultStore
from hpme.data import DATASETS
from hpme.data.registry import dataset_path, default_root, load_dataset
from hpme.execute import Done, Executor, Failure, RayExecutor
from hpme.explainers import EXPLAINERS
from hpme.models import recipe_for
from hpme.models.registry import target_path
from hpme.storage import canonical_json, write_atomically


@dataclass(frozen=True)
class Job:
    """A piece of work."""

    kind: Literal["target", "experiment"]  # to prepare its target, or to run it
    experiment: Experiment


def work(job: Job) -> Done:
    """Does a job in this process; an error becomes a :class:`Failure`."""
    # Sums depend on the number of threads in their last bits, and results must not.
    torch.set_num_threads(1)
    try:
        if job.kind == "target":
            dataset_and_target(*job.experiment.target)
            return Done(job)
        return Done(job, run_experiment(job.experiment))
    except Exception as error:
        return Done(job, failure=Failure.of(error))


def run_plan(
    plan: Plan,
    store: ResultStore,
    executor: Executor,
    *,
    suite_of: Callable[[Experiment], str] = lambda experiment: OTHER,
    ended: Callable[[Done], None] = lambda done: None,
    pulse: Callable[[], None] = lambda: None,
) -> list[tuple[Experiment, Failure]]:
    """Runs what is left of a plan, targets before their experiments; returns what failed."""
    waiting: dict[object, list[Experiment]] = {}
    for experiment in plan.todo:
        waiting.setdefault(experiment.target, []).append(experiment)
    targets = [Job("target", experiment) for experiment in reversed(plan.targets)]
    ready: list[Job] = []
    failures: list[tuple[Experiment, Failure]] = []
    running = 0

    while ready or targets or running:
        # Experiments first: they keep the dataset that a worker has loaded in use.
        while executor.free and (ready or targets):
            executor.submit((ready or targets).pop())
            running += 1
        for done in executor.wait(1.0):
            running -= 1
            experiment, is_target = done.job.experiment, done.job.kind == "target"
            served = waiting.pop(experiment.target) if is_target else [experiment]
            if done.failure is not None:
                for lost in served:
                    store.put_failure(lost, done.failure)
                    failures.append((lost, done.failure))
            elif is_target:
                ready[:0] = [Job("experiment", item) for item in reversed(served)]
            else:
                store.put(done.result, suite_of(experiment))
            ended(done)
        pulse()
    return failures


Bundle = dict[str, bytes]
"""Content of files by their path in the cache."""


class ExperimentCluster(RayExecutor):
    """Datasets and targets are made once and sent to whoever needs them."""

    def __init__(self, address: str | None = None) -> None:
        super().__init__(_work, address)
        self._bundles: dict[object, Any] = {}
        self._ended: list[Done] = []

    def submit(self, job: Job, *luggage: Any) -> None:
        """Gives a job to the cluster; what is in the cache of this machine is not made again."""
        if job.kind == "target" and is_prepared(job.experiment):
            self._keep(job, pack(job.experiment))
            self._ended.append(Done(job))
        else:
            super().submit(job, self._bundles.get(job.experiment.target))

    def wait(self, timeout: float) -> list[Done]:
        """Jobs whose results have come."""
        ended, self._ended = self._ended, []
        return ended + super().wait(0 if ended else timeout)

    def _collect(self, reference: Any) -> Done:
        done = super()._collect(reference)
        if done.job.kind == "target" and done.failure is None:
            unpack(done.result)  # so that this machine need not make it in another run
            self._keep(done.job, done.result)
            return Done(done.job)
        return done

    def _keep(self, job: Job, bundle: Bundle) -> None:
        self._bundles[job.experiment.target] = self._ray.put(bundle)


def _work(job: Job, bundle: Bundle | None) -> Done:
    """Does a job with the files it needs; those of a target that was made come back with it."""
    if bundle is not None:
        unpack(bundle)
    done = work(job)
    if job.kind == "target" and done.failure is None:
        return Done(job, pack(job.experiment))
    return done


def is_prepared(experiment: Experiment) -> bool:
    """Whether the dataset and the target of an experiment are in the cache; nothing is made."""
    return all(path.exists() for path in _files(experiment))


def pack(experiment: Experiment) -> Bundle:
    """The files of an experiment whose dataset and target are in the cache."""
    root = default_root()
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in _files(experiment)}


def unpack(bundle: Bundle) -> None:
    """Puts files into the cache that are not there yet."""
    for name, content in bundle.items():
        path = default_root() / name
        if not path.exists():
            write_atomically(path, content)


def _files(experiment: Experiment) -> Iterator[Path]:
    """The file of the dataset; only whoever asks on needs the dataset, for that of the target."""
    asked: dict[str, Any] = {"variant": experiment.variant, "size": experiment.size}
    yield dataset_path(experiment.dataset, **asked)
    dataset = load_dataset(experiment.dataset, **asked, progress=False)
    recipe = recipe_of(dataset, experiment.train_steps)
    yield target_path(dataset, experiment.model, experiment.target_seed, recipe=recipe)


UNKNOWN_SECONDS = 1.0
"""For what is no explainer."""
TYPICAL_GRAPHS = 200
"""That explainers say what is typical for."""
SECONDS_PER_STEP = 0.02
"""Typical for the training of a target."""


class CostModel:
    """Estimates seconds by the most similar results."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._per_graph: dict[tuple[object, ...], list[float]] = defaultdict(list)
        self._paces: list[float] = []
        for record in records:
            self.learn(record)

    def learn(self, record: Record) -> None:
        """Takes another result into account."""
        cost = record.cost
        seconds = cost["fit_seconds"] + cost["explain_seconds"] + cost["metric_seconds"]
        graphs = record.experiment.graphs  # as many as were asked for: a dataset may have fewer
        for kind in _kinds(record.experiment):
            self._per_graph[kind].append(seconds / graphs)
        if typical := _typical(record.experiment.explainer):
            self._paces.append(seconds / (typical * graphs / TYPICAL_GRAPHS))

    def seconds(self, experiment: Experiment) -> float:
        """What an experiment takes on one core, its target not counted."""
        for kind in _kinds(experiment):
            if kind in self._per_graph:
                return statistics.fmean(self._per_graph[kind]) * experiment.graphs
        typical = _typical(experiment.explainer) or UNKNOWN_SECONDS
        return self.pace * typical * experiment.graphs / TYPICAL_GRAPHS

    @property
    def pace(self) -> float:
        """How much longer than is typical results took on this machine; 1 without any."""
        return statistics.median(self._paces) if self._paces else 1.0

    def measured(self, experiment: Experiment) -> bool:
        """Whether the estimate comes from results of this explainer on this dataset."""
        return any(kind in self._per_graph for kind in _kinds(experiment)[:-1])


def _typical(explainer: str | None) -> float | None:
    known = EXPLAINERS.get(explainer or "")
    return None if known is None else known.typical_seconds


def target_seconds(experiment: Experiment) -> float:
    """What the training of a target typically takes on one core."""
    longest = recipe_for(DATASETS[experiment.dataset]).max_steps
    return SECONDS_PER_STEP * min(longest, experiment.train_steps or longest)


def _kinds(experiment: Experiment) -> list[tuple[object, ...]]:
    """Groups of alike experiments, from narrow to wide."""
    options = canonical_json(dict(experiment.options))
    explainer, dataset = experiment.explainer, experiment.dataset
    return [(explainer, dataset, experiment.metrics, options), (explainer, dataset), (explainer,)]


class Watch:
    """Shows what has ended, and how long the rest will take by estimates that learn from it."""

    def __init__(
        self,
        todo: Iterable[Experiment],
        costs: CostModel,
        workers: int,
        console: Console,
        *,
        untrained: Iterable[Experiment] = (),
        every: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left = {experiment.key: experiment for experiment in todo}
        self._untrained = {experiment.target: experiment for experiment in untrained}
        self._total, self._failed = len(self._left), 0
        self._costs, self._workers, self._console = costs, workers, console
        self._every, self._clock, self._said = every, clock, clock()
        self._last = ""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        note, silent = TextColumn("{task.fields[note]}"), not console.is_terminal
        self._bar = Progress(*columns, note, console=console, disable=silent)
        self._task = self._bar.add_task("experiments", total=self._total, note="")
        self._bar.start()

    def ended(self, done: Done) -> None:
        """Takes note of a job."""
        experiment, failed = done.job.experiment, done.failure is not None
        if done.job.kind == "target":
            self._untrained.pop(experiment.target, None)
            self._last = f"target of {experiment.dataset} {'failed' if failed else 'ready'}"
            gone = [e for e in self._left.values() if failed and e.target == experiment.target]
        else:
            self._last = f"{experiment}{' failed' if failed else ''}"
            gone = [experiment]
        for lost in gone:
            self._failed += failed
            self._left.pop(lost.key, None)
        if done.result is not None:
            self._costs.learn(done.result)

    def pulse(self) -> None:
        """Redraws the bar, or says a line if it is time for one."""
        done = self._total - len(self._left)
        self._bar.update(self._task, completed=done, note=self._note())
        if self._bar.disable and self._clock() - self._said >= self._every:
            self._said = self._clock()
            line = f"{done}/{self._total} {self._note()}"
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Leaves the terminal as it was."""
        self._bar.stop()

    @property
    def seconds_left(self) -> float:
        """What the rest will take, by the estimates."""
        targets = self._costs.pace * sum(map(target_seconds, self._untrained.values()))
        return (sum(map(self._costs.seconds, self._left.values())) + targets) / self._workers

    def _note(self) -> str:
        failed = f"{self._failed} failed, " if self._failed else ""
        return f"{failed}about {duration(self.seconds_left)} left; {self._last}"


def duration(seconds: float) -> str:
    """A time people can read."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"
