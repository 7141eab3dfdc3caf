"""Jobs on the machines of a Ray cluster."""

from __future__ import annotations

import socket
from typing import Any

from hpme.errors import ClusterError, InputError, MissingPackageError
from hpme.execute.jobs import Done, Failure, Work

RETRIES = 10
"""How often a job is begun again because its machine or process was lost."""


class RayExecutor:
    """One core per job, on whichever machine has one free; a lost machine's jobs begin again.

    The other machines need this package and nothing else. Without an address Ray is started on this
    machine. ``work`` travels to every machine once; ``ahead`` is how many jobs per core may wait in
    Ray's queue, by default any number.
    """

    def __init__(self, work: Work, address: str | None = None, *, ahead: int | None = None) -> None:
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
        self._work = ray.put(work)
        self._ahead = ahead
        self._running: dict[Any, Any] = {}

    @property
    def free(self) -> bool:
        """Whether the queue is short; what no machine can begin yet waits there."""
        return self._ahead is None or len(self._running) < self._ahead * self.cores

    @property
    def cores(self) -> int:
        """Jobs the cluster can do at the same time now."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def submit(self, job: Any, *luggage: Any) -> None:
        """Gives a job to the cluster; references to Ray's objects arrive as these."""
        self._running[self._do.remote(self._work, job, *luggage)] = job

    def wait(self, timeout: float) -> list[Done]:
        """Jobs whose results have come."""
        if not self._running:
            return []
        references = list(self._running)
        self._ray.wait(references, timeout=timeout)
        ready, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
        return [self._collect(reference) for reference in ready]

    def close(self) -> None:
        """Leaves the cluster, which then drops the jobs of this process."""
        self._ray.shutdown()

    def _collect(self, reference: Any) -> Done:
        job = self._running.pop(reference)
        try:
            done: Done = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:  # lost more often than RETRIES
            return Done(job, failure=Failure(type(error).__name__, str(error)))
        return done


def _do(work: Work, job: Any, *luggage: Any) -> Done:
    return work(job, *luggage)


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
