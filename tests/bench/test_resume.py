"""A benchmark that is killed and started again gives what an undisturbed one gives."""

import os
import signal
import subprocess
import sys
import time

import pytest

from hpme.bench import SUITES, ResultStore, run_experiment
from hpme.bench.runner import Plan
from hpme.commands.bench import chosen_experiments

PROGRAM = "from hpme.cli import main; main()"
SMALL = {"size": 40, "graphs": 8, "train_steps": 5}
DETERMINISTIC = ("values", "spread", "undefined", "context")


@pytest.fixture
def experiments():
    return chosen_experiments(
        SUITES["table1"],
        seeds="100-102",
        datasets="ba-2motifs,ba-motif-volume",
        explainers="grad,gnnexplainer",
        **SMALL,
    )


@pytest.fixture
def command(tmp_path, monkeypatch):
    monkeypatch.setenv("HPME_CACHE_DIR", str(tmp_path / "cache"))
    options = ["--seeds", "100-102", "--datasets", "ba-2motifs,ba-motif-volume"]
    options += ["--explainers", "grad,gnnexplainer", "--workers", "2"]
    for name, value in SMALL.items():
        options += [f"--{name.replace('_', '-')}", str(value)]
    options += ["--out", str(tmp_path / "out")]
    return [sys.executable, "-c", PROGRAM, "bench", "table1", *options]


def test_killed_and_resumed_equals_undisturbed(command, experiments, tmp_path, monkeypatch):
    store = ResultStore(tmp_path / "out")
    results = store.folder / "results"
    process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    _until(lambda: len(list(results.glob("*.json"))) >= 2 or process.poll() is not None)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    _until(lambda: not _members(process.pid))  # workers notice that nobody waits for them
    plan = Plan.of(experiments, store)
    assert 2 <= len(plan.done) < len(experiments)
    finished = {path: path.read_bytes() for path in results.glob("*.json")}

    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{len(plan.todo)} done, 0 failed" in done.stderr
    assert {path: path.read_bytes() for path in finished} == finished

    monkeypatch.setenv("HPME_CACHE_DIR", str(tmp_path / "other-cache"))
    for experiment in experiments:
        resumed, undisturbed = store.get(experiment), run_experiment(experiment)
        for name in DETERMINISTIC:
            assert getattr(resumed, name) == getattr(undisturbed, name), name


def _members(session):
    """Processes of a session."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "-s", str(session)], capture_output=True, text=True, check=False
    )
    return listed.stdout.split()


def _until(condition, seconds=120):
    for _ in range(seconds * 20):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail("waited in vain")
