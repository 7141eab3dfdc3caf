"""Metric sets and exhibits of an experiment."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.explain import Explanation

from finder import Finder, planted_graphs
from hpme.bench import MEASURES, Experiment, Target, explain, record_of
from hpme.bench.measures import EXHIBITED, EXHIBITS
from hpme.bench.outcome import Outcome
from hpme.data import GraphStore, load_dataset
from hpme.errors import InputError
from hpme.explainers import HPMEExplainer
from hpme.models import Recipe, predict

QUICK = {"restarts": 1}


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
        "auc", "auc_per_graph", "node_auc", "precision", "fidelity_plus", "fidelity_minus",
        "robust_fidelity_plus", "robust_fidelity_minus", "simoar", "simoar_random",
        "simoar_empty", "cosine", "euclidean", "choice_fidelity", "choice_disagreement",
        "choice_loss", "carried", "lost",
    }  # fmt: skip
    assert record.undefined == {}
    of_all = {name for name in record.values if name.startswith(("auc", "node", "choice"))}
    of_all -= {"auc_per_graph"}
    assert set(record.spread) == set(record.values) - of_all


def test_recall_of_every_pattern_by_hand():
    """Two matches of the first pattern, nodes 0-1 and 2-3; one of the second, nodes 4-5."""
    parts = {"match_index": [0, 1, 2, 3, 4, 5], "match_id": [0, 0, 1, 1, 2, 2],
             "match_rule": [0, 0, 0, 0, 1, 1]}  # fmt: skip
    edges = torch.tensor([[0, 6], [6, 0]])
    graph = Data(edge_index=edges, num_nodes=10, node_mask=torch.arange(10) < 6,
                 **{name: torch.tensor(value) for name, value in parts.items()})  # fmt: skip

    def measured(scores):
        one = Explanation(edge_index=edges, num_nodes=10, node_mask=torch.tensor(scores))
        return MEASURES["nodes"](SimpleNamespace(graphs=[graph], explanations=[one]))

    scores = [0.9, 0.8, 0.7, 0.1, 0.6, 0.1, 0.9, 0.9, 0.1, 0.1]  # six best: 0, 1, 2, 4, 6, 7
    found = measured(scores)
    means = [float(found[f"recall_{name}"].mean) for name in ("1", "2", "least")]
    assert means == [1.0, 0.5, 0.5]
    # Pairs of a node in and one out of the truth: 24; 8 in order, 6 tied.
    assert float(found["node_auc"]) == pytest.approx(11 / 24)
    tied = measured([0.5] * 10)  # every node is among six of ten with probability .6
    assert float(tied["recall_least"].mean) == pytest.approx(0.6)


def test_the_ground_truth_has_full_precision(dataset, target):
    values = recorded(dataset, target, "ground-truth", ("precision", "shift")).values
    assert values["precision"] == 1.0
    assert values["cosine"] < 1.0


class Planted:
    """A dataset of which it is known what a model reads."""

    info, pool_ratio, has_ground_truth = SimpleNamespace(task="regression"), 0.25, True

    def __init__(self, graphs):
        self.graphs = graphs

    def __len__(self):
        return len(self.graphs)

    def __getitem__(self, number):
        return self.graphs[number]

    def companions(self, seed, count):
        return torch.zeros(0, dtype=torch.long)


def test_explanations_are_put_into_graphs_that_no_explainer_saw(monkeypatch):
    told, hosts, graphs = HPMEExplainer.judge, [], planted_graphs(36)

    def judge(self, model, some, masks, **known):
        hosts.append(known["hosts"])
        return told(self, model, some, masks, **known)

    def carried(dataset, count, masks):
        numbers = list(range(count))
        experiment = Experiment("planted", None, 0, graphs=count)
        shown = [Explanation(edge_mask=mask) for mask in masks[:count]]
        target = Target("finder", 0, Finder(), None)
        some = [dataset[number] for number in numbers]
        return MEASURES["judged"](Outcome(experiment, dataset, target, numbers, some, [], shown))

    monkeypatch.setattr(HPMEExplainer, "judge", judge)
    truth = [graph.x[graph.edge_index, 1].prod(0) for graph in graphs]
    noise = [torch.rand(graph.num_edges) for graph in graphs]
    found, random = (carried(Planted(graphs), 20, masks) for masks in (truth, noise))
    assert float(found["carried"]) > 0.6 > 0.2 > float(random["carried"])
    assert float(found["lost"]) > 0.6 and found["lost"].count == 20
    for some in hosts:
        assert len(some) == 16 and not any(torch.equal(h.x, g.x) for h in some for g in graphs[:20])
    assert "2 graphs are left" in carried(Planted(graphs), 34, truth)["carried"].reason


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


def test_mean_rank_is_that_of_the_cheap_methods(dataset, target):
    """A share of all edges, those of all graphs ranked together."""
    outcome = explain(Experiment("ba-2motifs", "mean-rank", 400, graphs=3), dataset, target)
    ranks = torch.cat([one.edge_mask for one in outcome.explanations])
    assert [one.num_edges for one in outcome.explanations] == [g.num_edges for g in outcome.graphs]
    assert float(ranks.min()) > 0 and float(ranks.max()) <= 1
    # The mean of ranks 1 to n, whatever the methods say.
    assert float(ranks.double().mean()) == pytest.approx((len(ranks) + 1) / 2 / len(ranks))


def test_what_is_explained_was_neither_fitted_on_nor_drawn_in_development(dataset, target):
    experiment = Experiment("ba-2motifs", "distilled-occlusion", 401, graphs=4, fit_graphs=5)
    outcome = explain(experiment, dataset, target)
    assert len(outcome.companions) == 5 and len(outcome.explanations) == 4
    assert set(dataset.explained(1, 5).tolist()).isdisjoint(outcome.numbers)
    assert record_of(outcome).context["seen_before"] == 0
    assert dataset.drawn_before(dataset.explained(7).tolist()) == len(dataset.explained(7))
    assert dataset.drawn_before([]) == 0
