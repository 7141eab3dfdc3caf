"""Ego graphs against PyG, node by node."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData
from torch_geometric.utils import k_hop_subgraph

from hpme.data import WholeGraph
from hpme.errors import InputError
from hpme.graphs.ego import node_index


@st.composite
def cases(draw):
    size = draw(st.integers(1, 12))
    node = st.integers(0, size - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=25))  # directed, loops, repetitions
    nodes = draw(st.lists(node, min_size=1, max_size=5))
    edge_index = torch.tensor(edges, dtype=torch.long).view(-1, 2).t()
    data = Data(
        torch.arange(size).float().view(-1, 1),
        edge_index,
        edge_attr=torch.arange(len(edges)).float().view(-1, 1),
        edge_weight=torch.arange(len(edges)).float(),
        y=torch.arange(size),
    )
    whole = WholeGraph.of(data, num_hops=draw(st.integers(1, 4)))
    whole = replace(whole, max_edges=draw(st.sampled_from([1, 20, 1000])))
    return whole, torch.tensor(nodes)


@given(cases())
def test_equal_to_k_hop_subgraph(case):
    whole, nodes = case
    egos = whole.ego_graphs(nodes)
    egos.check()
    for number, node in enumerate(nodes.tolist()):
        ids, edge_index, place, mask = k_hop_subgraph(
            node, whole.num_hops, whole.edge_index, relabel_nodes=True, num_nodes=len(whole.x)
        )
        graph = egos.batch(torch.tensor([number]))
        assert torch.equal(graph.x.view(-1).long(), ids)
        assert torch.equal(graph.edge_index, edge_index)
        assert torch.equal(graph.edge_attr.view(-1).long(), mask.nonzero().view(-1))
        assert torch.equal(graph.edge_weight.long(), mask.nonzero().view(-1))
        assert torch.equal(graph.anchors.view(-1), place)
        first, start = egos.node_start[number], egos.edge_start[number]
        assert torch.equal(egos.node["node_ids"][first : first + len(ids)], ids)
        listed = mask.nonzero().view(-1)
        assert torch.equal(egos.edge["edge_ids"][start : start + len(listed)], listed)
    assert torch.equal(egos.y, nodes)


@given(cases(), st.lists(st.sampled_from([-1, 1, 2, 9]), min_size=1, max_size=3), st.integers(0, 9))
def test_sampled_neighbours(case, most, seed):
    """Every node found before the last hop has as many of its edges as its hop follows."""
    whole, nodes = case
    whole = replace(whole, num_neighbors=most, seed=seed)
    degree = torch.bincount(whole.edge_index[1], minlength=len(whole.x)).tolist()
    chosen = {}
    for number, node in enumerate(nodes.tolist()):
        graph = whole.ego_graphs(nodes).batch(torch.tensor([number]))
        ids = graph.x.view(-1).long()
        edges = [(int(s), int(t)) for s, t in ids[graph.edge_index].T]
        listed = graph.edge_attr.view(-1).long()
        assert [tuple(e) for e in whole.edge_index[:, listed].T.tolist()] == edges
        assert len(set(listed.tolist())) == len(listed) and ids[graph.anchors.view(-1)] == node
        found, frontier = {node}, {node}
        for some in most:
            new = set()
            for one in frontier:
                into = [
                    (e, s) for e, (s, t) in zip(listed.tolist(), edges, strict=True) if t == one
                ]
                assert len(into) == (degree[one] if some < 0 else min(degree[one], some))
                assert chosen.setdefault((one, some), {e for e, _ in into}) == {e for e, _ in into}
                new |= {s for _, s in into}
            frontier = new - found
            found |= new
        assert found == set(ids.tolist())
        assert not {t for _, t in edges} & frontier  # the outermost nodes are not asked


def test_all_neighbours_are_those_of_the_hops():
    index = torch.randint(0, 30, (2, 90), generator=torch.Generator().manual_seed(0))
    data = Data(x=torch.arange(30.0).view(-1, 1), edge_index=index)
    sampled = WholeGraph.of(data, num_neighbors=[99, 99]).ego_graphs(torch.arange(30))
    whole = WholeGraph.of(data, num_hops=2).ego_graphs(torch.arange(30))
    assert torch.equal(sampled.node["node_ids"], whole.node["node_ids"])
    other = WholeGraph.of(data, num_neighbors=[2, 2], seed=1).ego_graphs(torch.arange(30))
    again = WholeGraph.of(data, num_neighbors=[2, 2], seed=2).ego_graphs(torch.arange(30))
    assert len(other.x) < len(whole.x) and not torch.equal(other.x[:40], again.x[:40])


@pytest.mark.parametrize("wrong", [[], [0], [2, -2], [1.5], ["3"], [True]])
def test_impossible_numbers_of_neighbours(wrong):
    data = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0], [1]]))
    with pytest.raises(InputError, match="num_neighbors must hold"):
        WholeGraph.of(data, num_neighbors=wrong)


def test_neighbours_of_every_type_are_sampled_apart():
    data = HeteroData()
    data["a"].x, data["b"].x = torch.ones(1, 1), torch.ones(5, 1)
    for name in ("r", "s"):
        data["b", name, "a"].edge_index = torch.stack([torch.arange(5), torch.zeros(5).long()])
    store = WholeGraph.of(data, num_neighbors=[2]).ego_graphs(torch.tensor([0]))
    assert store.edge["edge_type"].bincount().tolist() == [2, 2]


def test_labels_of_another_kind_are_left_out():
    data = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([1]))
    assert WholeGraph.of(data).ego_graphs(torch.tensor([2])).y is None
    data.y = torch.tensor([1, 0, 2])
    assert WholeGraph.of(data).ego_graphs(torch.tensor([2, 0])).y.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edge_index": torch.tensor([[0], [3]])}, "out of range"),
        ({"x": torch.ones(3)}, "shape"),
        ({"num_hops": 0}, "num_hops"),
    ],
)
def test_unusable_graphs_are_refused(change, message):
    usual = {"x": torch.ones(3, 1), "edge_index": torch.tensor([[0], [1]]), "num_hops": 1, **change}
    num_hops = usual.pop("num_hops")
    with pytest.raises(InputError, match=message):
        WholeGraph.of(Data(**usual), num_hops=num_hops)


def test_only_one_graph_has_node_numbers():
    with pytest.raises(InputError, match="one graph"):
        WholeGraph.of([Data()])


@pytest.mark.parametrize(
    ("index", "nodes"),
    [
        (None, [0, 1, 2]),
        (1, [1]),
        (range(2), [0, 1]),
        (torch.tensor([2, 2]), [2, 2]),
        (torch.tensor([True, False, True]), [0, 2]),
    ],
)
def test_node_index(index, nodes):
    assert node_index(index, 3, "cpu").tolist() == nodes
