"""The number every metric returns."""

import copy
import math

import pytest
import torch

from hpme.metrics import GraphScores, MetricValue


def test_it_is_a_float():
    value = MetricValue(0.25)
    assert value == 0.25
    assert value + 1 == 1.25
    assert f"{value:.1f}" == "0.2"
    assert value.reason is None
    assert repr(value) == "0.25"


def test_nan_says_why():
    value = MetricValue.undefined("no edges")
    assert math.isnan(value)
    assert value.reason == "no edges"
    assert "no edges" in repr(value)


def test_copies_keep_the_reason():
    assert copy.deepcopy(MetricValue.undefined("no edges")).reason == "no edges"
    assert copy.copy(MetricValue(0.5)) == 0.5


@pytest.mark.parametrize(("value", "reason"), [(math.nan, None), (0.5, "why?")])
def test_nan_and_reason_go_together(value, reason):
    with pytest.raises(ValueError, match="reason"):
        MetricValue(value, reason)


def test_scores_of_graphs_leave_out_the_undefined():
    scores = GraphScores(torch.tensor([1.0, math.nan, 3.0]), "why")
    assert (scores.mean, scores.std, scores.count) == (2, 1, 2)
    assert float(scores) == 2
    assert scores.mean.reason is None


def test_scores_without_a_value_say_why():
    for values in (torch.tensor([math.nan]), torch.zeros(0)):
        scores = GraphScores(values, "no edges")
        assert math.isnan(float(scores))
        assert scores.mean.reason == scores.std.reason == "no edges"
        assert scores.count == 0
