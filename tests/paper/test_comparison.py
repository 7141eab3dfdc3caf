"""Ranks and paired tests against SciPy and against sums done by hand."""

import numpy as np
import pytest
from scipy import stats

from hpme.bench import Experiment
from hpme.paper.shared.cells import gather
from hpme.paper.shared.comparison import against_ours, dataset_ranks, holm, paired_tests
from hpme.paper.shared.suite import Suite


def test_ranks_by_hand():
    scores = {
        "x": {"d1": 0.9, "d2": 0.5, "d3": 0.1},
        "y": {"d1": 0.8, "d2": 0.5, "d3": 0.2},
        "z": {"d1": 0.1, "d2": 0.4, "d3": 0.3},
    }
    ranks, datasets = dataset_ranks(scores)
    assert datasets == ["d1", "d2", "d3"]
    assert ranks == {"x": [1, 1.5, 3], "y": [2, 1.5, 2], "z": [3, 3, 1]}


def test_only_datasets_that_all_methods_have_count():
    scores = {"x": {"d1": 0.9, "d2": 0.5}, "y": {"d2": 0.6}}
    assert dataset_ranks(scores) == ({"x": [2.0], "y": [1.0]}, ["d2"])
    assert dataset_ranks({"x": {"d1": 1.0}, "y": {"d2": 1.0}}) == ({"x": [], "y": []}, [])
    assert dataset_ranks({"x": {"d1": 0.9}}) == ({"x": [1.0]}, ["d1"])


@pytest.mark.parametrize("ties", [False, True])
def test_wilcoxon_is_that_of_scipy(ties):
    values = np.random.default_rng(0).normal(0.1, 0.2, 40).round(1 if ties else 8)
    test = paired_tests({"other": values.tolist()})["other"]
    unequal = values[values != 0]  # what SciPy does with zeros changed over time
    assert test.p == pytest.approx(stats.wilcoxon(unequal).pvalue)
    assert test.p_holm == test.p
    assert test.median == pytest.approx(float(np.median(values)))
    assert (test.wins, test.losses) == ((values > 0).sum(), (values < 0).sum())
    assert (test.ties > 0) == ties
    worse = paired_tests({"other": (-values).tolist()})["other"]
    assert (worse.wins, worse.losses, worse.p) == (test.losses, test.wins, test.p)


def test_a_known_p():
    """Six differences of one sign: the most extreme of 2^6 sign patterns, two-sided."""
    test = paired_tests({"zero": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]})["zero"]
    assert test.p == pytest.approx(2 / 2**6)


def test_no_difference_no_test():
    tests = paired_tests({"same": [0.0] * 5, "none": []})
    same, none = tests["same"], tests["none"]
    assert (same.ties, same.p, same.p_holm, same.median) == (5, None, None, 0.0)
    assert (none.pairs, none.p, none.median) == (0, None, None)


def test_datasets_are_the_units_and_targets_are_averaged(make_record):
    """Two targets and two seeds of a dataset are one difference, over what both methods have."""
    suite = Suite("made", "", lambda seeds: [
        Experiment("benzene", method, seed, target_seed=target)
        for method in ("hpme", "grad") for target in (0, 1) for seed in seeds
    ])  # fmt: skip
    ours = {(0, 400): 0.9, (0, 401): 0.7, (1, 400): 0.5}
    theirs = {(0, 400): 0.6, (0, 401): 0.6, (1, 400): 0.6, (1, 401): 0.0}
    records = [
        make_record("benzene", method, seed, target_seed=target, values={"auc": value})
        for method, values in (("hpme", ours), ("grad", theirs))
        for (target, seed), value in values.items()
    ]
    cells = gather(suite, records)
    test = against_ours(cells, "auc")["Grad"]
    assert test.pairs == 1
    assert test.median == pytest.approx((0.2 - 0.1) / 2)
    stat = cells.at("HPME", "Benzene").stat("auc")
    assert stat.mean == pytest.approx(0.65)
    assert stat.std == pytest.approx(0.15)  # of the targets 0.8 and 0.5
    assert stat.seed_std == pytest.approx(0.1)  # of 0.9 and 0.7


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, None, 0.6]) == [1.0, None, 1.0]
    assert holm([]) == []
