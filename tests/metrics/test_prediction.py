"""Scores of predictions: outputs of any kind, and reasons."""

import math

import pytest
import torch

from hpme.errors import InputError
from hpme.metrics import accuracy, macro_f1, mape, rmse
from hpme.models.output import Task

LOGITS = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 3.0], [1.0, 0.0]])


def test_classes_by_hand():
    labels = torch.tensor([0, 1, 0, 0])
    assert accuracy(LOGITS, labels) == 0.75
    # Class 0: 2 hits, 1 miss. Class 1: 1 hit, 1 false alarm.
    assert macro_f1(LOGITS, labels) == pytest.approx((4 / 5 + 2 / 3) / 2)


def test_binary_logits():
    task = Task("binary_classification")
    output = LOGITS[:, 1:] - LOGITS[:, :1]
    labels = torch.tensor([0, 1, 0, 0])
    assert accuracy(output, labels, task) == accuracy(LOGITS, labels)
    with pytest.raises(InputError, match="mode="):
        accuracy(output, labels)


def test_values_by_hand():
    output, labels = torch.tensor([[1.0], [4.0]]), torch.tensor([2.0, 2.0])
    assert rmse(output, labels) == pytest.approx(math.sqrt(2.5))
    assert mape(output, labels) == 0.75


def test_a_label_of_zero_leaves_no_relative_error():
    value = mape(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 2.0]))
    assert math.isnan(value)
    assert "1 of 2 labels are 0" in value.reason
    assert rmse(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 2.0])) == pytest.approx(0.5**0.5)


@pytest.mark.parametrize("metric", [accuracy, macro_f1, rmse, mape])
def test_undefined_says_why(metric):
    wide = metric in (accuracy, macro_f1)
    dtype = torch.long if wide else torch.float
    nothing = metric(torch.zeros(0, 2) if wide else torch.zeros(0), torch.zeros(0, dtype=dtype))
    assert "no graphs" in nothing.reason
    output = torch.full((1, 2) if wide else (1,), math.nan)
    assert "not finite" in metric(output, torch.ones(1, dtype=dtype)).reason


def test_wrong_arguments_are_named():
    with pytest.raises(InputError, match="argmax"):
        accuracy(LOGITS, torch.rand(4))
    with pytest.raises(InputError, match="one predicted class"):
        macro_f1(LOGITS, torch.tensor([0, 1]))
    with pytest.raises(InputError, match="one predicted value"):
        rmse(torch.rand(2, 2), torch.rand(2))
