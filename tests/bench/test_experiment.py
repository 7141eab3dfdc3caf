"""One experiment: what the explainer sees, and what is recorded."""

import json
from types import SimpleNamespace

import pytest
import torch

from hpme.bench import Target, make_explainer, option_names, run_experiment
from hpme.bench import experiment as experiment_module
from hpme.data import load_dataset
from hpme.errors import InputError, UnknownNameError
from hpme.explainers import EXPLAINERS, RandomExplainer
from hpme.metrics import explanation_auc
from hpme.models import Recipe


class Spy(RandomExplainer):
    """Keeps what it is given."""

    slug = "spy"
    needs_fit = True

    def fit(self, model, graphs, **kwargs):
        self.seen, self.mode = list(graphs), kwargs["mode"]
        self.report = SimpleNamespace(to_dict=lambda: {"loss": float("nan"), "pool": [1, 2.5]})
        return super().fit(model, self.seen, **kwargs)

    def explain(self, model, graphs, **kwargs):
        self.explained = list(graphs)
        return super().explain(model, self.explained, **kwargs)


@pytest.fixture
def spy(monkeypatch):
    monkeypatch.setitem(EXPLAINERS, "spy", Spy)


def test_the_record_says_everything(dataset, target):
    outcome = run_experiment(dataset, target, "random", 3, count=7)
    record = outcome.record.to_dict()
    assert record == json.loads(json.dumps(record, allow_nan=False))
    assert record["dataset"] == "ba-2motifs"
    assert record["variant"] == "paper"
    assert record["size"] == 40
    assert (record["model"], record["target_seed"]) == ("gcn", 1)
    assert record["target_metrics"] == target.report.metrics
    assert (record["explainer"], record["seed"], record["graphs"]) == ("random", 3, 7)
    assert record["config"]["seed"] == 3
    assert record["pool_ratio_source"] is None
    assert record["report"] is None
    assert record["auc"] == explanation_auc(outcome.explanations, outcome.graphs)
    assert record["auc_undefined"] is None
    assert record["fit_seconds"] > 0
    assert record["explain_seconds"] > 0
    assert set(record["versions"]) == {"hpme", "python", "torch", "torch_geometric"}
    assert outcome.predictions.shape == (7, 2)


def test_the_seed_chooses_graphs_and_scores(dataset, target):
    first, again, other = (
        run_experiment(dataset, target, "random", seed, count=5) for seed in (0, 0, 1)
    )
    assert first.record.auc == again.record.auc
    assert first.record.auc != other.record.auc
    expected = [dataset[int(i)].edge_index for i in dataset.explained(1, 5)]
    assert all(torch.equal(a.edge_index, b) for a, b in zip(other.graphs, expected, strict=True))


def test_explainers_see_neither_labels_nor_ground_truth(dataset, target, spy):
    explainer = run_experiment(dataset, target, "spy", count=4).explainer
    for graph in [*explainer.seen, *explainer.explained]:
        assert set(graph.keys()) == {"x", "edge_index"}


def test_the_task_is_told(cache, dataset, target, spy):
    assert run_experiment(dataset, target, "spy", count=4).explainer.mode == (
        "multiclass_classification"
    )
    volumes = load_dataset("ba-motif-volume", size=20, root=cache)
    regressor = Target.prepare(volumes, "gcn", recipe=Recipe(max_steps=2), root=cache)
    outcome = run_experiment(volumes, regressor, "spy", count=4)
    assert outcome.explainer.mode == "regression"
    assert "rmse" in outcome.record.target_metrics["test"]


def test_a_report_is_recorded_as_json(dataset, target, spy):
    record = run_experiment(dataset, target, "spy", count=4).record.to_dict()
    assert record["report"] == {"loss": None, "pool": [1, 2.5]}


def test_a_target_can_be_given_by_name(dataset, target, monkeypatch):
    def load_or_train(given, name, seed, **_):
        assert (given, name, seed) == (dataset, "gin", 5)
        return target.model, target.report

    monkeypatch.setattr(experiment_module, "load_or_train", load_or_train)
    record = run_experiment(dataset, "gin", "random", count=4, target_seed=5).record
    assert (record.model, record.target_seed) == ("gin", 5)


def test_an_undefined_auc_has_a_reason(dataset, target, monkeypatch):
    nan = torch.full((1,), torch.nan)
    explain = RandomExplainer.explain

    def broken(self, *args, **kwargs):
        result = explain(self, *args, **kwargs)
        for explanation in result:
            explanation.edge_mask = explanation.edge_mask * nan
        return result

    monkeypatch.setattr(RandomExplainer, "explain", broken)
    record = run_experiment(dataset, target, "random", count=4).record
    assert record.auc is None
    assert record.auc_per_graph is None
    assert "NaN" in record.auc_undefined


def test_hpme_is_told_the_pool_ratio_and_the_source_is_recorded(dataset):
    explainer, source = make_explainer("hpme", dataset, 4)
    assert (explainer.ratio, explainer.seed) == (dataset.pool_ratio, 4)
    assert source == "ground truth"
    explainer, source = make_explainer("hpme", dataset, 0, {"k": 5})
    assert (explainer.ratio, explainer.k) == (None, 5)
    assert source == "option"


def test_wrong_options_are_refused(dataset):
    with pytest.raises(InputError, match=r"no option 'depth'; valid options: .*batch_size"):
        make_explainer("random", dataset, 0, {"depth": 3})
    with pytest.raises(InputError, match="no option 'seed'"):
        make_explainer("random", dataset, 0, {"seed": 3})
    with pytest.raises(InputError, match="wrong type"):
        make_explainer("random", dataset, 0, {"batch_size": "many"})
    with pytest.raises(UnknownNameError, match="hpme"):
        make_explainer("hpm", dataset, 0)


def test_option_names_are_constructor_arguments():
    assert {"ratio", "k", "batch_size"} <= set(option_names("hpme"))
    assert option_names("random") == ["batch_size", "embedding_layer"]
