"""Estimates of time, and progress."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from hpme.bench import Experiment, Failure, explain, record_of
from hpme.bench.jobs import CostModel, Job, Watch, duration, target_seconds
from hpme.execute import Done
from hpme.explainers import HPMEExplainer, RandomExplainer

COST = {"fit_seconds": 6.0, "explain_seconds": 3.0, "metric_seconds": 1.0}


@pytest.fixture(scope="module")
def record(dataset, target):
    experiment = Experiment("ba-2motifs", "random", 0, graphs=5)
    return replace(record_of(explain(experiment, dataset, target)), cost=COST)


def test_typical_times_are_for_200_graphs():
    experiment = Experiment("ba-2motifs", "hpme", 0)
    assert CostModel().seconds(experiment) == HPMEExplainer.typical_seconds
    assert CostModel().seconds(replace(experiment, graphs=20)) == HPMEExplainer.typical_seconds / 10
    assert not CostModel().measured(experiment)


def test_similar_results_are_a_better_guide(record):
    slower = replace(record, cost={**COST, "fit_seconds": 16.0})
    other = replace(record, experiment=replace(record.experiment, dataset="triangles"))
    far = replace(other, cost={**COST, "fit_seconds": 96.0})
    costs = CostModel([record, slower, far])
    assert costs.seconds(replace(record.experiment, seed=7)) == pytest.approx(15.0)
    assert costs.seconds(replace(record.experiment, graphs=10)) == pytest.approx(30.0)
    assert costs.measured(record.experiment)
    elsewhere = replace(record.experiment, dataset="spmotif")
    assert costs.seconds(elsewhere) == pytest.approx((10 + 20 + 100) / 3)
    assert not costs.measured(elsewhere)


def test_what_was_never_run_is_scaled_by_what_was(record):
    costs, unseen = CostModel([record]), Experiment("ba-2motifs", "hpme", 0)
    pace = 10.0 / (RandomExplainer.typical_seconds * 5 / 200)
    assert costs.pace == pytest.approx(pace)
    assert costs.seconds(unseen) == pytest.approx(pace * HPMEExplainer.typical_seconds)


def test_targets_count_until_they_are_ready(record):
    costs, experiment = CostModel([record]), replace(record.experiment, train_steps=10)
    watch = Watch([experiment], costs, 1, Console(file=io.StringIO()), untrained=[experiment])
    training = costs.pace * target_seconds(experiment)
    assert watch.seconds_left == pytest.approx(10.0 + training)
    watch.ended(Done(Job("target", experiment)))
    assert watch.seconds_left == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "1 s"), (61, "61 s"), (600, "10 min"), (9000, "2 h 30 min")]
)
def test_times_people_can_read(seconds, text):
    assert duration(seconds) == text


@pytest.fixture
def watched(record):
    """Three experiments, one of them on a target of its own; and what the watch says."""
    todo = [replace(record.experiment, seed=seed) for seed in (0, 1)]
    todo.append(replace(record.experiment, model="gat"))
    text, now = io.StringIO(), [0.0]
    console = Console(file=text, width=200)
    watch = Watch(todo, CostModel([record]), 2, console, every=10, clock=lambda: now[0])
    return watch, todo, text, now


def test_lines_come_now_and_then(watched, record):
    watch, todo, text, now = watched
    assert watch.seconds_left == pytest.approx(15.0)
    watch.ended(Done(Job("target", todo[0])))
    watch.ended(Done(Job("experiment", todo[0]), result=record))
    watch.pulse()
    assert text.getvalue() == ""
    now[0] = 11.0
    watch.pulse()
    watch.pulse()
    (line,) = text.getvalue().splitlines()
    assert line.startswith("1/3 about 10 s left; ba-2motifs, gcn, random, seed 0")


def test_failures_are_counted(watched):
    watch, todo, text, now = watched
    watch.ended(Done(Job("experiment", todo[0]), failure=Failure("E", "m")))
    watch.ended(Done(Job("target", todo[2]), failure=Failure("E", "m")))
    now[0] = 11.0
    watch.pulse()
    assert text.getvalue().startswith("2/3 2 failed, ")
    assert watch.seconds_left == pytest.approx(5.0)


def test_a_bar_on_terminals(record):
    text = io.StringIO()
    console = Console(file=text, width=120, force_terminal=True)
    watch = Watch([record.experiment], CostModel([record]), 1, console)
    watch.ended(Done(Job("experiment", record.experiment), result=record))
    watch.pulse()
    watch.close()
    assert "1/1" in text.getvalue()


def test_targets_take_as_long_as_their_recipe_is():
    experiment = Experiment("house-grid-volume", None, 0)
    shorter = replace(experiment, train_steps=10)
    assert target_seconds(experiment) == 2000 * target_seconds(shorter)
