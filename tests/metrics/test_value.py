"""The number every metric returns."""

import copy
import math

import pytest

from hpme.metrics import MetricValue


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
