"""Worker processes that die."""

import multiprocessing
import os
import signal
import time
from functools import partial

import pytest

from hpme import execute
from hpme.execute import Done, LocalExecutor

FORKS = [False, *([True] if "fork" in multiprocessing.get_all_start_methods() else [])]


@pytest.fixture(params=FORKS)
def executor(request):
    made = LocalExecutor(1, time.sleep, fork=request.param)
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


@pytest.mark.skipif(not FORKS[1:], reason="this system has no fork")
def test_a_copy_of_this_process_has_what_was_read_here():
    read = {"here": os.getpid()}
    executor = LocalExecutor(2, lambda job: Done(job, read["here"] + job), fork=True)
    executor.submit(1)  # functions like this one do not travel
    (done,) = _wait(executor)
    executor.close()
    assert done.result == os.getpid() + 1


def answer(luggage, job):
    return Done(job, len(luggage))


LARGE = partial(answer, bytes(1_000_000))
"""More than a pipe holds."""


@pytest.fixture
def in_time():
    """What hangs fails."""

    def fail(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def test_a_process_that_dies_while_it_starts_fails_its_job(monkeypatch, in_time):
    spawn, held = multiprocessing.util.spawnv_passfds, []

    def hold_first(*arguments):
        process = spawn(*arguments)
        if not held:
            os.kill(process, signal.SIGSTOP)  # it lives until it has its job
            held.append(process)
        return process

    multiprocessing.resource_tracker.ensure_running()
    monkeypatch.setattr(multiprocessing.util, "spawnv_passfds", hold_first)
    executor = LocalExecutor(1, LARGE)
    executor.submit("first")
    os.kill(held[0], signal.SIGKILL)
    (done,) = _wait(executor)
    assert (done.job, done.failure.error) == ("first", "WorkerDied")
    executor.submit("second")  # which finds another process
    (done,) = _wait(executor)
    assert (done.job, done.result) == ("second", 1_000_000)
    executor.close()


def test_a_process_that_does_not_come_up_is_given_up(monkeypatch, in_time):
    monkeypatch.setattr(execute, "STARTING", 0.3)
    spawn = multiprocessing.util.spawnv_passfds

    def stop(*arguments):
        process = spawn(*arguments)
        os.kill(process, signal.SIGSTOP)
        return process

    multiprocessing.resource_tracker.ensure_running()
    monkeypatch.setattr(multiprocessing.util, "spawnv_passfds", stop)
    executor, ended = LocalExecutor(2, LARGE), []  # both at once, and none is waited for
    try:
        executor.submit("job")
        executor.submit("other")
        while len(ended) < 2:
            ended += _wait(executor)
    finally:
        executor.close()
    assert {done.failure.error for done in ended} == {"WorkerDied"}


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
