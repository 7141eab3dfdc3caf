"""Training: it learns, stops, repeats itself, and reports in the unit of the labels."""

import copy
import math
from typing import get_args

import pytest
import torch
from torch_geometric.data import Data

from hpme.data import DATASETS, GraphDataset, GraphStore, load_dataset
from hpme.data.info import DatasetLevel, TaskKind
from hpme.errors import InputError
from hpme.models import (
    GCN,
    RECIPES,
    Recipe,
    build_model,
    evaluate,
    predict,
    recipe_for,
    train,
    train_target,
)

SHORT = Recipe(max_steps=40, patience=40, batch_size=32)


@pytest.fixture(scope="module")
def motifs(tmp_path_factory) -> GraphDataset:
    return load_dataset("ba-2motifs", size=400, root=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def volumes(tmp_path_factory) -> GraphDataset:
    return load_dataset("house-grid-volume", size=100, root=tmp_path_factory.mktemp("cache"))


def test_biases_make_the_difference_on_constant_features(motifs, monkeypatch):
    """From zero biases training on BA-2Motifs stays at chance; from placed ones it learns."""

    def accuracy(steps: int) -> float:
        model = build_model("gcn", motifs.num_features, 2)
        recipe = Recipe(max_steps=steps, patience=steps, batch_size=64)
        report = train_target(model, motifs, seed=0, recipe=recipe)
        return report.metrics["train"]["accuracy"]

    def zero_biases(self, *_):
        for conv in self.convs:
            torch.nn.init.zeros_(conv.bias)

    assert accuracy(200) > 0.95
    monkeypatch.setattr(GCN, "place_biases", zero_biases)
    assert accuracy(100) < 0.6


def test_same_seed_same_weights_and_global_random_state_untouched(motifs):
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    models = [build_model("gcn", motifs.num_features, 2) for _ in range(3)]
    for model, seed in zip(models, (0, 0, 1), strict=True):
        train_target(model, motifs, seed=seed, recipe=SHORT)
    assert torch.equal(before, torch.random.get_rng_state())
    first, second, other = (torch.cat([p.view(-1) for p in m.parameters()]) for m in models)
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_training_stops_early_and_keeps_the_best_weights(motifs, monkeypatch):
    seen = []
    original = train._loss

    def spy(model, output, y):
        loss = original(model, output, y)
        if not model.training:
            seen.append(float(loss))
        return loss

    monkeypatch.setattr(train, "_loss", spy)
    noise = copy.copy(motifs)
    noise._data = copy.copy(motifs._data)
    noise._data.y = torch.randint(0, 2, (400,), generator=torch.Generator().manual_seed(0))
    recipe = Recipe(max_steps=2000, patience=30, batch_size=32, learning_rate=0.05)
    model = build_model("gcn", motifs.num_features, 2)
    report = train_target(model, noise, seed=0, recipe=recipe)
    steps_per_epoch = math.ceil(320 / 32)
    assert report.epochs < 2000 / steps_per_epoch
    assert (report.epochs - report.best_epoch) * steps_per_epoch == 30
    losses = seen[: report.epochs]
    assert report.best_epoch == 1 + losses.index(min(losses))
    assert report.metrics["val"]["loss"] == pytest.approx(min(losses), rel=1e-5)
    assert not model.training


def test_training_length_is_counted_in_steps(motifs):
    report = train_target(build_model("gcn", motifs.num_features, 2), motifs, seed=0, recipe=SHORT)
    assert report.epochs == 4  # 40 steps of 32 out of 320 graphs


def test_learning_rate_rises_then_falls_to_zero():
    recipe = Recipe(max_steps=100, warmup=0.1)
    rates = [recipe.rate(step) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[9] == pytest.approx(1)
    assert rates[9:] == sorted(rates[9:], reverse=True)
    assert rates[-1] == pytest.approx(0)


def test_regression_metrics_are_in_label_units(volumes):
    model = build_model("gcn", volumes.num_features, 1, "regression")
    report = train_target(model, volumes, seed=0, recipe=SHORT)
    store = GraphStore.from_graphs(volumes)
    ids = volumes.split["train"]
    assert float(model.y_mean) == pytest.approx(float(store.y[ids].mean()))
    assert float(model.y_scale) == pytest.approx(float(store.y[ids].std(unbiased=False)), rel=1e-4)
    output, y = predict(model, store, ids).view(-1), store.y[ids]
    assert 100 < float(output.mean()) < 600  # labels are sums of 5 to 9 values around 50
    metrics = report.metrics["train"]
    assert metrics["rmse"] == pytest.approx(float((output - y).square().mean().sqrt()), rel=1e-4)
    assert metrics["mape"] == pytest.approx(float(((output - y) / y).abs().mean()), rel=1e-4)
    assert metrics["loss"] == pytest.approx((metrics["rmse"] / float(model.y_scale)) ** 2, rel=1e-4)


def test_mape_is_left_out_where_a_label_is_zero(volumes):
    model = build_model("gcn", volumes.num_features, 1, "regression")
    store = GraphStore.from_graphs(volumes)
    store.y[0] = 0
    assert set(evaluate(model, store)) == {"loss", "rmse"}
    assert set(evaluate(model, store, torch.arange(1, 9))) == {"loss", "rmse", "mape"}


def test_predictions_do_not_depend_on_chunks(volumes, monkeypatch):
    model = build_model("gcn", volumes.num_features, 1, "regression")
    store = GraphStore.from_graphs(volumes)
    whole = predict(model, store)
    monkeypatch.setattr(train, "EVALUATION_BATCH", 7)
    torch.testing.assert_close(predict(model, store), whole)


def test_graphs_without_labels_are_refused():
    graph = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))
    model = build_model("gcn", 1, 2)
    with pytest.raises(InputError, match="no label y"):
        evaluate(model, GraphStore.from_graphs([graph]))


def test_a_dataset_without_validation_graphs_is_refused(volumes):
    model = build_model("gcn", 1, 1, "regression")
    with pytest.raises(InputError, match="at least one graph"):
        train_target(model, volumes[:1], seed=0)


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_a_dataset_has_its_own_recipe_or_that_of_its_level_or_task(name):
    info = DATASETS[name]
    broader = info.level if info.level in RECIPES else info.task
    assert recipe_for(info) is RECIPES[name if name in RECIPES else broader]


def test_recipes_are_of_known_tasks_levels_and_datasets():
    """A misspelt key would silently fall back to the recipe of the task."""
    assert set(RECIPES) <= {*get_args(TaskKind), *get_args(DatasetLevel), *DATASETS}
