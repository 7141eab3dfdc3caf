"""Enclosing subgraphs and their labels, against a slow reference on one link at a time."""

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.utils import k_hop_subgraph, to_undirected

from hpme.data import enclosing_subgraph
from hpme.errors import InputError
from hpme.graphs.enclosing import drnl


def graph_of(edges, num_nodes, directed=False):
    edge_index = torch.tensor(edges, dtype=torch.long).view(-1, 2).T
    if not directed:
        edge_index = to_undirected(edge_index, num_nodes=num_nodes)
    return Data(edge_index=edge_index, num_nodes=num_nodes)


@st.composite
def graphs_and_links(draw):
    nodes = draw(st.integers(2, 12))
    node = st.integers(0, nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=24))
    link = st.tuples(node, node).filter(lambda pair: pair[0] != pair[1])
    links = draw(st.lists(link, min_size=1, max_size=4))
    return graph_of(edges, nodes), links, draw(st.integers(1, 3))


def reference(data, link, num_hops):
    """Nodes, edges and labels of one link with PyG and networkx, step by step."""
    u, v = link
    nodes, _, _, kept = k_hop_subgraph([u, v], num_hops, data.edge_index, num_nodes=data.num_nodes)
    edges = [pair for pair in data.edge_index[:, kept].T.tolist() if set(pair) != {u, v}]
    graph = nx.Graph(edges)
    graph.add_nodes_from(nodes.tolist())

    def distances(end, other):
        rest = graph.copy()
        rest.remove_node(other)
        return nx.single_source_shortest_path_length(rest, end)

    to_u, to_v = distances(u, v), distances(v, u)
    labels = {}
    for node in nodes.tolist():
        if node in link:
            labels[node] = 1
        elif node not in to_u or node not in to_v:
            labels[node] = 0
        else:
            a, b = to_u[node], to_v[node]
            half, odd = divmod(a + b, 2)
            labels[node] = 1 + min(a, b) + half * (half + odd - 1)
    return sorted(nodes.tolist()), sorted(map(tuple, edges)), labels


@given(graphs_and_links())
def test_nodes_edges_and_labels_are_those_of_the_reference(case):
    data, links, num_hops = case
    subgraphs = enclosing_subgraph(data, links, num_hops=num_hops, num_labels=200)
    assert len(subgraphs) == len(links)
    for link, subgraph in zip(links, subgraphs, strict=True):
        nodes, edges, labels = reference(data, link, num_hops)
        assert subgraph.node_ids.tolist() == nodes
        assert sorted(map(tuple, subgraph.node_ids[subgraph.edge_index].T.tolist())) == edges
        assert subgraph.x.argmax(1).tolist() == [labels[node] for node in nodes]
        assert bool((subgraph.x.sum(1) == 1).all())
        assert tuple(subgraph.node_ids[subgraph.anchors].tolist()) == link
        exists = bool((data.edge_index == torch.tensor(link).view(2, 1)).all(0).any())
        assert subgraph.y.tolist() == [int(exists)]


def test_labels_of_a_known_graph():
    """Ends 0 and 1; 2 next to both, 3 next to 2, 4 reaches 1 through 0 alone, 5 neither."""
    edges = torch.tensor([[0, 1, 2, 0], [2, 2, 3, 4]])
    labels = drnl(edges, 6, torch.tensor([[0, 1]]))
    assert labels.tolist() == [1, 1, 2, 5, 0, 0]


@pytest.mark.parametrize("direction", [[(0, 1)], [(1, 0)], [(0, 1), (1, 0)]])
def test_the_link_is_absent_in_both_directions_also_of_a_directed_graph(direction):
    data = graph_of([*direction, (1, 2), (2, 0), (3, 0), (0, 0)], 4, directed=True)
    for link in [(0, 1), (1, 0)]:
        (subgraph,) = enclosing_subgraph(data, [link])
        pairs = subgraph.node_ids[subgraph.edge_index].T.tolist()
        assert sorted(pairs) == [[0, 0], [1, 2], [2, 0], [3, 0]]  # directions and loops stay
        assert subgraph.y.tolist() == [1]
        assert subgraph.x.argmax(1).tolist() == [1, 1, 2, 0]


