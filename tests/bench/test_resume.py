"""A benchmark that is killed and started again gives what an undisturbed one gives."""

import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from hpme import execute
from hpme.bench import Plan, ResultStore, run_experiment
from hpme.bench.run import dataset_and_target
from hpme.cli import app
from hpme.commands.bench import chosen_experiments
from hpme.paper.suites import SUITES

PROGRAM = "from hpme.cli import main; main()"
CHOICE = {
    "seeds": "100",
    "datasets": "ba-2motifs,ba-motif-volume",
    "explainers": "grad,random",
    "size": 40,
    "graphs": 8,
    "train_steps": 5,
}


def test_killed_and_resumed_equals_undisturbed(tmp_path, monkeypatch, inline):
    """The killed run has workers of its own, the resumed one works in this process."""
    monkeypatch.setenv("HPME_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    arguments = ["bench", "table1", "--workers", "1", "--out", str(tmp_path / "out")]
    for name, value in CHOICE.items():
        arguments += [f"--{name.replace('_', '-')}", str(value)]
    experiments = chosen_experiments(SUITES["table1"], **CHOICE)
    store = ResultStore(tmp_path / "out")
    results = store.path("table1")

    def lines():
        return results.read_bytes().splitlines(keepends=True) if results.exists() else []

    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _until(lambda: len(lines()) >= 2 or process.poll() is not None)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    _until(lambda: not _members(process.pid))  # workers notice that nobody waits for them
    plan = Plan.of(experiments, store)
    assert 2 <= len(plan.done) < len(experiments)
    finished = {line for line in lines() if line.endswith(b"\n")}

    monkeypatch.setattr(execute, "LocalExecutor", lambda workers, work: inline())
    dataset_and_target.cache_clear()
    resumed = CliRunner().invoke(app, arguments)
    assert resumed.exit_code == 0, resumed.stderr
    assert f"{len(plan.todo)} done, 0 failed" in resumed.stderr
    assert finished <= set(lines()) and len(lines()) == len(experiments)

    monkeypatch.setenv("HPME_CACHE_DIR", str(tmp_path / "other-cache"))
    dataset_and_target.cache_clear()
    for experiment in experiments:
        stored, undisturbed = store.get(experiment), run_experiment(experiment)
        for name in ("values", "spread", "undefined", "context"):
            assert getattr(stored, name) == getattr(undisturbed, name), name
    dataset_and_target.cache_clear()


def _members(session):
    """Processes of a session."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "-s", str(session)], capture_output=True, text=True, check=False
    )
    return listed.stdout.split()


def _until(condition, seconds=600):
    for _ in range(seconds * 20):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail("waited in vain")
