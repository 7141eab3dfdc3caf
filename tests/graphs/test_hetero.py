import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.loader import DataLoader

from hetero import BUYS, EDGE_TYPES, HAS, RATES, UNUSED, WIDTHS, make_graph, make_graphs
from hpme.errors import InputError
from hpme.graphs import GraphStore
from hpme.graphs.transforms import from_tensors, to_tensors


def same(first, second):
    assert set(first.node_types) == set(second.node_types)
    for kind in first.node_types:
        assert torch.equal(first[kind].x, second[kind].x)
    for kind in second.edge_types:
        assert torch.equal(first[kind].edge_index, second[kind].edge_index)
        attr = second[kind].get("edge_attr")
        assert attr is None or torch.equal(first[kind].edge_attr, attr)


@pytest.mark.parametrize("edge_features", [False, True])
def test_graphs_come_back_as_they_were(edge_features):
    graphs = make_graphs(4, edge_features=edge_features)
    store = GraphStore.from_graphs(graphs)
    assert store.schema.node_types == tuple(WIDTHS)
    assert set(store.schema.edge_types) == set(EDGE_TYPES)
    for made in (store, from_tensors(to_tensors(store)), GraphStore.from_graphs(store.batch())):
        for number, graph in enumerate(graphs):
            same(made[number], graph)


def test_a_loader_and_a_batch_are_the_same_graphs():
    graphs = make_graphs(4)
    expected = GraphStore.from_graphs(graphs)
    for given in (DataLoader(graphs, batch_size=3), Batch.from_data_list(graphs)):
        store = GraphStore.from_graphs(given)
        assert torch.equal(store.x, expected.x)
        assert torch.equal(store.local_edge_index, expected.local_edge_index)


def test_dictionaries_are_those_of_pyg():
    graphs = make_graphs(5, edge_features=True)
    batch, expected = GraphStore.from_graphs(graphs).batch(), Batch.from_data_list(graphs)
    features = batch.type_rows.features(batch.x)
    attr = batch.type_rows.edge_features(batch.edge_attr)
    for kind in WIDTHS:
        assert torch.equal(features[kind], expected[kind].x)
        assert torch.equal(batch.batch_dict[kind], expected[kind].batch)
    for kind in EDGE_TYPES:
        assert torch.equal(batch.edge_index_dict[kind], expected[kind].edge_index)
    assert set(attr) == {BUYS, HAS}
    assert torch.equal(attr[BUYS], expected[BUYS].edge_attr)


def test_parallel_edges_of_two_types_are_two_pairs():
    data = HeteroData()
    data["user"].x, data["item"].x = torch.ones(1, 3), torch.ones(1, 2)
    for kind in (BUYS, RATES):
        data[kind].edge_index = torch.zeros(2, 1, dtype=torch.long)
        data[kind[2], f"rev_{kind[1]}", kind[0]].edge_index = torch.zeros(2, 1, dtype=torch.long)
    batch = GraphStore.from_graphs([data]).batch()
    pairs = batch.pairs
    assert len(pairs) == 2
    assert (pairs.forward >= 0).all() and (pairs.backward >= 0).all()
    kinds = batch.edge_type[torch.stack([pairs.forward, pairs.backward])].T.tolist()
    names = [tuple(batch.schema.edge_types[n][1] for n in row) for row in kinds]
    assert sorted(names) == [("buys", "rev_buys"), ("rates", "rev_rates")]
    stored = GraphStore.from_graphs([data, data]).batch(with_pairs=True).pairs
    assert len(stored) == 4


def test_a_graph_without_a_type():
    whole, part = make_graph(0), make_graph(1)
    for kind in list(part.edge_types):
        if "tag" in kind:
            del part[kind]
    del part["tag"]
    store = GraphStore.from_graphs([whole, part])
    assert store.schema.node_types == tuple(WIDTHS)
    assert store[1]["tag"].x.shape == (0, 1)
    alone = GraphStore.from_graphs([part])
    assert alone.schema.node_types == ("user", "item")
    again = alone.conformed(store.schema)
    assert again.schema == store.schema
    same(again[0], store[1])


def test_an_unused_edge_type_stays_known():
    assert UNUSED in GraphStore.from_graphs(make_graphs(2)).schema.edge_types


def without_x(data):
    del data["tag"].x
    data["tag"].num_nodes = 2


def whole_numbers(data):
    data["item"].x = data["item"].x.long()


def wrong_end(data):
    data[BUYS].edge_index = torch.tensor([[0], [99]])


def flat_features(data):
    data[BUYS].edge_attr = torch.ones(data[BUYS].edge_index.shape[1])


def too_few_rows(data):
    data[BUYS].edge_attr = torch.ones(1, 2)


def other_width(data):
    data["item"].x = torch.ones(len(data["item"].x), 5)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (without_x, "'tag' has no x"),
        (whole_numbers, "is torch.int64, torch.float32 in a graph before"),
        (wrong_end, "edge_index out of range in graph 1"),
        (flat_features, r"view\(-1, 1\)"),
        (too_few_rows, "1 rows for"),
        (other_width, "'item' has 5 features, 2 in a graph before"),
    ],
)
def test_bad_graphs_are_named(spoil, message):
    graphs = make_graphs(2)
    spoil(graphs[1])
    with pytest.raises(InputError, match=message):
        GraphStore.from_graphs(graphs)


def test_graphs_of_two_kinds_are_refused():
    plain = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]))
    with pytest.raises(InputError, match="graph 1 is a Data among heterogeneous graphs"):
        GraphStore.from_graphs([make_graph(0), plain])


def test_unknown_types_are_named():
    store = GraphStore.from_graphs(make_graphs(2))
    other = make_graph(0)
    other["shop"].x = torch.ones(1, 1)
    with pytest.raises(InputError, match="node type 'shop' is unknown to what was fitted"):
        GraphStore.from_graphs([other]).conformed(store.schema)