def test_either_order_of_the_ends_gives_the_same_subgraph():
    data = graph_of([(0, 1), (0, 2), (1, 2), (2, 3), (1, 4)], 5)
    one, other = enclosing_subgraph(data, [(0, 1), (1, 0)])
    for key in ("x", "edge_index", "y", "node_ids"):
        assert torch.equal(one[key], other[key])
    assert one.anchors.tolist() == other.anchors.flip(0).tolist() == [0, 1]


def test_links_may_repeat_and_need_not_exist():
    data = graph_of([(0, 1), (1, 2), (2, 3)], 4)
    first, missing, again = enclosing_subgraph(data, [(0, 1), (0, 3), (0, 1)])
    assert [first.y.item(), missing.y.item()] == [1, 0]
    assert missing.num_nodes == 4
    assert all(torch.equal(first[key], again[key]) for key in first.keys())  # noqa: SIM118


def test_ends_without_other_links_are_two_nodes_without_edges():
    data = graph_of([(0, 1), (2, 3)], 6)
    for link, exists in [((0, 1), 1), ((4, 5), 0)]:
        (subgraph,) = enclosing_subgraph(data, [link])
        assert subgraph.edge_index.shape == (2, 0)
        assert subgraph.node_ids.tolist() == list(link)
        assert subgraph.x.argmax(1).tolist() == [1, 1]
        assert subgraph.y.tolist() == [exists]


def test_high_labels_share_the_last_column_and_features_follow():
    data = graph_of([(0, 1), (0, 2), (2, 3), (3, 1)], 4)
    data.x = torch.arange(8.0).view(4, 2)
    (subgraph,) = enclosing_subgraph(data, torch.tensor([[0, 1]]), num_labels=3, use_x=True)
    assert subgraph.x[:, :3].argmax(1).tolist() == [1, 1, 2, 2]
    assert torch.equal(subgraph.x[:, 3:], data.x)
    (plain,) = enclosing_subgraph(data, torch.tensor([[0, 1]]), num_labels=3)
    assert plain.x.shape == (4, 3)


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ([(0, 4)], r"link 0 is \(0, 4\): node numbers must lie in \[0, 4\)"),
        ([(0, 1), (-1, 2)], r"link 1 is \(-1, 2\)"),
        ([(0, 1), (2, 2)], r"link 1 is \(2, 2\): a link joins two different nodes"),
        ([], "at least one pair"),
        ([0, 1], "shape"),
        (torch.tensor([[0, 1, 2], [1, 2, 3]]), "transpose"),
        ([(0.5, 1.0)], "whole numbers"),
        ([(0, 1), (2,)], "pairs of node numbers"),
    ],
)
def test_unusable_links_are_named(links, message):
    data = graph_of([(0, 1), (1, 2), (2, 3)], 4)
    with pytest.raises(InputError, match=message):
        enclosing_subgraph(data, links)


def test_unusable_graphs_and_options_are_named():
    data = graph_of([(0, 1), (1, 2)], 3)
    with pytest.raises(InputError, match="num_hops must be at least 1"):
        enclosing_subgraph(data, [(0, 1)], num_hops=0)
    with pytest.raises(InputError, match="needs features x"):
        enclosing_subgraph(data, [(0, 1)], use_x=True)
    with pytest.raises(InputError, match="edge_index must be a tensor"):
        enclosing_subgraph(Data(num_nodes=3), [(0, 1)])
    with pytest.raises(InputError, match="out of range"):
        enclosing_subgraph(Data(edge_index=data.edge_index, num_nodes=2), [(0, 1)])
    with pytest.raises(InputError, match=r"torch\.long"):
        enclosing_subgraph(Data(edge_index=data.edge_index.int(), num_nodes=3), [(0, 1)])


def test_marked_ends_are_the_only_labels():
    data = graph_of([(0, 1), (1, 2), (2, 3), (3, 0)], 4)
    (graph,) = enclosing_subgraph(data, [(2, 0)], labels="ends")
    (labelled,) = enclosing_subgraph(data, [(2, 0)])
    assert graph.x.tolist() == [[0, 1], [1, 0], [0, 1], [1, 0]]
    assert torch.equal(graph.edge_index, labelled.edge_index)
    with pytest.raises(InputError, match="labels must be one of"):
        enclosing_subgraph(data, [(0, 2)], labels="zero")
