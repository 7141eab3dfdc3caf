"""Ranks and paired tests against SciPy and against sums done by hand."""

import numpy as np
import pytest
from scipy import stats

from hpme.paper.shared.comparison import dataset_ranks, holm, paired_tests


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
    generator = np.random.default_rng(0)
    values = generator.normal(0.1, 0.2, (2, 40)).round(1 if ties else 8)
    pairs = [(f"d{i % 4}", i) for i in range(40)]
    ours, theirs = (dict(zip(pairs, row.tolist(), strict=True)) for row in values)
    test = paired_tests(ours, {"other": theirs})["other"]
    difference = values[0] - values[1]
    unequal = difference[difference != 0]  # what SciPy does with zeros changed over time
    assert test.p == pytest.approx(stats.wilcoxon(unequal).pvalue)
    assert test.p_holm == test.p
    assert test.median == pytest.approx(float(np.median(difference)))
    assert (test.wins, test.losses) == ((difference > 0).sum(), (difference < 0).sum())
    assert (test.ties > 0) == ties
    worse = paired_tests(theirs, {"other": ours})["other"]
    assert (worse.wins, worse.losses, worse.p) == (test.losses, test.wins, test.p)


def test_a_known_p():
    """Six differences of one sign: the most extreme of 2^6 sign patterns, two-sided."""
    ours = {("d", i): float(i + 1) for i in range(6)}
    test = paired_tests(ours, {"zero": dict.fromkeys(ours, 0.0)})["zero"]
    assert test.p == pytest.approx(2 / 2**6)


def test_pairs_that_one_lacks_do_not_count():
    ours = {("d", 0): 0.9, ("d", 1): 0.8}
    tests = paired_tests(ours, {"one": {("d", 1): 0.1, ("e", 0): 5.0}, "none": {("e", 0): 1.0}})
    assert (tests["one"].pairs, tests["one"].wins, tests["one"].p) == (1, 1, 1.0)
    assert (tests["none"].pairs, tests["none"].p, tests["none"].median) == (0, None, None)


def test_no_difference_no_test():
    ours = {("d", i): 0.5 for i in range(5)}
    test = paired_tests(ours, {"same": dict(ours)})["same"]
    assert (test.ties, test.p, test.p_holm, test.median) == (5, None, None, 0.0)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, None, 0.6]) == [1.0, None, 1.0]
    assert holm([]) == []
