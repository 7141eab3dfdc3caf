"""Scores of predictions: by hand, and in reports of training."""

import json
import math

import pytest
import torch

from hpme.data import load_dataset
from hpme.errors import InputError
from hpme.models import Recipe, checkpoint, load_or_train
from hpme.models.scores import accuracy, macro_f1, mape, rmse
from hpme.storage import read_tensors, write_tensors


def test_classes_by_hand():
    predicted, labels = torch.tensor([0, 0, 1, 2, 4]), torch.tensor([0, 1, 1, 2, 2])
    assert accuracy(predicted, labels) == pytest.approx(3 / 5)
    # Classes 0, 1 and 2 have one hit and one error each; 4 is predicted and never right.
    assert macro_f1(predicted, labels) == pytest.approx((2 / 3 + 2 / 3 + 2 / 3 + 0) / 4)


def test_values_by_hand():
    predicted, labels = torch.tensor([[1.0], [6.0], [-2.0]]), torch.tensor([2.0, 4.0, -2.0])
    assert rmse(predicted, labels) == pytest.approx((5 / 3) ** 0.5)
    assert mape(predicted, labels) == pytest.approx((1 / 2 + 1 / 2 + 0) / 3)


def test_without_graphs_nothing_is_defined():
    none = torch.zeros(0)
    values = [rmse(none, none), mape(none, none)]
    values += [accuracy(none.long(), none.long()), macro_f1(none.long(), none.long())]
    assert all(math.isnan(value) for value in values)


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
