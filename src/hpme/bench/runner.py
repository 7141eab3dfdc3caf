"""Runs many experiments, each once, whatever fails on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from hpme.bench.experiment import Experiment
from hpme.bench.jobs import Done, Executor, Failure, Job
from hpme.bench.record import Record
from hpme.bench.store import ResultStore


@dataclass(frozen=True)
class Plan:
    """What is left to do.

    Args:
        experiments: All experiments, each once.
        done: Results that are stored and intact.
        todo: Experiments without one.
    """

    experiments: list[Experiment]
    done: list[Record]
    todo: list[Experiment]

    @classmethod
    def of(cls, experiments: Iterable[Experiment], store: ResultStore) -> Plan:
        """Looks every experiment up in the store.

        A result that has more metrics than an experiment asks for is a result of it, too.
        """
        unique = list({experiment.key: experiment for experiment in experiments}.values())
        found = [store.get(experiment) for experiment in unique]
        if None in found:
            stored: dict[str, list[Record]] = {}
            for record in store.records():
                stored.setdefault(_bare(record.experiment), []).append(record)
            found = [
                record or _covering(experiment, stored.get(_bare(experiment), []))
                for experiment, record in zip(unique, found, strict=True)
            ]
        pairs = list(zip(unique, found, strict=True))
        return cls(
            experiments=unique,
            done=[record for _, record in pairs if record is not None],
            todo=[experiment for experiment, record in pairs if record is None],
        )

    @property
    def targets(self) -> list[Experiment]:
        """For every target that is needed, the first experiment that needs it."""
        first: dict[object, Experiment] = {}
        for experiment in self.todo:
            first.setdefault(experiment.target, experiment)
        return list(first.values())


def _bare(experiment: Experiment) -> str:
    """Key of an experiment whatever its metrics."""
    return replace(experiment, metrics=()).key


def _covering(experiment: Experiment, records: Iterable[Record]) -> Record | None:
    wanted = set(experiment.metrics)
    return next((r for r in records if wanted <= set(r.experiment.metrics)), None)


def run_plan(
    plan: Plan,
    store: ResultStore,
    executor: Executor,
    *,
    ended: Callable[[Done], None] = lambda done: None,
    pulse: Callable[[], None] = lambda: None,
) -> list[tuple[Experiment, Failure]]:
    """Runs what is left of a plan; returns what failed.

    Every target is prepared once, by a job of its own; experiments wait for theirs. Results are
    written to the store as they come.

    Args:
        plan: What to run.
        store: Where results go.
        executor: Who does the work; the caller closes it.
        ended: Called with every job that has ended.
        pulse: Called about once a second.
    """
    waiting: dict[object, list[Experiment]] = {}
    for experiment in plan.todo:
        waiting.setdefault(experiment.target, []).append(experiment)
    targets = [Job("target", experiment) for experiment in reversed(plan.targets)]
    ready: list[Job] = []
    failures: list[tuple[Experiment, Failure]] = []
    running = 0

    def fail(experiment: Experiment, failure: Failure) -> None:
        store.put_failure(experiment, failure)
        failures.append((experiment, failure))

    while ready or targets or running:
        # Experiments first: they keep the dataset that a worker has loaded in use.
        while executor.free and (ready or targets):
            executor.submit((ready or targets).pop())
            running += 1
        for done in executor.wait(1.0):
            running -= 1
            experiment = done.job.experiment
            if done.job.kind == "target":
                dependents = waiting.pop(experiment.target)
                if done.failure is None:
                    ready[:0] = [Job("experiment", item) for item in reversed(dependents)]
                else:
                    for item in dependents:
                        fail(item, done.failure)
            elif done.failure is not None:
                fail(experiment, done.failure)
            else:
                assert done.result is not None
                store.put(Record.from_dict(done.result))
            ended(done)
        pulse()
    return failures
