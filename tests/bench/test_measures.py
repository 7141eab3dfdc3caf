"""Metric sets and exhibits of an experiment."""

from dataclasses import replace

import pytest
from torch_geometric.data import Data
from torch_geometric.explain import Explanation

from hpme.bench import MEASURES, Experiment, Target, explain, record_of
from hpme.bench.measures import EXHIBITED, EXHIBITS
from hpme.data import GraphStore, load_dataset
from hpme.errors import InputError
from hpme.models import Recipe, predict

QUICK = {"restarts": 1, "rounds": 1, "subsets": 4, "combine": 1, "epochs": 1}


@pytest.fixture(scope="module")
def molecules(cache):
    """Only one class is explained, the other keeps it company."""
    dataset = load_dataset("ba-houseandgrid", size=30, root=cache)
    return dataset, Target.prepare(dataset, "gcn", recipe=Recipe(max_steps=2), root=cache)


def recorded(dataset, target, explainer, metrics, **changes):
    experiment = Experiment(
        dataset.info.name, explainer, 0, **{"graphs": 5, "metrics": metrics, **changes}
    )
    return record_of(explain(experiment, dataset, target))


def test_values_of_every_metric_set(dataset, target):
    names = tuple(name for name in MEASURES if name != "target")
    record = recorded(dataset, target, "random", names)
    assert set(record.values) == {
        "auc", "auc_per_graph", "precision", "fidelity_plus", "fidelity_minus",
        "robust_fidelity_plus", "robust_fidelity_minus", "simoar", "simoar_random",
        "simoar_empty", "cosine", "euclidean", "choice_fidelity", "choice_disagreement",
        "choice_loss",
    }  # fmt: skip
    assert record.undefined == {}
    of_all = {name for name in record.values if name == "auc" or name.startswith("choice")}
    assert set(record.spread) == set(record.values) - of_all


def test_the_ground_truth_has_full_precision(dataset, target):
    values = recorded(dataset, target, "ground-truth", ("precision", "shift")).values
    assert values["precision"] == 1.0
    assert values["cosine"] < 1.0


def test_all_edges_are_deleted_or_none(dataset, target):
    record = recorded(dataset, target, "all-edges", ("fidelity",))
    graphs = [dataset[int(number)] for number in dataset.explained(0, 5)]
    bare = [Data(x=graph.x, edge_index=graph.edge_index[:, :0]) for graph in graphs]
    whole, left = (predict(target.model, GraphStore.from_graphs(g)) for g in (graphs, bare))
    classes = whole.argmax(1, keepdim=True)
    lost = whole.softmax(1).gather(1, classes) - left.softmax(1).gather(1, classes)
    assert record.values["fidelity_plus"] == pytest.approx(float(lost.mean()), abs=1e-6)
    assert record.values["fidelity_minus"] == pytest.approx(0.0, abs=1e-9)


def test_shift_is_of_the_mixup_graphs_with_companions(molecules):
    dataset, target = molecules
    record = recorded(*molecules, "hpme", ("shift", "mixups"), options=QUICK)
    assert record.context["companions"] == 5
    outcome = explain(record.experiment, dataset, target)
    every = [dataset[number] for number in outcome.numbers] + outcome.companions
    mixed = outcome.explainer.mixup_graphs(target.model, every, mode=outcome.mode)
    numbers = outcome.numbers + dataset.companions(0, 5).tolist()
    shown = record.context["exhibits"]["mixups"]
    assert len(shown) == EXHIBITED
    for place, item in enumerate(shown):
        edges = mixed.graphs.edge_batch == place
        assert item["graph"] == numbers[place]
        assert item["partner"] == numbers[int(mixed.partners[place])]
        assert item["num_nodes"] == int(mixed.graphs.sizes[place])
        assert set(item["drawn"]) == {str(item["graph"]), str(item["partner"])}
        assert len(item["edge_index"][0]) == int(edges.sum()) == len(item["edge_weight"])
        assert max(map(max, item["edge_index"])) < item["num_nodes"]
        assert item["transplanted"] == mixed.transplanted[edges].tolist()
    assert record.values["cosine"] is not None


def test_weights_of_edges_stand_for_the_graph_without_a_mixup(dataset, target):
    values = recorded(dataset, target, "random", ("shift",)).values
    assert 0 < values["cosine"] < 1


def test_explanations_to_look_at(dataset, target):
    record = recorded(dataset, target, "hpme", ("explanations",), options=QUICK)
    shown = record.context["exhibits"]["explanations"]
    assert [item["graph"] for item in shown] == dataset.explained(0, 5).tolist()[:EXHIBITED]
    for item in shown:
        graph = dataset[item["graph"]]
        assert len(item["edge_mask"]) == graph.num_edges
        shape = item["drawn"][str(item["graph"])]
        assert shape["num_nodes"] == graph.num_nodes
        for name in ("edge_index", "edge_mask", "node_mask"):
            assert shape[name] == graph[name].tolist()
        assert len(item["node_mask"]) == len(item["pooled"]) == graph.num_nodes
    assert record.values == {}


def test_only_some_explainers_make_mixups(dataset, target):
    with pytest.raises(InputError, match="'random' makes no mixup graphs"):
        recorded(dataset, target, "random", ("mixups",))


def test_all_nodes_may_be_pooled(dataset, target):
    """The last step of the suite on ratios."""
    record = recorded(dataset, target, "hpme", ("auc",), options={**QUICK, "ratio": 1.0})
    assert record.context["pool_ratio_source"] == "option"
    assert 0 <= record.values["auc"] <= 1


def test_names_are_unique():
    assert not set(MEASURES) & set(EXHIBITS)


@pytest.mark.parametrize("name", ["ba-motif-volume", "ba-motif-counting"])
def test_targets_of_regression(cache, name):
    dataset = load_dataset(name, size=30, root=cache)
    target = Target.prepare(dataset, "gcn", recipe=Recipe(max_steps=2), root=cache)
    record = recorded(dataset, target, None, ("target",))
    test = target.report.metrics["test"]
    assert record.values["rmse"] == pytest.approx(test["rmse"])
    assert record.values["mape"] == pytest.approx(test.get("mape"))
    assert ("mape" in record.undefined) == ("mape" not in test)


def test_choice_prefers_the_ground_truth_to_its_complement(cache):
    """Neither fidelity nor the hard mix is told which of both is the ground truth."""
    dataset = load_dataset("ba-2motifs", size=120, root=cache)
    recipe = Recipe(max_steps=200, batch_size=120)
    target = Target.prepare(dataset, "gcn", recipe=recipe, root=cache)
    experiment = Experiment("ba-2motifs", "random", 0, graphs=60, metrics=("choice",))
    outcome = explain(experiment, dataset, target)
    values = []
    for sign in (1, -1):
        masks = [
            Explanation(**seen.to_dict() | {"edge_mask": sign * graph.edge_mask.float()})
            for seen, graph in zip(outcome.explanations, outcome.graphs, strict=True)
        ]
        values.append(record_of(replace(outcome, explanations=masks)).values)
    truth, complement = values
    assert truth["choice_disagreement"] < complement["choice_disagreement"]
    assert truth["choice_loss"] < complement["choice_loss"]
    assert truth["choice_fidelity"] > complement["choice_fidelity"]


def test_choice_sees_the_other_class_where_one_is_explained(molecules):
    values = recorded(*molecules, "random", ("choice",)).values
    assert 0 < values["choice_disagreement"] < 2
