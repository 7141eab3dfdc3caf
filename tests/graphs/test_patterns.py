"""Patterns in many graphs at once, against networkx."""

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from hpme.graphs import GraphStore
from hpme.graphs.patterns import LabelledGraphs, Pattern


def labelled(graphs):
    """Networkx graphs with labels as one store."""
    data = []
    for graph in graphs:
        edges = torch.tensor(list(graph.edges), dtype=torch.long).view(-1, 2).t()
        x = torch.tensor([[float(graph.nodes[n].get("label", 0))] for n in graph])
        data.append(Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], 1)))
    store = GraphStore.from_graphs(data)
    labels = store.x[:, 0].long()
    return LabelledGraphs.of(store, labels, torch.zeros(store.local_edge_index.shape[1]).long())


def plain(graph):
    graph = nx.convert_node_labels_to_integers(graph)
    nx.set_node_attributes(graph, 0, "label")
    nx.set_edge_attributes(graph, 0, "label")
    return graph


def slow_matches(graph, pattern):
    """Node sets of induced subgraphs, the slow way."""
    matcher = nx.algorithms.isomorphism.GraphMatcher(
        graph, pattern.graph, node_match=lambda a, b: a["label"] == b["label"]
    )
    return {frozenset(found) for found in matcher.subgraph_isomorphisms_iter()}


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 2))
def test_matches_are_those_of_networkx(seed, size, kinds):
    graphs = [plain(nx.gnp_random_graph(8, 0.35, seed=seed + i)) for i in range(3)]
    for graph in graphs:
        for node in graph:
            graph.nodes[node]["label"] = (node * 7 + seed) % kinds
    reached = next(iter(nx.connected_components(graphs[0])))
    chosen = list(nx.bfs_tree(graphs[0], min(reached)))[:size]
    pattern = Pattern.of(graphs[0].subgraph(chosen))
    rows = labelled(graphs).matches(pattern)
    found = [
        {frozenset((r - 8 * i).tolist()) for r in rows if int(r[0]) // 8 == i} for i in range(3)
    ]
    wanted = [slow_matches(graph, pattern) for graph in graphs]
    assert found == wanted
    assert len(rows) == sum(map(len, wanted))  # symmetric matches count once


def test_a_cycle_is_not_found_in_a_house():
    house, cycle = plain(nx.house_graph()), plain(nx.cycle_graph(5))
    graphs = labelled([house, cycle])
    assert (graphs.times(Pattern.of(cycle)) > 0).tolist() == [False, True]
    assert (graphs.times(Pattern.of(house)) > 0).tolist() == [True, False]


def test_edges_that_leave_a_match_can_be_limited():
    hanging, thicket = nx.cycle_graph(3), nx.cycle_graph(3)
    hanging.add_edges_from([(0, 3)])
    thicket.add_edges_from([(i, 3 + i) for i in range(3)])
    graphs = labelled([plain(hanging), plain(thicket)])
    triangle = Pattern.of(plain(nx.cycle_graph(3)))
    assert graphs.least_leaving(triangle).tolist() == [1, 3]
    limited = Pattern(triangle.nodes, triangle.edges, leaving=2)
    assert (graphs.times(limited) > 0).tolist() == [True, False]


def test_parts_are_connected_and_different():
    parts = Pattern.of(plain(nx.house_graph())).parts()
    assert sorted((len(p), len(p.edges)) for p in parts) == [(4, 3), (4, 4), (4, 4)]
    assert not any(a.same_as(b) for i, a in enumerate(parts) for b in parts[:i])
    assert Pattern((0,), ()).parts() == []


@pytest.mark.parametrize("shift", [0, 3])
def test_components_hash_alike_if_they_are_alike(shift):
    graph = plain(nx.disjoint_union(nx.cycle_graph(5), nx.house_graph()))
    renamed = nx.relabel_nodes(graph, {n: (n + shift) % 10 for n in graph})
    other = nx.Graph()
    other.add_nodes_from(sorted(renamed.nodes(data=True)))
    other.add_edges_from(renamed.edges)
    graphs = labelled([graph, other])
    component, code = graphs.components(torch.ones(20, dtype=torch.bool))
    roots = sorted(set(component.tolist()))
    kinds = {int(code[root]): 0 for root in roots}
    assert (len(roots), len(kinds)) == (4, 2)
    inside = torch.zeros(20, dtype=torch.bool)
    inside[:5] = True
    assert set(graphs.components(inside)[0].tolist()) == {-1, 0}
