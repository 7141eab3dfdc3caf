"""Experiments on a Ray cluster: datasets and targets travel to whoever needs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hpme.bench.experiment import Experiment
from hpme.bench.jobs import Job, work
from hpme.bench.outcome import recipe_of
from hpme.data.cache import default_root
from hpme.data.registry import dataset_path, load_dataset
from hpme.execute.cluster import RayExecutor
from hpme.execute.jobs import Done
from hpme.models.checkpoint import target_path
from hpme.storage import write_atomically

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
