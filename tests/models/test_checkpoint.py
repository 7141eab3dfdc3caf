"""Trained models on disk: round trip, cache hits, damage, no pickle."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open

from hpme.data import GraphDataset, GraphStore, load_dataset
from hpme.errors import ModelError, StorageError
from hpme.models import (
    Recipe,
    build_model,
    load_model,
    load_or_train,
    predict,
    registry,
    save_model,
)
from hpme.storage import write_tensors

SHORT = Recipe(max_steps=6, patience=6, batch_size=32)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> GraphDataset:
    return load_dataset("house-grid-volume", size=60, root=tmp_path_factory.mktemp("cache"))


@pytest.fixture
def trainings(monkeypatch) -> list[int]:
    """Seeds of the trainings that really happened."""
    seeds = []
    original = registry.train_target

    def spy(*args, **kwargs):
        seeds.append(kwargs["seed"])
        return original(*args, **kwargs)

    monkeypatch.setattr(registry, "train_target", spy)
    return seeds


def test_round_trip(tmp_path, dataset):
    path = tmp_path / "model.safetensors"
    model = build_model("gin", 1, 1, "regression", hidden_channels=8, num_layers=2)
    model.y_mean.fill_(300.0)
    save_model(model, path, {"note": "mine"})
    loaded, meta = load_model(path)
    assert meta == {"note": "mine"}
    assert not loaded.training
    store = GraphStore.from_graphs(dataset)
    assert torch.equal(predict(loaded, store), predict(model, store))


def test_file_is_safetensors_with_a_json_description(tmp_path):
    path = tmp_path / "model.safetensors"
    save_model(build_model("gcn", 3, 2), path)
    with safe_open(path, framework="pt") as file:
        description = json.loads(file.metadata()["hpme"])
    assert description["model"] == "gcn"
    assert description["hyper_parameters"]["in_channels"] == 3
    assert description["versions"]["torch"] == torch.__version__
    assert list(tmp_path.iterdir()) == [path]


def test_other_models_cannot_be_saved(tmp_path):
    with pytest.raises(ModelError, match="Linear"):
        save_model(torch.nn.Linear(1, 1), tmp_path / "model.safetensors")


def test_missing_damaged_and_foreign_files_are_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    with pytest.raises(StorageError, match="no file"):
        load_model(path)
    save_model(build_model("gcn", 3, 2), path)
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(StorageError, match=r"weights have changed|does not fit its digest"):
        load_model(path)
    path.write_bytes(content[:100])
    with pytest.raises(StorageError, match="damaged"):
        load_model(path)
    write_tensors(path, {"x": torch.ones(1)}, {"kind": "other"})
    with pytest.raises(StorageError, match="no target model"):
        load_model(path)


def test_a_model_of_another_version_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "model.safetensors"
    save_model(build_model("gcn", 3, 2), path)
    monkeypatch.delitem(registry.MODELS, "gcn")
    with pytest.raises(StorageError, match="train the model again"):
        load_model(path)


def test_second_call_reads_the_cache(tmp_path, dataset, trainings):
    first, report = load_or_train(dataset, "gcn", 0, recipe=SHORT, root=tmp_path)
    second, again = load_or_train(dataset, "gcn", 0, recipe=SHORT, root=tmp_path)
    assert trainings == [0]
    assert report == again
    assert not first.training
    assert not second.training
    store = GraphStore.from_graphs(dataset)
    assert torch.equal(predict(first, store), predict(second, store))


def test_everything_that_determines_the_weights_is_part_of_the_key(tmp_path, dataset, trainings):
    longer = replace(SHORT, max_steps=7)
    load_or_train(dataset, "gcn", 0, recipe=SHORT, root=tmp_path)
    load_or_train(dataset, "gcn", 1, recipe=SHORT, root=tmp_path)
    load_or_train(dataset, "gin", 2, recipe=SHORT, root=tmp_path)
    load_or_train(dataset, "gcn", 3, recipe=longer, root=tmp_path)
    load_or_train(dataset[:50], "gcn", 0, recipe=SHORT, root=tmp_path)
    relabelled = dataset.copy()
    relabelled._data.y = relabelled._data.y + 1
    load_or_train(relabelled, "gcn", 0, recipe=SHORT, root=tmp_path)
    assert trainings == [0, 1, 2, 3, 0, 0]
    assert len(list((tmp_path / "models").glob("*.safetensors"))) == 6


@pytest.mark.parametrize("damage", [lambda content: b"", lambda content: content[:-1] + b"\x7f"])
def test_damaged_cache_is_trained_anew(tmp_path, dataset, trainings, caplog, damage):
    load_or_train(dataset, "gcn", 0, recipe=SHORT, root=tmp_path)
    (path,) = (tmp_path / "models").glob("*.safetensors")
    intact = path.read_bytes()
    path.write_bytes(damage(intact))
    load_or_train(dataset, "gcn", 0, recipe=SHORT, root=tmp_path)
    assert trainings == [0, 0]
    assert "training anew" in caplog.text
    load_model(path)


def test_an_unwritable_cache_is_a_warning(tmp_path, dataset, caplog):
    blocked = tmp_path / "file"
    blocked.write_text("")
    model, _ = load_or_train(dataset, "gcn", 0, recipe=SHORT, root=blocked)
    assert not model.training
    assert "not cached" in caplog.text


def test_root_comes_from_the_environment(tmp_path, dataset, monkeypatch):
    monkeypatch.setenv("HPME_CACHE_DIR", str(tmp_path / "elsewhere"))
    load_or_train(dataset, "gcn", 0, recipe=SHORT)
    assert len(list((tmp_path / "elsewhere" / "models").glob("*.safetensors"))) == 1
