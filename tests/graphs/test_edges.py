"""Pairs of connected nodes; neighbours and distances of many nodes at once."""

import networkx as nx
import torch
from hypothesis import given
from hypothesis import strategies as st

from contract import make_graph, odd_graphs
from hpme.graphs import GraphStore
from hpme.graphs.edges import Adjacency

EDGES = torch.tensor([[2, 0, 2, 1, 3, 2], [0, 1, 3, 1, 2, 3]])


def test_neighbours_come_by_node_in_the_order_of_edges():
    neighbour, owner = Adjacency.of(EDGES, 5).neighbours(torch.tensor([2, 4, 1, 2]))
    assert neighbour.tolist() == [0, 3, 3, 1, 0, 3, 3]
    assert owner.tolist() == [0, 0, 0, 2, 3, 3, 3]


@given(
    st.integers(2, 9).flatmap(
        lambda n: st.tuples(
            st.just(n),
            st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=20),
            st.integers(0, n - 1),
            st.integers(0, n - 1),
        )
    )
)
def test_distances_are_those_of_networkx_without_the_excluded_node(case):
    num_nodes, edges, root, excluded = case
    graph = nx.DiGraph(edges)
    graph.add_nodes_from(range(num_nodes))
    if excluded != root:
        graph.remove_node(excluded)
    expected = nx.single_source_shortest_path_length(graph, root)
    edge_index = torch.tensor(edges, dtype=torch.long).view(-1, 2).T
    without = torch.tensor([excluded] if excluded != root else [], dtype=torch.long)
    distance = Adjacency.of(edge_index, num_nodes).distances(torch.tensor([root]), without)
    assert distance.tolist() == [expected.get(node, -1) for node in range(num_nodes)]


def test_several_roots_are_searched_at_once():
    path = torch.tensor([[0, 1, 2, 3, 5, 6], [1, 2, 3, 4, 6, 7]])
    edges = torch.cat([path, path.flip(0)], dim=1)
    distance = Adjacency.of(edges, 8).distances(torch.tensor([0, 7]), torch.tensor([3]))
    assert distance.tolist() == [0, 1, 2, -1, -1, 2, 1, 0]


def test_one_pair_per_connected_nodes_whatever_their_edges():
    graphs = GraphStore.from_graphs(
        [make_graph(0), *odd_graphs().values(), make_graph(1, directed=True)]
    ).batch()
    pairs = graphs.pairs
    edges = [tuple(sorted(edge)) for edge in graphs.edge_index.t().tolist()]
    assert [tuple(pair) for pair in pairs.index.t().tolist()] == sorted(set(edges))
    assert [tuple(pair) for pair in pairs.index[:, pairs.of_edge].t().tolist()] == edges
    values = torch.arange(len(edges), dtype=torch.float)
    groups = [[v for v, e in zip(values.tolist(), edges, strict=True) if e == one] for one in edges]
    assert pairs.per_edge(pairs.sum(values)).tolist() == [sum(group) for group in groups]
    mean = torch.tensor([sum(group) / len(group) for group in groups])
    torch.testing.assert_close(pairs.per_edge(pairs.mean(values)), mean)


def test_no_pairs_without_edges():
    pairs = GraphStore.from_graphs([odd_graphs()["no edges"]]).batch().pairs
    assert pairs.index.shape == (2, 0)
    assert pairs.sum(torch.zeros(0)).shape == (0,)
