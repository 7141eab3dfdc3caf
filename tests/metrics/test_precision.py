"""Precision at k: against all ways to break ties, and by hand."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.explain import Explanation

from hpme.errors import InputError
from hpme.metrics import precision_at_k, truth_sizes
from slow_metrics import FEATURES, bare_explanations, both_ways, edges, explained, pair_scores

PAIRS = list(itertools.combinations(range(4), 2))


def case(scores, truth):
    """A graph with the first pairs of four nodes, one score and one truth for each."""
    pairs = PAIRS[: len(scores)]
    edge_index, scores = both_ways(*pairs), torch.tensor(scores, dtype=torch.float).repeat(2)
    graph = Data(
        x=torch.ones(4, FEATURES),
        edge_index=edge_index,
        edge_mask=torch.tensor(truth).bool().repeat(2),
    )
    return Explanation(x=graph.x, edge_index=edge_index, edge_mask=scores), graph


def slow_precision(explanation, graph, count):
    """Mean over all orders that sort the scores."""
    truth = {
        (min(i, j), max(i, j))
        for (i, j), mark in zip(
            graph.edge_index.t().tolist(), graph.edge_mask.tolist(), strict=True
        )
        if mark
    }
    scores = pair_scores(explanation)
    count = min(count, len(scores))
    if not truth or not count:
        return math.nan
    values = [
        sum(pair in truth for pair in order[:count]) / count
        for order in itertools.permutations(scores)
        if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order))
    ]
    return sum(values) / len(values)


CASES = st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=5)


@given(st.lists(CASES, min_size=1, max_size=3), st.integers(1, 6))
def test_every_graph_equals_all_ways_to_break_ties(cases, count):
    explanations, graphs = zip(
        *(case([s for s, _ in part], [t for _, t in part]) for part in cases), strict=True
    )
    scores = precision_at_k(explanations, graphs, count)
    expected = [slow_precision(e, g, count) for e, g in zip(explanations, graphs, strict=True)]
    assert scores.per_graph.tolist() == pytest.approx(expected, nan_ok=True)
    by_truth = precision_at_k(explanations, graphs)
    sizes = truth_sizes(graphs).tolist()
    expected = [
        slow_precision(e, g, k) for e, g, k in zip(explanations, graphs, sizes, strict=True)
    ]
    assert by_truth.per_graph.tolist() == pytest.approx(expected, nan_ok=True)


def test_by_hand():
    explanation, graph = case([0.9, 0.8, 0.7, 0.1], [1, 0, 1, 1])
    assert precision_at_k([explanation], [graph], 1).mean == 1
    assert precision_at_k([explanation], [graph], 2).mean == 0.5
    assert precision_at_k([explanation], [graph], 0.25).mean == 1
    assert precision_at_k([explanation], [graph]).mean == pytest.approx(2 / 3)
    assert precision_at_k([explanation], [graph], 50).mean == 0.75  # all four pairs


def test_ties_count_by_their_share():
    explanation, graph = case([1, 1, 1, 0], [1, 0, 0, 0])
    assert precision_at_k([explanation], [graph], 2).mean == pytest.approx(1 / 3)


def test_directions_are_one_pair_and_loops_none():
    edge_index = edges((0, 1), (1, 0), (1, 2), (2, 2), (3, 2))
    truth = torch.tensor([False, True, False, True, False])
    graph = Data(x=torch.ones(4, FEATURES), edge_index=edge_index, edge_mask=truth)
    scores = torch.tensor([0.9, 0.3, 0.5, 1.0, 0.1])
    explanation = Explanation(x=graph.x, edge_index=edge_index, edge_mask=scores)
    assert precision_at_k([explanation], [graph]).mean == 1


def test_undefined_values_say_why():
    no_truth, broken = case([1, 0], [0, 0]), case([math.nan, 0], [1, 0])
    bare = [(e, Data(x=e.x, edge_index=e.edge_index, edge_mask=e.edge_mask.bool()))
            for e in bare_explanations().values()]  # fmt: skip
    explanations, graphs = zip(no_truth, broken, *bare, strict=True)
    scores = precision_at_k(explanations, graphs)
    assert bool(scores.per_graph.isnan().all())
    assert math.isnan(scores.mean)
    assert "ground truth" in scores.mean.reason
    good = case([1, 0], [1, 0])
    scores = precision_at_k([*explanations, good[0]], [*graphs, good[1]])
    assert (scores.mean, scores.count) == (1, 1)


def test_wrong_arguments_are_named():
    explanation, graph = case([1, 0], [1, 0])
    with pytest.raises(InputError, match="one explanation per graph"):
        precision_at_k([explanation], [graph, graph])
    with pytest.raises(InputError, match="differ in edges"):
        precision_at_k([explained(edges((0, 1)), 2)], [graph])
