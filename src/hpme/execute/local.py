"""Jobs in processes of this machine."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from hpme.execute.jobs import Done, Failure, Work

_CONTEXT = multiprocessing.get_context("spawn")  # a fork would inherit locks of torch's threads
STARTING = 300.0
"""Seconds that a process may take to start once there is a job for it."""


class LocalExecutor:
    """Worker processes with one thread each; one that dies fails its own job and is replaced.

    They start side by side; one that takes too long counts as dead.
    """

    def __init__(self, workers: int, work: Work) -> None:
        self._work = work
        self._idle = [_Worker(work) for _ in range(workers)]
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
            worker = _Worker(self._work)
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
                self._idle.append(worker if worker.process.is_alive() else _Worker(self._work))
                ended.append(done)
        return ended

    def close(self) -> None:
        """Ends all workers, also those at work."""
        for worker in self._idle + self._busy:
            worker.process.kill()
        for worker in self._idle + self._busy:
            worker.process.join()
        self._idle, self._busy = [], []


class _Worker:
    """A process and the line to it; it asks first: nothing is sent to one that does not read."""

    def __init__(self, work: Work) -> None:
        self.connection, theirs = _CONTEXT.Pipe()
        self.process: SpawnProcess = _CONTEXT.Process(target=_serve, args=(theirs,), daemon=True)
        with _uninterrupted():
            self.process.start()
        theirs.close()  # so that the end of the process is the end of the line
        self.work, self.job, self.given, self.started = work, None, 0.0, False

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


def _serve(connection: Connection) -> None:
    """Does jobs until the line is cut."""
    logging.getLogger("hpme").setLevel(logging.ERROR)  # what is worth telling is in results
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        connection.send(None)
        work, job = connection.recv()
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
