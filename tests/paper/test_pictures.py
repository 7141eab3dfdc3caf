"""Pictures of single graphs: which edges are chosen, and in which colour."""

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.explain import Explanation

from hpme.paper.pictures import (
    MOST_EDGES,
    case_picture,
    heaviest,
    mixup_picture,
    partner_picture,
)
from hpme.viz.style import EXPLAINED, OTHERS, render


def both_ways(pairs):
    there = torch.tensor(pairs).t()
    return torch.cat([there, there.flip(0)], dim=1)


def cycle(size=5, truth=2):
    edge_index = both_ways([(i, (i + 1) % size) for i in range(size)])
    mask = torch.arange(2 * size) % size < truth
    return Data(
        edge_index=edge_index, num_nodes=size, edge_mask=mask, node_mask=torch.arange(size) <= truth
    )


def mixed(weights, transplanted, bridge, size=4):
    """A path with the given values along it."""
    edge_index = both_ways([(i, i + 1) for i in range(size - 1)])
    return Data(
        edge_index=edge_index,
        num_nodes=size,
        edge_weight=torch.tensor(weights * 2),
        transplanted=torch.tensor(transplanted * 2),
        bridge=torch.tensor(bridge * 2),
    )


MIXED = mixed([0.9, 1.0, 0.2], [True, False, False], [False, True, False])


def colours(axes):
    return [tuple(c.get_colors()[0]) for c in axes.collections if len(c.get_paths()) and
            hasattr(c, "get_segments")]  # fmt: skip


def test_as_many_edges_as_the_ground_truth_in_both_directions():
    graph = cycle()
    weight = torch.tensor([0.1, 0.9, 0.2, 0.3, 0.8] * 2)
    weight[6] = 0.0  # the other direction of the edge with 0.9: the mean counts
    chosen = heaviest(graph, Explanation(edge_mask=weight))
    assert chosen.edge_mask.tolist() == [0, 1, 0, 0, 1] * 2
    assert chosen.get("pooled") is None
    pooled = torch.tensor([True, False, True, False, False])
    assert torch.equal(heaviest(graph, Explanation(edge_mask=weight, pooled=pooled)).pooled, pooled)


def test_case_picture_has_a_row_per_graph_and_a_column_per_method():
    graphs = [cycle(), cycle(7)]
    given = {"A": [Explanation(edge_mask=torch.rand(g.num_edges)) for g in graphs]}
    figure = case_picture(graphs, given)
    assert [axes.get_title() for axes in figure.axes] == ["Ground truth", "A", "", ""]
    assert render(figure, ".png") == render(case_picture(graphs, given), ".png")


def test_colours_of_a_mixup_graph():
    figure = mixup_picture([cycle()], {"A": [MIXED]})
    blue, red, grey = colours(figure.axes[1])
    assert blue == pytest.approx(OTHERS(0.2), abs=1e-6)
    assert red == pytest.approx(EXPLAINED(0.9), abs=1e-6)
    assert grey not in (blue, red)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["from the explanation", "from the rest", "random connection"]
    again = mixup_picture([cycle()], {"A": [MIXED]})
    assert render(figure, ".pdf") == render(again, ".pdf")


def test_only_the_heaviest_edges_of_a_complete_graph():
    size = 13
    pairs = [(i, j) for i in range(size) for j in range(i)]
    count = len(pairs)
    assert count > MOST_EDGES
    complete = Data(
        edge_index=both_ways(pairs),
        num_nodes=size,
        edge_weight=torch.linspace(0, 1, count).repeat(2),
        transplanted=torch.zeros(2 * count, dtype=torch.bool),
        bridge=torch.zeros(2 * count, dtype=torch.bool),
    )
    axes = mixup_picture([cycle(size)], {"A": [complete]}).axes[1]
    drawn = [c for c in axes.collections if hasattr(c, "get_segments")]
    assert sum(len(c.get_segments()) for c in drawn) == MOST_EDGES
    lightest = OTHERS(1 - (MOST_EDGES - 1) / (count - 1))
    assert tuple(drawn[0].get_colors()[0]) == pytest.approx(lightest, abs=1e-6)


def test_partners():
    figure = partner_picture({"near partner": (cycle(), cycle(6), MIXED)})
    titles = [axes.get_title() for axes in figure.axes[:3]]
    assert titles == ["Ground truth", "Ground truth of the partner", "Mixup graph"]
    assert [t.get_text() for t in figure.axes[0].texts] == ["near partner"]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "random connection" in labels
