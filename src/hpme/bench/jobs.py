"""A plan as jobs that any process can do: train a target, or run an experiment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch

from hpme.bench.experiment import Experiment
from hpme.bench.run import dataset_and_target, run_experiment
from hpme.bench.store import OTHER, Plan, ResultStore
from hpme.execute.jobs import Done, Executor, Failure


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
    """Runs what is left of a plan; returns what failed.

    Every target is prepared once, by a job of its own; experiments wait for theirs. Results are
    written to the store as they come, by this process alone, each into the file of the suite that
    ``suite_of`` names. ``pulse`` is called about once a second.
    """
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
