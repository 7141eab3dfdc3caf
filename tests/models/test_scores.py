"""Scores of predictions: against scikit-learn, and in reports of training."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import (
    accuracy_score,
    f1_score,
    mean_absolute_percentage_error,
    root_mean_squared_error,
)

from hpme.data import load_dataset
from hpme.errors import InputError
from hpme.models import Recipe, checkpoint, load_or_train
from hpme.models.scores import accuracy, macro_f1, mape, rmse
from hpme.storage import read_tensors, write_tensors

CLASSES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=20)
VALUES = st.lists(st.tuples(st.floats(-9, 9), st.floats(1, 9)), min_size=1, max_size=20)


@given(CLASSES)
def test_classes_equal_sklearn(cases):
    predicted, labels = (torch.tensor(column) for column in zip(*cases, strict=True))
    assert accuracy(predicted, labels) == pytest.approx(accuracy_score(labels, predicted))
    expected = f1_score(labels, predicted, average="macro", zero_division=0)
    assert macro_f1(predicted, labels) == pytest.approx(expected)


@given(VALUES)
def test_values_equal_sklearn(cases):
    predicted, labels = (
        torch.tensor(column, dtype=torch.double) for column in zip(*cases, strict=True)
    )
    assert rmse(predicted.view(-1, 1), labels) == pytest.approx(
        root_mean_squared_error(labels, predicted)
    )
    assert mape(predicted, labels) == pytest.approx(
        mean_absolute_percentage_error(labels, predicted)
    )


def test_wrong_arguments_are_named():
    with pytest.raises(InputError, match="argmax"):
        accuracy(torch.rand(2), torch.tensor([0, 1]))
    with pytest.raises(InputError, match="one predicted class"):
        macro_f1(torch.tensor([0]), torch.tensor([0, 1]))
    with pytest.raises(InputError, match="one predicted value"):
        rmse(torch.rand(2, 2), torch.rand(2))


def test_reports_have_macro_f1_and_older_ones_without_it_are_still_read(tmp_path, monkeypatch):
    dataset = load_dataset("ba-2motifs", size=40, root=tmp_path)
    recipe = Recipe(max_steps=2, batch_size=16)
    _, report = load_or_train(dataset, "gcn", recipe=recipe, root=tmp_path)
    assert all(0 <= part["macro_f1"] <= 1 for part in report.metrics.values())
    (path,) = (tmp_path / "models").glob("*.safetensors")
    tensors, meta = read_tensors(path)
    for part in meta["meta"]["report"]["metrics"].values():
        del part["macro_f1"]
    write_tensors(path, tensors, json.loads(json.dumps(meta)))
    monkeypatch.setattr(checkpoint, "train_target", None)  # training anew would fail
    _, older = load_or_train(dataset, "gcn", recipe=recipe, root=tmp_path)
    assert older.epochs == report.epochs
    assert "macro_f1" not in older.metrics["test"]
