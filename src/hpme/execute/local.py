"""Jobs in processes of this machine."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from hpme.execute.jobs import Done, Failure, Work

_CONTEXT = multiprocessing.get_context("spawn")  # a fork would inherit locks of torch's threads


class LocalExecutor:
    """Worker processes with one thread each; one that dies fails its own job and is replaced.

    Args:
        workers: Number of processes.
        work: Does a job; every process has a copy of its own.
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
        worker.start(job)
        self._busy.append(worker)

    def wait(self, timeout: float) -> list[Done]:
        """Jobs whose worker has answered or died."""
        handles = {worker.connection: worker for worker in self._busy}
        ended = []
        for handle in wait(list(handles), timeout):
            worker = handles[handle]  # type: ignore[index]
            self._busy.remove(worker)
            done = worker.answer()
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
    """A process and the line to it."""

    def __init__(self, work: Work) -> None:
        self.connection, theirs = _CONTEXT.Pipe()
        self.process: SpawnProcess = _CONTEXT.Process(
            target=_serve, args=(theirs, work), daemon=True
        )
        self.process.start()
        theirs.close()  # so that the end of the process is the end of the line
        self.job: Any = None

    def start(self, job: Any) -> None:
        self.job = job
        with suppress(OSError):  # a process that is gone is noticed when it should answer
            self.connection.send(job)

    def answer(self) -> Done:
        job, self.job = self.job, None
        try:
            done: Done = self.connection.recv()
            return done
        except (EOFError, OSError):
            self.process.join()
            return Done(job, failure=Failure("WorkerDied", _exit_text(self.process.exitcode)))


def _exit_text(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        name = signal.Signals(-exitcode).name
        hint = "; was memory short? Try fewer workers" if name == "SIGKILL" else ""
        return f"the worker process was ended by {name}{hint}"
    return f"the worker process ended with exit code {exitcode}"


def _serve(connection: Connection, work: Work) -> None:
    """Does jobs until the line is cut."""
    logging.getLogger("hpme").setLevel(logging.ERROR)  # what is worth telling is in results
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            job = connection.recv()
        except (EOFError, OSError):
            return
        connection.send(work(job))


def _end_with_parent() -> None:
    """A parent that was killed cannot end its workers."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
