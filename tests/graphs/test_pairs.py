import torch

from contract import make_graph, odd_graphs
from hpme.graphs import GraphStore


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


def test_no_edges():
    pairs = GraphStore.from_graphs([odd_graphs()["no edges"]]).batch().pairs
    assert pairs.index.shape == (2, 0)
    assert pairs.sum(torch.zeros(0)).shape == (0,)
