"""Worker processes that die."""

import os
import signal
import time

import pytest

from hpme.execute.local import LocalExecutor


@pytest.fixture
def executor():
    made = LocalExecutor(1, time.sleep)
    yield made
    made.close()


def test_a_worker_that_is_killed_fails_its_job_and_is_replaced(executor):
    job = 60
    before = executor.processes
    executor.submit(job)
    assert not executor.free
    os.kill(before[0], signal.SIGKILL)
    (done,) = _wait(executor)
    assert (done.job, done.result) == (job, None)
    assert done.failure.error == "WorkerDied"
    assert "SIGKILL" in done.failure.message
    assert "memory" in done.failure.message
    assert executor.free
    assert executor.processes != before


def test_a_worker_that_dies_idle_is_replaced(executor):
    (before,) = executor.processes
    os.kill(before, signal.SIGKILL)
    while _alive(before):
        time.sleep(0.01)
    executor.submit(60)
    (after,) = executor.processes
    assert after != before


def test_closing_ends_workers_at_work(executor):
    executor.submit(60)
    (process,) = executor.processes
    executor.close()
    assert not _alive(process)
    assert executor.processes == []


def _wait(executor):
    for _ in range(60):
        done = executor.wait(1.0)
        if done:
            return done
    pytest.fail("nobody noticed")


def _alive(process):
    """Whether a child process runs; one that has ended stays as a zombie until it is joined."""
    try:
        return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return False
