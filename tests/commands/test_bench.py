"""hpme bench, with its jobs done in this process."""

import json
from pathlib import Path

import pytest

from hpme import execute
from hpme.bench import Failure, ResultStore, run
from hpme.execute import Done
from inline import Inline

CHOICE = ["--datasets", "ba-housegrid", "--explainers", "random,ground-truth"]
SMALL = ["--size", "40", "--graphs", "4", "--train-steps", "2"]
RUN = ["bench", "fidelity", *CHOICE, "--seeds", "100-101", *SMALL]


@pytest.fixture
def executor(monkeypatch):
    made = Inline()
    monkeypatch.setattr(execute, "LocalExecutor", lambda workers, work: made)
    return made


@pytest.fixture
def invoke(invoke, executor):
    return invoke


def test_a_run_and_nothing_left_to_do(invoke, executor):
    result = invoke(*RUN)
    assert result.exit_code == 0, result.stderr
    assert "4 done, 0 failed" in result.stderr
    assert executor.closed
    records = list(ResultStore("out/bench").records())
    assert {(r.experiment.explainer, r.experiment.seed) for r in records} == {
        (name, seed) for name in ("random", "ground-truth") for seed in (100, 101)
    }
    executor.before = lambda job: pytest.fail("work has begun")
    again = invoke(*RUN)
    assert again.exit_code == 0
    assert "nothing to do" in again.stdout


def test_a_dry_run_shows_the_plan(invoke, executor):
    executor.before = lambda job: pytest.fail("work has begun")
    result = invoke(*RUN, "--explainers", "random,hpme", "--dry-run", "--train-steps", "5000")
    assert result.exit_code == 0
    assert "4 to do, 1 targets to train" in result.stdout
    assert "estimate; 0 from results like them, 4 from what is typical" in result.stdout
    assert not Path("out").exists()


def test_all_serves_the_suites(invoke):
    some = ["--datasets", "ba-housegrid", "--seeds", "100", *SMALL]
    assert invoke("bench", "all", *some, "--explainers", "ground-truth").exit_code == 0
    (truth,) = ResultStore("out/bench").records()
    assert {"cosine", "simoar"} <= truth.values.keys()
    for suite in ("fidelity", "shift"):
        shown = invoke("bench", suite, *some, "--dry-run").stdout
        assert " 1 │" in shown.split("ba-housegrid")[1], shown


def test_finished_results_make_the_estimate(invoke):
    assert invoke(*RUN).exit_code == 0
    shown = invoke(*RUN, "--seeds", "100-103", "--dry-run").stdout
    assert "4 to do, 0 targets to train" in shown
    assert "4 from results like them" in shown


def test_failures_are_shown_and_kept(invoke, executor):
    def fail(job):
        if job.experiment.explainer == "ground-truth" and job.experiment.seed == 101:
            return Done(job, failure=Failure("ModelError", "it [broke]\nbadly", "trace"))
        return None

    executor.before = fail
    result = invoke(*RUN)
    assert result.exit_code == 1
    assert "3 done, 1 failed" in result.stderr
    assert (
        "failed: ba-housegrid, gcn, ground-truth, seed 101: ModelError: it [broke]" in result.stderr
    )
    (path,) = Path("out/bench/failures").glob("*.json")
    assert json.loads(path.read_text())["trace"] == "trace"
    executor.before = lambda job: None
    assert invoke(*RUN).exit_code == 0
    assert not path.exists()


def test_an_interrupt_keeps_what_is_finished(invoke, executor):
    def interrupt(job):
        if job.experiment.seed == 101:
            raise KeyboardInterrupt
        return None

    executor.before = interrupt
    result = invoke(*RUN)
    assert result.exit_code == 130
    assert "finished results are kept" in result.stderr
    assert executor.closed
    assert len(list(ResultStore("out/bench").records())) == 1


def test_results_of_other_versions_are_noted(invoke, monkeypatch):
    assert invoke(*RUN).exit_code == 0
    monkeypatch.setattr(run, "versions", lambda: {"hpme": "99"})
    result = invoke(*RUN)
    assert "note: 4 results were made with" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (["tabel1"], ["did you mean 'table1'", "backbones"]),
        (["table1", "--datasets", "ba-2motif"], ["--datasets", "did you mean 'ba-2motifs'"]),
        (["table1", "--explainers", "hpm"], ["--explainers", "did you mean 'hpme'"]),
        (["backbones", "--explainers", "hpme"], ["no explainer to choose"]),
        (["table1", "--seeds", "x"], ["--seeds", "0-4"]),
        (["table1", "--address", "a:1"], ["--address", "--executor ray"]),
        (["table1", "--executor", "ray", "--workers", "2"], ["--workers", "--executor local"]),
        (["table1", "--out", "file"], ["--out"]),
    ],
)
def test_wrong_usage_is_explained_before_any_work(invoke, executor, arguments, messages, flat):
    executor.before = lambda job: pytest.fail("work has begun")
    Path("file").write_text("")
    result = invoke("bench", *arguments)
    assert result.exit_code == 2
    for message in messages:
        assert message in flat(result.stderr)
