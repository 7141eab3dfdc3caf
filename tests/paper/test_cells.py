"""Which result goes to which cell, and what is computed from the results in it."""

import math
from dataclasses import replace

import pytest

from hpme.bench import Experiment
from hpme.paper.shared import cells
from hpme.paper.shared.suite import Suite


def gather(*arguments):
    return cells.gather(*arguments).every


def suite_of(*experiments):
    """A suite of experiments given without a seed."""
    return Suite(
        "made",
        "Made for a test",
        lambda seeds: [Experiment(seed=seed, **e) for e in experiments for seed in seeds],
    )


TWO = suite_of({"dataset": "a", "explainer": "hpme"}, {"dataset": "a", "explainer": "grad"})


def test_population_deviation_over_seeds(make_record):
    records = [make_record("a", seed=s, values={"auc": v}) for s, v in enumerate((0.7, 0.9, 0.8))]
    ours, grad = gather(TWO, records)
    stat = ours.stat("auc")
    assert stat.mean == pytest.approx(0.8)
    assert stat.std == pytest.approx(math.sqrt(0.02 / 3))
    assert stat.by_run == {(0, 0): 0.7, (0, 1): 0.9, (0, 2): 0.8}
    assert grad.empty and grad.stat("auc").mean is None and grad.stat("auc").std is None


def seeds(cell):
    return [seed for _, seed in cell.stat("auc").by_run]


def test_seeds_that_only_some_cells_have_are_left_out(make_record):
    suite = replace(TWO, seeds=(0, 1))
    some = [make_record("a", "hpme", seed) for seed in (0, 1, 2)]
    both = [*some, *(make_record("a", "grad", seed) for seed in (0, 1))]
    assert [seeds(cell) for cell in gather(suite, both)] == [[0, 1], [0, 1]]
    more = [*both, make_record("a", "grad", 2)]
    assert [seeds(cell) for cell in gather(suite, more)] == [[0, 1, 2]] * 2
    fewer = [record for record in both if record.experiment.seed != 1]
    assert [seeds(cell) for cell in gather(suite, fewer)] == [[0, 2], [0]]


def test_one_seed_has_no_spread(make_record):
    cell = gather(TWO, [make_record("a", seed=4)])[0]
    assert cell.stat("auc").mean == 0.5
    assert cell.stat("auc").std is None


def test_spread_over_all_graphs_of_all_seeds(make_record):
    """As if the scores of all graphs were in one list."""
    first, second = [0.1, 0.5, 0.6], [0.9, 0.2, 0.4]

    def mean(values):
        return sum(values) / len(values)

    def std(values):
        return math.sqrt(mean([(v - mean(values)) ** 2 for v in values]))

    records = [
        make_record("a", seed=s, values={"auc": mean(v)}, spread={"auc": std(v)})
        for s, v in enumerate((first, second))
    ]
    stat = gather(TWO, records)[0].stat("auc", "graphs")
    assert stat.mean == pytest.approx(mean(first + second))
    assert stat.std == pytest.approx(std(first + second))
    assert gather(TWO, [make_record("a")])[0].stat("auc", "graphs").std is None


def test_undefined_values_are_counted_not_averaged(make_record):
    nothing = {"values": {"auc": None}, "undefined": {"auc": "no edges"}}
    records = [make_record("a", seed=0), make_record("a", seed=1, **nothing)]
    stat = gather(TWO, records)[0].stat("auc")
    assert stat.by_run == {(0, 0): 0.5}
    assert stat.undefined == {"no edges": 1}
    assert gather(TWO, records)[0].stat("other").undefined == {"not measured": 2}


def test_settings_are_never_mixed(make_record):
    few = [make_record("a", seed=s, graphs=20, values={"auc": 0.1}) for s in range(3)]
    cell = gather(TWO, few)[0]
    assert len(cell.records) == 3 and cell.left_out == 0
    cell = gather(TWO, [*few, make_record("a", seed=7, values={"auc": 0.9})])[0]
    assert [record.experiment.seed for record in cell.records] == [7]
    assert cell.left_out == 3
    shorter = [make_record("a", seed=9, train_steps=5)]
    assert [r.experiment.seed for r in gather(TWO, shorter + few)[0].records] == [0, 1, 2]


def test_seed_of_the_target_may_follow_the_seed(make_record):
    suite = Suite("s", "s", lambda seeds: [Experiment("a", None, s, target_seed=s) for s in seeds])
    records = [make_record("a", None, seed=s, target_seed=s) for s in range(3)]
    cell = gather(suite, [*records, make_record("a", None, seed=1, target_seed=5)])[0]
    assert [record.experiment.target_seed for record in cell.records] == [0, 1, 2]
    assert cell.left_out == 0  # it belongs nowhere


def test_more_metrics_than_asked_for_will_do(make_record):
    both = make_record("a", metrics=("auc", "fidelity"), values={"auc": 0.2})
    assert gather(TWO, [both])[0].records == (both,)
    exact = make_record("a", values={"auc": 0.3})
    for order in ([both, exact], [exact, both]):
        assert gather(TWO, order)[0].records == (exact,)
    assert gather(TWO, [make_record("a", metrics=("fidelity",))])[0].empty


def test_other_options_model_or_variant_belong_elsewhere(make_record):
    for changes in ({"options": {"epochs": 3}}, {"model": "gin"}, {"variant": "x"}):
        assert all(cell.empty for cell in gather(TWO, [make_record("a", **changes)]))


def test_failures_count_until_there_is_a_result(make_record):
    def failure(seed):
        experiment = Experiment("a", "grad", seed)
        return {"experiment": experiment.to_dict(), "error": "OSError", "message": "full\nmore"}

    records = [make_record("a", "grad", seed=1)]
    cell = gather(TWO, records, [failure(0), failure(1)])[1]
    assert cell.failures == ("OSError: full",)
    assert not gather(TWO, [], [failure(0)])[1].empty
