"""From an experiment to a record: what the explainer sees, and what is recorded."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from hpme.bench import (
    Experiment,
    Record,
    Target,
    explain,
    make_explainer,
    option_names,
    record_of,
    run_experiment,
)
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


def small(explainer, seed=0, **changes):
    return Experiment(
        "ba-2motifs", explainer, seed, **{"size": 40, "graphs": 4, "target_seed": 1, **changes}
    )


def test_the_record_says_everything(dataset, target):
    experiment = small("random", 3, graphs=7)
    outcome = explain(experiment, dataset, target)
    record = record_of(outcome)
    content = record.to_dict()
    assert content == json.loads(json.dumps(content, allow_nan=False))
    assert content["experiment"] == experiment.to_dict()
    assert content["key"] == experiment.key
    assert content["values"]["auc"] == explanation_auc(outcome.explanations, outcome.graphs)
    assert content["undefined"] == {}
    assert set(content["spread"]) == {"auc_per_graph"}
    context = content["context"]
    assert (context["variant"], context["size"], context["graphs"]) == ("paper", 40, 7)
    assert context["config"]["seed"] == 3
    assert context["target_metrics"] == target.report.metrics
    for name in ("pool_ratio_source", "report", "target_model_metrics"):
        assert context[name] is None
    assert all(content["cost"][f"{name}_seconds"] > 0 for name in ("fit", "explain", "metric"))
    assert {"hpme", "python", "torch", "torch_geometric"} < set(content["versions"])
    assert outcome.predictions.shape == (7, 2)


def test_a_record_survives_writing_and_damage_shows(dataset, target):
    record = record_of(explain(small("random"), dataset, target))
    content = record.to_bytes()
    assert Record.from_bytes(content) == record
    assert Record.from_bytes(content).to_bytes() == content
    changed = content.replace(b'"auc":0', b'"auc":1')
    assert changed != content
    for damaged in (changed, content[:-30], b"", b"[]", b"null"):
        with pytest.raises(OSError, match="not an intact result"):
            Record.from_bytes(damaged)


def test_from_nothing_but_its_description(own_cache, tiny):
    first, again = run_experiment(tiny("random", 1)), run_experiment(tiny("random", 1))
    for name in ("values", "spread", "undefined", "context"):
        assert getattr(first, name) == getattr(again, name)
    assert first.cost["peak_memory_mib"] > 50
    assert first.cost["cpu_seconds"] > 0
    assert run_experiment(tiny("random", 2)).values != first.values


def test_the_seed_chooses_the_graphs(dataset, target):
    outcome = explain(small("random", 1, graphs=5), dataset, target)
    assert outcome.numbers == dataset.explained(1, 5).tolist()
    expected = [dataset[number].edge_index for number in outcome.numbers]
    assert all(torch.equal(a.edge_index, b) for a, b in zip(outcome.graphs, expected, strict=True))


def test_explainers_see_neither_labels_nor_ground_truth(dataset, target, spy):
    explainer = explain(small("spy"), dataset, target).explainer
    for graph in [*explainer.seen, *explainer.explained]:
        assert set(graph.keys()) == {"x", "edge_index"}


def test_the_task_is_told(cache, dataset, target, spy):
    assert explain(small("spy"), dataset, target).explainer.mode == "multiclass_classification"
    volumes = load_dataset("ba-motif-volume", size=20, root=cache)
    regressor = Target.prepare(volumes, "gcn", recipe=Recipe(max_steps=2), root=cache)
    experiment = replace(small("spy"), dataset="ba-motif-volume")
    outcome = explain(experiment, volumes, regressor)
    assert outcome.explainer.mode == "regression"
    assert "rmse" in record_of(outcome).context["target_metrics"]["test"]


def test_a_report_is_recorded_as_json(dataset, target, spy):
    record = record_of(explain(small("spy"), dataset, target))
    assert record.context["report"] == {"loss": None, "pool": [1, 2.5]}


def test_the_copy_that_metagnn_explains_is_measured(dataset, target):
    options = {"epochs": 1, "mask_epochs": 1, "posthoc": "grad"}
    record = record_of(explain(small("metagnn", graphs=12, options=options), dataset, target))
    report = record.context["report"]
    assert record.context["target_model_metrics"]["accuracy"] == report["after"]


def test_an_undefined_metric_has_a_reason(dataset, target, monkeypatch):
    nan = torch.full((1,), torch.nan)
    explain_all = RandomExplainer.explain

    def broken(self, *args, **kwargs):
        result = explain_all(self, *args, **kwargs)
        for explanation in result:
            explanation.edge_mask = explanation.edge_mask * nan
        return result

    monkeypatch.setattr(RandomExplainer, "explain", broken)
    record = record_of(explain(small("random"), dataset, target))
    assert record.values == {"auc": None, "auc_per_graph": None}
    assert set(record.undefined) == {"auc", "auc_per_graph"}
    assert "NaN" in record.undefined["auc"]
    assert record.spread == {}


def test_an_unknown_metric_is_refused(dataset, target):
    outcome = explain(small("random", metrics=("beauty",)), dataset, target)
    with pytest.raises(UnknownNameError, match="valid names: auc"):
        record_of(outcome)


def test_without_an_explainer_there_is_the_target_alone(dataset, target):
    outcome = explain(small(None, metrics=("target",)), dataset, target)
    record = record_of(outcome)
    assert record.context["config"] is None
    assert record.values["accuracy"] == pytest.approx(target.report.metrics["test"]["accuracy"])


def test_the_ground_truth_can_stand_for_an_explainer(dataset, target):
    record = record_of(explain(small("ground-truth"), dataset, target))
    assert record.values == {"auc": 1.0, "auc_per_graph": 1.0}


def test_hpme_is_told_the_pool_ratio_and_the_source_is_recorded(dataset):
    explainer, source = make_explainer("hpme", dataset, 4)
    assert (explainer.ratio, explainer.seed) == (dataset.pool_ratio, 4)
    assert source == "ground truth"
    explainer, source = make_explainer("hpme", dataset, 0, {"k": 5})
    assert explainer.k == 5
    assert source == "option"


def test_wrong_options_are_refused(dataset):
    with pytest.raises(InputError, match=r"no option 'depth'; valid options: .*batch_size"):
        make_explainer("random", dataset, 0, {"depth": 3})
    with pytest.raises(InputError, match="no option 'seed'"):
        make_explainer("random", dataset, 0, {"seed": 3})
    with pytest.raises(InputError, match="batch_size must be a whole number, got 'many'"):
        make_explainer("random", dataset, 0, {"batch_size": "many"})
    with pytest.raises(UnknownNameError, match="hpme"):
        make_explainer("hpm", dataset, 0)


def test_option_names_are_constructor_arguments():
    assert {"ratio", "k", "batch_size"} <= set(option_names("hpme"))
    assert {"batch_size", "embedding_layer"} <= set(option_names("random"))
    assert "seed" not in option_names("random")


def test_a_copy_with_another_seed_is_another_experiment(dataset, target):
    record = record_of(explain(small("random"), dataset, target))
    other = replace(record, experiment=small("random", 9))
    assert other.to_dict()["key"] != record.to_dict()["key"]
