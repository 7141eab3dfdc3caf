"""A plan as jobs that any process can do: train a target, or run an experiment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from hpme.bench.experiment import Experiment
from hpme.bench.outcome import recipe_of
from hpme.bench.run import dataset_and_target, run_experiment
from hpme.bench.store import OTHER, Plan, ResultStore
from hpme.data.registry import dataset_path, default_root, load_dataset
from hpme.execute import Done, Executor, Failure, RayExecutor
from hpme.models.registry import target_path
from hpme.storage import write_atomically


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
