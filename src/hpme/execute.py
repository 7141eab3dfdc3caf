"""Jobs of any kind, done in this process, by others of this machine, or by a Ray cluster."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from hpme.errors import ClusterError, InputError, MissingPackageError


@dataclass(frozen=True)
class Failure:
    """Why there is no result."""

    error: str  # kind of error
    message: str
    trace: str = ""  # where it happened

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """The failure that is being handled."""
        return cls(type(error).__name__, str(error), traceback.format_exc())


@dataclass(frozen=True)
class Done:
    """A job that has come to an end."""

    job: Any
    result: Any = None  # nothing if it failed
    failure: Failure | None = None


Work = Callable[..., Done]
"""Does a job; an error becomes a :class:`Failure`. It travels to other processes."""


class Executor(Protocol):
    """Does jobs, many at a time; each of them comes back as :class:`Done` exactly once."""

    @property
    def free(self) -> bool:
        """Whether it takes another job now."""

    def submit(self, job: Any) -> None:
        """Begins a job."""

    def wait(self, timeout: float) -> list[Done]:
        """Jobs that have ended; none if nothing ends within ``timeout`` seconds."""

    def close(self) -> None:
        """Ends all work; jobs that have not ended are lost."""


class InProcess:
    """Does jobs at once, in this process."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._ended: list[Done] = []

    @property
    def free(self) -> bool:
        """Whether the job before has been asked for."""
        return not self._ended

    def submit(self, job: Any) -> None:
        """Does a job."""
        self._ended.append(self._work(job))

    def wait(self, timeout: float) -> list[Done]:
        """The job that was done."""
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        """Nothing is left to be ended."""


_CONTEXT = multiprocessing.get_context("spawn")  # a fork would inherit locks of torch's threads
STARTING = 300.0
"""Seconds that a process may take to start once there is a job for it."""


class LocalExecutor:
    """Worker processes with one thread each; one that dies fails its own job and is replaced.

    They start side by side; one that takes too long counts as dead. With ``fork`` they begin as
    copies of this process, with all that it has imported and read; then no other threads may run
    here, and nothing may have been computed on a GPU.
    """

    def __init__(self, workers: int, work: Work, *, fork: bool = False) -> None:
        self._work, self._fork = work, fork
        self._idle = [self._worker() for _ in range(workers)]
        self._busy: list[_Worker] = []

    @property
    def free(self) -> bool:
        """Whether a worker is idle."""
        return bool(self._idle)

    @property
    def processes(self) -> list[int]:
        """Process ids of the workers."""
        return [worker.process.pid or 0 for worker in self._idle + self._busy]

    def submit(self, job: Any) -> None:
        """Gives a job to an idle worker."""
        worker = self._idle.pop()
        if not worker.process.is_alive():  # killed while idle
            worker = self._worker()
        worker.take(job)
        self._busy.append(worker)

    def wait(self, timeout: float) -> list[Done]:
        """Jobs whose worker has answered or died."""
        handles = {worker.connection: worker for worker in self._busy}
        ready = [handles[handle] for handle in wait(list(handles), timeout)]  # type: ignore[index]
        ready += [worker for worker in self._busy if worker not in ready and worker.late()]
        ended = []
        for worker in ready:
            if (done := worker.heard()) is not None:
                self._busy.remove(worker)
                self._idle.append(worker if worker.process.is_alive() else self._worker())
                ended.append(done)
        return ended

    def _worker(self) -> _Worker:
        return _Worker(self._work, self._fork)

    def close(self) -> None:
        """Ends all workers, also those at work."""
        for worker in self._idle + self._busy:
            worker.process.kill()
        for worker in self._idle + self._busy:
            worker.process.join()
        self._idle, self._busy = [], []


class _Worker:
    """A process and the line to it; it asks first: nothing is sent to one that does not read."""

    def __init__(self, work: Work, fork: bool) -> None:
        self.connection, theirs = _CONTEXT.Pipe()
        begin = multiprocessing.get_context("fork") if fork else _CONTEXT
        given = (theirs, work if fork else None)
        self.process: BaseProcess = begin.Process(target=_serve, args=given, daemon=True)
        with _uninterrupted(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which PyTorch has
            self.process.start()
        theirs.close()  # so that the end of the process is the end of the line
        self.work, self.job, self.given, self.started = None if fork else work, None, 0.0, False

    def take(self, job: Any) -> None:
        """Gives it a job, at once or when it asks."""
        self.job, self.given = job, time.monotonic()
        if self.started:
            self._send(job)

    def late(self) -> bool:
        """Whether it takes too long to start; then it is ended."""
        if self.started or time.monotonic() - self.given < STARTING:
            return False
        self.process.kill()
        return True

    def heard(self) -> Done | None:
        """The end of its job, unless it only asks."""
        try:
            done: Done | None = self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            return Done(self.job, failure=Failure("WorkerDied", _exit_text(self.process.exitcode)))
        if done is None:
            self.started = True
            self._send((self.work, self.job))
        return done

    def _send(self, what: Any) -> None:
        with suppress(OSError):  # a process that is gone is noticed when it should answer
            self.connection.send(what)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C is for this process alone, not for one that is started here and cannot say so yet."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # which would unblock the signal when it is first started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _exit_text(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        name = signal.Signals(-exitcode).name
        hint = "; was memory short? Try fewer workers" if name == "SIGKILL" else ""
        return f"the worker process was ended by {name}{hint}"
    return f"the worker process ended with exit code {exitcode}"


def _serve(connection: Connection, copied: Work | None) -> None:
    """Does jobs until the line is cut."""
    logging.getLogger("hpme").setLevel(logging.ERROR)  # what is worth telling is in results
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        connection.send(None)
        sent, job = connection.recv()
        work = copied or sent
        while True:
            connection.send(work(job))
            job = connection.recv()
    except (EOFError, OSError):
        return


def _end_with_parent() -> None:
    """A parent that was killed cannot end its workers."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


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
