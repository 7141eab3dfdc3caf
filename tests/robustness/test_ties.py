"""Nodes the model does not tell apart get equal scores, however they are numbered."""

from functools import cache

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.utils import from_networkx

from contract import FEATURES, featured, make_explainer, make_target
from hpme.graphs.segment import ties_in_segment
from stand_in import DEVICE, StandIn

EQUIVARIANT = ["hpme", "gnnexplainer", "matchexplainer"]
slugs = pytest.mark.parametrize("slug", EQUIVARIANT)


def constant(graph):
    """A graph whose nodes differ by their place in it alone."""
    nodes = graph.number_of_nodes()
    return Data(x=torch.ones(nodes, FEATURES), edge_index=from_networkx(graph).edge_index)


@cache
def explainer(slug):
    graphs = [constant(nx.barabasi_albert_graph(6 + s, 1 + s % 2, seed=s)) for s in range(6)]
    model = make_target("gcn")
    return make_explainer(slug).fit(model, graphs, progress=False), model


def masks(slug, graph):
    fitted, model = explainer(slug)
    (found,) = fitted.explain(model, [graph], progress=False)
    return found


@slugs
def test_a_cycle_has_one_score(slug):
    found = masks(slug, constant(nx.cycle_graph(10)))
    assert float(found.edge_mask.max() - found.edge_mask.min()) < 1e-5
    if "node_mask" in found:
        assert len(set(found.node_mask.flatten().tolist())) == 1
    if "pooled" in found:
        assert bool(found.pooled.all())  # all share the four places


SHAPES = st.one_of(
    st.builds(nx.barabasi_albert_graph, st.integers(5, 14), st.integers(1, 2), st.integers(0, 99)),
    st.builds(nx.star_graph, st.integers(2, 9)),
    st.builds(nx.path_graph, st.integers(2, 9)),
    st.builds(nx.circular_ladder_graph, st.integers(3, 6)),
    st.builds(nx.complete_bipartite_graph, st.integers(1, 4), st.integers(1, 4)),
)


@slugs
@given(shape=SHAPES, seed=st.integers(0, 1000))
def test_masks_follow_the_nodes(slug, shape, seed):
    graph, generator = constant(shape), torch.Generator().manual_seed(seed)
    nodes = torch.randperm(graph.num_nodes, generator=generator)
    edges = torch.randperm(graph.num_edges, generator=generator)
    place = torch.empty_like(nodes)
    place[nodes] = torch.arange(len(nodes))
    other = Data(x=graph.x[nodes], edge_index=place[graph.edge_index][:, edges])
    before, after = masks(slug, graph), masks(slug, other)
    assert torch.allclose(after.edge_mask, before.edge_mask[edges], atol=1e-3)
    if "node_mask" in before:
        assert torch.allclose(after.node_mask, before.node_mask[nodes], atol=1e-5)
    if "pooled" in before:
        assert torch.equal(after.pooled, before.pooled[nodes])


def test_edges_that_differ_are_no_twins():
    """A cycle whose edges have features of their own is no longer symmetric."""
    graph = featured(from_networkx(nx.cycle_graph(6)).edge_index, 6, edge_features=True)
    graph.x = torch.ones_like(graph.x)
    model = make_target("gine")
    found = make_explainer("gnnexplainer").fit(model, [graph], progress=False)
    (mask,) = (e.edge_mask for e in found.explain(model, [graph], progress=False))
    assert len(set(mask.tolist())) > 2


def test_ties_share_the_lowest_of_their_ranks():
    score = torch.tensor([3.0, 3.0 + 1e-7, 1.0, 5.0, 5.0, 5.0])
    rank = torch.tensor([1, 0, 2, 0, 1, 2])
    segment, ptr = torch.tensor([0, 0, 0, 1, 1, 1]), torch.tensor([0, 3])
    first = ties_in_segment(score, rank, segment, ptr)
    assert first.tolist() == [0, 0, 2, 0, 0, 0]
    alone = torch.tensor([False, False, False, True, False, False])
    assert ties_in_segment(score, rank, segment, ptr, alone).tolist()[3:] == [0, 1, 1]
    with StandIn():
        there = [t.to(DEVICE) for t in (score, rank, segment, ptr)]
        assert ties_in_segment(*there).tolist() == first.tolist()
