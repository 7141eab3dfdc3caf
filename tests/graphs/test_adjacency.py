"""Neighbours and distances of many nodes at once."""

import networkx as nx
import torch
from hypothesis import given
from hypothesis import strategies as st

from hpme.graphs.adjacency import Adjacency

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
