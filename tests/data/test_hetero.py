import networkx as nx
import pytest
import torch
from torch_geometric.data import HeteroData

from hpme.data import load_dataset
from hpme.data.synthetic.hetero import RELATIONS, RING
from hpme.errors import InputError


@pytest.fixture(scope="module")
def motifs(tmp_path_factory):
    return load_dataset("hetero-motifs", size=40, root=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def fraud(tmp_path_factory):
    return load_dataset("hetero-fraud", size=400, root=tmp_path_factory.mktemp("cache"))


def typed_graph(data, *, truth=False):
    """As a networkx graph whose nodes know their type; with ``truth`` that part of it only."""
    graph = nx.Graph()
    for kind in data.node_types:
        marked = data[kind].node_mask
        for node in range(len(data[kind].x)):
            if marked[node] or not truth:
                graph.add_node((kind, node), kind=kind)
    for source, name, target in data.edge_types:
        store = data[source, name, target]
        for (a, b), marked in zip(store.edge_index.T.tolist(), store.edge_mask, strict=True):
            if marked or not truth:
                graph.add_edge((source, a), (target, b))
    return graph


def test_motifs_are_a_typed_cycle_or_house(motifs):
    assert len(motifs) == 40 and motifs.schema is not None
    cycle = nx.cycle_graph(5)
    house = nx.Graph([(0, 1), (1, 2), (2, 3), (0, 3), (0, 4), (1, 4)])
    for data in motifs:
        assert isinstance(data, HeteroData)
        graph, truth = typed_graph(data), typed_graph(data, truth=True)
        assert nx.is_isomorphic(truth, house if int(data.y) else cycle)
        kinds = sorted(kind for _, kind in truth.nodes(data="kind"))
        assert kinds == ["author", "author", "paper", "paper", "venue"]
        assert nx.is_connected(graph) and len(graph) == 25
        assert all(a[0] != b[0] for a, b in graph.edges)


def test_every_edge_has_its_reverse(motifs):
    for data in motifs:
        for source, name, target in RELATIONS:
            there = data[source, name, target].edge_index.T.tolist()
            back = data[target, f"rev_{name}", source].edge_index.flip(0).T.tolist()
            assert sorted(there) == sorted(back)


def test_datasets_are_the_same_for_the_same_seed(motifs, tmp_path):
    again = load_dataset("hetero-motifs", size=40, root=tmp_path)
    other = load_dataset("hetero-motifs", size=40, seed=1, root=tmp_path)
    assert torch.equal(motifs.training_store().node["node_type"],
                       again.training_store().node["node_type"])  # fmt: skip
    assert not torch.equal(motifs.training_store().node["node_type"],
                           other.training_store().node["node_type"])  # fmt: skip


def test_rings_are_new_accounts_around_a_device(fraud):
    whole = fraud.graph
    assert len(fraud) == len(whole["account"].x) == 400
    uses = whole["account", "uses", "device"]
    for device in uses.edge_index[1].unique().tolist():
        accounts = uses.edge_index[0][uses.edge_index[1] == device]
        marked = uses.edge_mask[uses.edge_index[1] == device]
        assert bool(marked.all()) or not bool(marked.any())
        labels = whole["account"].y[accounts]
        assert torch.equal(labels.bool(), marked)
        if bool(marked.any()):
            assert len(accounts) in RING
            assert float(whole["account"].x[accounts, 0].mean()) < 0
    assert not bool(whole["account", "pays", "merchant"].edge_mask.any())


def test_ego_graphs_are_about_an_account(fraud):
    number = int(fraud.explainable[0])
    ego = fraud[number]
    assert int(ego.y) == 1
    anchor = int(ego["account"].anchors)
    assert int(ego["account"].node_ids[anchor]) == number
    rows = ego["merchant"].node_ids
    assert torch.equal(ego["merchant"].x, fraud.graph["merchant"].x[rows])
    assert bool(ego["account", "uses", "device"].edge_mask.any())
    others = fraud.companions(seed=0)
    assert len(others) and int(others.max()) < 400
    assert not bool(fraud.graph["account"].y[others].any())


def test_ground_truth_of_an_ego_graph_is_the_ring_of_its_account_alone(fraud):
    several = 0
    for ego in fraud.ego_graphs(fraud.explainable):
        uses = ego["account", "uses", "device"]
        source, device = uses.edge_index
        own = device == device[source == int(ego["account"].anchors)]
        assert torch.equal(uses.edge_mask, own) and int(own.sum()) in RING
        assert int(ego["device"].node_mask.sum()) == 1
        rings = fraud.graph["device"].node_mask[ego["device"].node_ids]
        several += int(rings.sum()) > 1
    assert several  # else the test could not fail


def test_too_few_accounts_are_refused(tmp_path):
    with pytest.raises(InputError, match="at least 200 accounts"):
        load_dataset("hetero-fraud", size=20, root=tmp_path)
