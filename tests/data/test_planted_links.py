"""Links with ground truth: the planted path, against networkx; and links whose ends are marked."""

import networkx as nx
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from hpme.data import LinkDataset, load_dataset
from hpme.data.links import planted_graphs
from hpme.errors import InputError
from hpme.graphs.enclosing import are_linked, base_graph, cut_out

HOPS = 1


@pytest.fixture(scope="module")
def base():
    edges = torch.tensor(list(nx.barabasi_albert_graph(40, 3, seed=0).edges)).T
    return base_graph(Data(edge_index=to_undirected(edges), num_nodes=40), use_x=False)


@pytest.fixture(scope="module")
def graphs(base):
    return planted_graphs(base, 60, 0, num_hops=HOPS).to_data_list()


def network(graph):
    """The subgraph in the numbers of the whole graph."""
    return nx.Graph(graph.node_ids[graph.edge_index].T.tolist())


def test_half_of_the_paths_close_around_the_pair(base, graphs):
    assert sum(int(graph.y) for graph in graphs) == 30
    for graph in graphs:
        u, v = graph.node_ids[graph.anchors].tolist()
        new = {n for n in graph.node_ids.tolist() if n >= len(base.x)}
        path = network(graph).subgraph({u, v, *new})
        joined = path.has_node(u) and path.has_node(v) and nx.has_path(path, u, v)
        assert joined == bool(graph.y)
        assert len(new) == 3


def test_without_the_path_it_is_the_enclosing_subgraph(base, graphs):
    for graph in graphs:
        pair = graph.node_ids[graph.anchors].view(1, 2)
        plain = cut_out(base, pair, num_hops=HOPS, labels="ends").to_data_list()[0]
        rest = network(graph)
        rest.remove_nodes_from([n for n in list(rest) if n >= len(base.x)])
        assert {frozenset(e) for e in rest.edges} == {frozenset(e) for e in network(plain).edges}
        assert not are_linked(base, pair).any()


def test_the_ground_truth_is_the_closed_path(graphs):
    for graph in graphs:
        truth = nx.Graph(graph.edge_index[:, graph.edge_mask].T.tolist())
        if not graph.y:
            assert not graph.edge_mask.any() and not graph.node_mask.any()
            continue
        assert nx.shortest_path_length(truth, *graph.anchors.tolist()) == 4
        assert len(truth) == 5 and truth.number_of_edges() == 4
        assert sorted(truth) == graph.node_mask.nonzero().view(-1).tolist()


def test_only_the_ends_are_marked_and_numbers_say_nothing(base, graphs):
    places = []
    for graph in graphs:
        assert graph.x[:, 1].nonzero().view(-1).tolist() == sorted(graph.anchors.tolist())
        new = (graph.node_ids >= len(base.x)).nonzero().view(-1).float()
        places.append(float(new.mean()) / (graph.num_nodes - 1))
    assert 0.4 < sum(places) / len(places) < 0.6


def test_parts_and_seeds(base):
    one, same, other = (planted_graphs(base, 40, seed, num_hops=HOPS) for seed in (1, 1, 2))
    assert torch.equal(one.node["node_ids"], same.node["node_ids"])
    assert not torch.equal(one.node["node_ids"], other.node["node_ids"])
    part, y = one.graph["part"], one.graph["y"]
    assert all(int(y[part == i].sum()) * 2 == int((part == i).sum()) for i in range(3))


def test_too_few_are_refused(base):
    with pytest.raises(InputError, match="size"):
        planted_graphs(base, 5, 0, num_hops=HOPS)


@pytest.mark.parametrize("name", ["ba-shapes-links", "tree-grid-links"])
def test_variants_of_a_named_set(name, tmp_path):
    planted = load_dataset(name, variant="planted", size=40, root=tmp_path)
    assert isinstance(planted, LinkDataset) and planted.has_ground_truth
    assert "path" in planted.rule
    assert set(planted._data.y[planted.explainable].tolist()) == {1}
    assert set(planted._data.y[planted.companions(0)].tolist()) == {0}
    share = planted.stats.truth_nodes / planted.stats.sizes
    expected = torch.quantile(share[planted.explainable].double(), 0.9)
    assert planted.pool_ratio == pytest.approx(float(expected))
    plain, ends = (load_dataset(name, variant=v, size=40, root=tmp_path) for v in ("paper", "ends"))
    assert torch.equal(plain._data.edge_index, ends._data.edge_index)
    assert torch.equal(plain._data.y, ends._data.y)
    assert ends.num_features == 2 and ends.pool_ratio == 0.5
    assert torch.equal(ends[3].x[:, 1].nonzero().view(-1), ends[3].anchors.sort().values)
