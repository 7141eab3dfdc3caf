"""Scores of predictions in reports of training."""

import json

from hpme.data import load_dataset
from hpme.models import Recipe, load_or_train, registry
from hpme.storage import read_tensors, write_tensors


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
    monkeypatch.setattr(registry, "train_target", None)  # training anew would fail
    _, older = load_or_train(dataset, "gcn", recipe=recipe, root=tmp_path)
    assert older.epochs == report.epochs
    assert "macro_f1" not in older.metrics["test"]
