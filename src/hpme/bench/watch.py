"""A long run: estimates of how long it takes, and its progress as a bar or as lines."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from hpme.bench.experiment import Experiment
from hpme.bench.store import Record
from hpme.data import DATASETS
from hpme.execute import Done
from hpme.explainers import EXPLAINERS
from hpme.models import recipe_for
from hpme.storage import canonical_json

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
        self._bar: Progress | None = None
        if console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
            self._bar = Progress(*columns, TextColumn("{task.fields[note]}"), console=console)
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
        if self._bar is not None:
            self._bar.update(self._task, completed=self._total - len(self._left), note=self._note())
        elif self._clock() - self._said >= self._every:
            self._said = self._clock()
            done = self._total - len(self._left)
            line = f"{done}/{self._total} {self._note()}"
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Leaves the terminal as it was."""
        if self._bar is not None:
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
