"""Jobs on the machines of a Ray cluster."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from hpme.bench.execute.jobs import Done, Job, work
from hpme.bench.experiment import Experiment
from hpme.bench.outcome import recipe_of
from hpme.bench.store import Failure
from hpme.data.cache import default_root
from hpme.data.registry import dataset_path, load_dataset
from hpme.errors import ClusterError, InputError, MissingPackageError
from hpme.models.checkpoint import target_path
from hpme.storage import locked, write_atomically

RETRIES = 10
"""How often a job is begun again because its machine or process was lost."""
Bundle = dict[str, bytes]
"""Content of files by their path in the cache."""


class RayExecutor:
    """One core per job, on whichever machine has one free; a lost machine's jobs begin again.

    The other machines need this package and nothing else: datasets and targets are made once and
    sent to whoever needs them, and results come back to this process. Without an address Ray is
    started on this machine.
    """

    def __init__(self, address: str | None = None) -> None:
        try:
            import ray
        except ImportError as error:
            raise MissingPackageError(
                "Ray is needed to use a cluster: pip install 'hpme[cluster]'"
            ) from error
        self._ray = ray
        if address is not None:
            _check_reachable(address)
        try:
            ray.init(address=address, log_to_driver=False, logging_level="error")
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ClusterError(f"no Ray cluster at '{address}': {error}") from error
        self._do = ray.remote(num_cpus=1, max_retries=RETRIES)(_do)
        self._running: dict[Any, Job] = {}
        self._bundles: dict[object, Any] = {}
        self._ended: list[Done] = []

    @property
    def free(self) -> bool:
        """Always: what no machine can begin yet waits in Ray's queue."""
        return True

    @property
    def cores(self) -> int:
        """Jobs the cluster can do at the same time now."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def submit(self, job: Job) -> None:
        """Gives a job to the cluster."""
        if job.kind == "target" and is_prepared(job.experiment):
            self._keep(job, pack(job.experiment))
            self._ended.append(Done(job))
        else:
            bundle = self._bundles.get(job.experiment.target)
            self._running[self._do.remote(job, bundle)] = job

    def wait(self, timeout: float) -> list[Done]:
        """Jobs whose results have come."""
        ended, self._ended = self._ended, []
        if self._running:
            references = list(self._running)
            self._ray.wait(references, timeout=0 if ended else timeout)
            ready, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
            ended += [self._collect(reference) for reference in ready]
        return ended

    def close(self) -> None:
        """Leaves the cluster, which then drops the jobs of this process."""
        self._ray.shutdown()

    def _collect(self, reference: Any) -> Done:
        job = self._running.pop(reference)
        try:
            done, bundle = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:  # lost more often than RETRIES
            return Done(job, failure=Failure(type(error).__name__, str(error)))
        if bundle is not None:
            unpack(bundle)  # so that this machine need not make it in another run
            self._keep(job, bundle)
        ended: Done = done
        return ended

    def _keep(self, job: Job, bundle: Bundle) -> None:
        self._bundles[job.experiment.target] = self._ray.put(bundle)


def _check_reachable(address: str) -> None:
    """Ray itself would try for a quarter of an hour and then end the process."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        raise InputError(f"'{address}' is no address of a cluster; write HOST:PORT")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise ClusterError(
            f"no Ray cluster at '{address}' ({error}); start one with: ray start --head"
        ) from error


def _do(job: Job, bundle: Bundle | None) -> tuple[Done, Bundle | None]:
    """Does a job with the files it needs; those of a target that was made come back with it."""
    if bundle is not None:
        unpack(bundle)
    done = work(job)
    made = job.kind == "target" and done.failure is None
    return done, pack(job.experiment) if made else None


def is_prepared(experiment: Experiment) -> bool:
    """Whether the dataset and the target of an experiment are in the cache; nothing is made."""
    return _dataset_path(experiment).exists() and _target_path(experiment).exists()


def pack(experiment: Experiment) -> Bundle:
    """The files of an experiment whose dataset and target are in the cache."""
    dataset = _dataset_path(experiment)
    files = [dataset, dataset.with_suffix(".json"), _target_path(experiment)]
    root = default_root()
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in files}


def unpack(bundle: Bundle) -> None:
    """Puts files into the cache that are not there yet."""
    paths = {default_root() / name: content for name, content in bundle.items()}
    with locked(next(iter(paths))):  # the dataset, which is two files
        for path, content in paths.items():
            if not path.exists():
                write_atomically(path, content)


def _dataset_path(experiment: Experiment) -> Path:
    return dataset_path(experiment.dataset, variant=experiment.variant, size=experiment.size)


def _target_path(experiment: Experiment) -> Path:
    dataset = load_dataset(
        experiment.dataset, variant=experiment.variant, size=experiment.size, progress=False
    )
    recipe = recipe_of(dataset, experiment.train_steps)
    return target_path(dataset, experiment.model, experiment.target_seed, recipe=recipe)
