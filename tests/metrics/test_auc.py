"""Edge ROC-AUC: against scikit-learn, by hand, and by its symmetries."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from torch_geometric.data import Data
from torch_geometric.explain import Explanation

from hpme.errors import InputError
from hpme.metrics import (
    edge_auc,
    edge_auc_per_graph,
    explanation_auc,
    explanation_auc_per_graph,
)

# Few distinct scores, so that ties are common.
EDGES = st.lists(
    st.tuples(st.integers(-4, 4), st.booleans(), st.integers(0, 3)), min_size=1, max_size=40
)


def tensors(edges):
    scores, labels, graph = (torch.tensor(column) for column in zip(*edges, strict=True))
    return scores.double(), labels, graph


def by_sklearn(scores, labels):
    return roc_auc_score(labels, scores) if 0 < labels.sum() < labels.numel() else math.nan


@given(EDGES)
def test_pooled_equals_sklearn(edges):
    scores, labels, _ = tensors(edges)
    assert edge_auc(scores, labels) == pytest.approx(by_sklearn(scores, labels), nan_ok=True)


@given(EDGES)
def test_every_graph_equals_sklearn(edges):
    scores, labels, graph = tensors(edges)
    expected = [
        by_sklearn(scores[graph == number], labels[graph == number])
        for number in range(int(graph.max()) + 1)
    ]
    values = edge_auc_per_graph(scores, labels, graph)
    assert values.tolist() == pytest.approx(expected, nan_ok=True)
    mean = torch.tensor(expected, dtype=torch.double).nanmean()
    reduced = edge_auc(scores, labels, graph, reduction="per_graph")
    assert reduced == pytest.approx(float(mean), nan_ok=True)


@given(EDGES)
def test_monotone_transforms_change_nothing(edges):
    scores, labels, graph = tensors(edges)
    for reduction in ("pooled", "per_graph"):
        before = edge_auc(scores, labels, graph, reduction=reduction)
        after = edge_auc(3 * scores.exp() - 7, labels, graph, reduction=reduction)
        assert after == pytest.approx(before, nan_ok=True)


@given(EDGES)
def test_negation_mirrors(edges):
    scores, labels, graph = tensors(edges)
    for reduction in ("pooled", "per_graph"):
        value = edge_auc(scores, labels, graph, reduction=reduction)
        mirrored = edge_auc(-scores, labels, graph, reduction=reduction)
        assert mirrored == pytest.approx(1 - value, nan_ok=True)


def test_by_hand_with_ties():
    # Pairs of a true and a false edge: 3 > 1 and 3 > 2 are won, 2 = 2 is half, 2 > 1 is won.
    scores, labels = torch.tensor([3.0, 2.0, 2.0, 1.0]), torch.tensor([1, 1, 0, 0])
    assert edge_auc(scores, labels) == 3.5 / 4
    assert edge_auc(torch.ones(4), labels) == 0.5


def test_the_scale_across_graphs_matters_only_if_pooled():
    scores, graph = torch.tensor([0.2, 0.1, 0.9, 0.8]), torch.tensor([0, 0, 1, 1])
    labels = torch.tensor([True, False, True, False])
    assert edge_auc(scores, labels, graph, reduction="per_graph") == 1.0
    assert edge_auc(scores, labels, graph) == 0.75


def test_large_graph_numbers_and_any_edge_order():
    graph = torch.tensor([7, 2, 7, 2])
    values = edge_auc_per_graph(torch.tensor([1.0, 0, 0, 1]), torch.tensor([1, 1, 0, 0]), graph)
    assert values[7] == 1.0
    assert values[2] == 0.0
    assert int(values.isnan().sum()) == 6


def test_self_loops_are_left_out():
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 2]])
    scores, labels = torch.tensor([0.9, 0.1, 1.0]), torch.tensor([True, False, False])
    assert edge_auc(scores, labels, edge_index=edge_index) == 1.0
    assert edge_auc(scores, labels) == 0.5


@pytest.mark.parametrize(
    ("scores", "labels", "reason"),
    [
        ([], [], "no edges"),
        ([1.0, 2.0], [0, 0], "no edge is ground truth"),
        ([1.0, 2.0], [1, 1], "every edge is ground truth"),
        ([1.0, math.nan], [0, 1], "NaN"),
    ],
)
def test_undefined_is_nan_with_a_reason(scores, labels, reason):
    value = edge_auc(torch.tensor(scores), torch.tensor(labels, dtype=torch.long))
    assert math.isnan(value)
    assert reason in value.reason


def test_no_graph_with_both_classes():
    value = edge_auc(
        torch.rand(4), torch.tensor([0, 0, 1, 1]), torch.tensor([0, 0, 1, 1]), reduction="per_graph"
    )
    assert math.isnan(value)
    assert "no graph" in value.reason


def test_a_nan_score_spoils_its_graph_only():
    scores, graph = torch.tensor([math.nan, 1.0, 1.0, 0.0]), torch.tensor([0, 0, 1, 1])
    values = edge_auc_per_graph(scores, torch.tensor([1, 0, 1, 0]), graph)
    assert values.isnan().tolist() == [True, False]


def test_infinite_scores_are_ranked():
    scores = torch.tensor([math.inf, 0.0, -math.inf])
    assert edge_auc(scores, torch.tensor([1, 0, 0])) == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scores": torch.rand(3)}, "one value per edge"),
        ({"labels": torch.tensor([0.5, 1.0])}, "0/1"),
        ({"reduction": "mean"}, "reduction"),
        ({"reduction": "per_graph"}, "graph number"),
        ({"graph": torch.zeros(3, dtype=torch.long)}, "graph must be"),
        ({"edge_index": torch.zeros(2, 3, dtype=torch.long)}, "edge_index"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    valid = {"scores": torch.rand(2), "labels": torch.tensor([0, 1])}
    with pytest.raises(InputError, match=message):
        edge_auc(**{**valid, **arguments})


def graph_with_loop(scores):
    edge_index = torch.tensor([[0, 1, 1], [1, 0, 1]])
    graph = Data(edge_index=edge_index, num_nodes=2, edge_mask=torch.tensor([True, False, True]))
    return graph, Explanation(edge_index=edge_index, edge_mask=torch.tensor(scores))


def test_explanations_are_scored_without_self_loops():
    graphs, explanations = zip(
        graph_with_loop([0.9, 0.1, 0.0]), graph_with_loop([0.2, 0.3, 0.0]), strict=True
    )
    assert explanation_auc(explanations, graphs) == 0.75
    assert explanation_auc_per_graph(explanations, graphs).tolist() == [1.0, 0.0]


def test_graphs_without_edges_keep_their_place():
    graph, explanation = graph_with_loop([0.9, 0.1, 0.0])
    bare = Data(edge_index=torch.zeros(2, 0, dtype=torch.long), edge_mask=torch.zeros(0).bool())
    nothing = Explanation(edge_index=bare.edge_index, edge_mask=torch.zeros(0))
    values = explanation_auc_per_graph([explanation, nothing], [graph, bare])
    assert values[0] == 1.0
    assert values[1].isnan()


def test_explanations_that_do_not_fit_are_refused():
    graph, explanation = graph_with_loop([0.9, 0.1, 0.0])
    with pytest.raises(InputError, match="one explanation per graph"):
        explanation_auc([explanation], [graph, graph])
    with pytest.raises(InputError, match="ground truth"):
        explanation_auc([explanation], [Data(edge_index=graph.edge_index)])
    with pytest.raises(InputError, match="edge scores"):
        explanation_auc([Explanation(edge_mask=torch.rand(2))], [graph])


def several(seed, alternatives):
    """A random graph, random scores, and random node masks."""
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(6, (2, 14), generator=generator)
    scores = torch.randint(5, (14,), generator=generator).float()
    masks = [torch.rand(6, generator=generator) < 0.6 for _ in range(alternatives)]
    graph = Data(edge_index=edge_index, num_nodes=6)
    return graph, Explanation(edge_index=edge_index, edge_mask=scores), masks


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 4)), min_size=1, max_size=5))
def test_best_is_the_highest_of_every_graph(cases):
    graphs, explanations, alternatives = zip(*(several(*case) for case in cases), strict=True)
    expected = []
    for graph, explanation, masks in zip(graphs, explanations, alternatives, strict=True):
        source, target = graph.edge_index
        proper = source != target
        values = [
            by_sklearn(explanation.edge_mask[proper], (mask[source] & mask[target])[proper])
            for mask in masks
        ]
        expected.append(max((v for v in values if not math.isnan(v)), default=math.nan))
    result = explanation_auc_per_graph(explanations, graphs, alternatives=alternatives)
    assert result.tolist() == pytest.approx(expected, nan_ok=True)
    mean = explanation_auc(explanations, graphs, reduction="best", alternatives=alternatives)
    defined = [value for value in expected if not math.isnan(value)]
    assert mean == pytest.approx(sum(defined) / len(defined) if defined else math.nan, nan_ok=True)


def test_best_by_hand():
    edge_index = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    graph = Data(edge_index=edge_index, num_nodes=5)
    explanation = Explanation(edge_index=edge_index, edge_mask=torch.tensor([0.1, 0.2, 0.8, 0.9]))
    left, right = torch.tensor([1, 1, 1, 0, 0]).bool(), torch.tensor([0, 0, 1, 1, 1]).bool()

    def best(*masks):
        return explanation_auc([explanation], [graph], reduction="best", alternatives=[masks])

    assert (best(left), best(right), best(left, right)) == (0, 1, 1)
    assert "no graph" in best().reason
    assert "no graph" in best(torch.ones(5).bool()).reason
    explanation.edge_mask[0] = math.nan
    assert "NaN" in best(left).reason


def test_best_and_alternatives_go_together():
    graph, explanation, masks = several(0, 2)
    with pytest.raises(InputError, match="go together"):
        explanation_auc([explanation], [graph], reduction="best")
    with pytest.raises(InputError, match="go together"):
        explanation_auc([explanation], [graph], alternatives=[masks])
    with pytest.raises(InputError, match="alternatives of 2 for 1"):
        explanation_auc_per_graph([explanation], [graph], alternatives=[masks, masks])
    with pytest.raises(InputError, match="boolean masks of its 6"):
        explanation_auc_per_graph([explanation], [graph], alternatives=[[masks[0][:3]]])
