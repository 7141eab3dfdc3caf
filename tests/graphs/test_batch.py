import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from hpme.data import GraphStore
from hpme.errors import InputError


def graph(seed, nodes=None, **fixed):
    generator = torch.Generator().manual_seed(seed)
    nodes = 1 + seed % 5 if nodes is None else nodes
    edges = torch.randint(nodes, (2, seed % 7), generator=generator).unique(dim=1)
    return Data(
        x=torch.randn(nodes, 3, generator=generator),
        edge_index=edges,
        edge_attr=torch.randn(edges.shape[1], 2, generator=generator),
        y=torch.tensor([seed]),
        **fixed,
    )


seeds = st.lists(st.integers(0, 200), min_size=1, max_size=6)


@given(seeds, st.data())
def test_batch_equals_pyg_batch(numbers, data):
    graphs = [graph(n) for n in numbers]
    ids = data.draw(st.lists(st.integers(0, len(graphs) - 1), min_size=1, max_size=8))
    store = GraphStore.from_graphs(graphs)
    expected = Batch.from_data_list([graphs[i] for i in ids])
    subset = store.subset(torch.tensor(ids))
    for batch in (store.batch(torch.tensor(ids)), subset.batch()):
        assert torch.equal(batch.x, expected.x)
        assert torch.equal(batch.edge_index, expected.edge_index)
        assert torch.equal(batch.edge_attr, expected.edge_attr)
        assert torch.equal(batch.batch, expected.batch)
        assert torch.equal(batch.ptr, expected.ptr[:-1])
        assert torch.equal(batch.edge_batch, expected.batch[expected.edge_index[0]])
        assert (batch.num_graphs, batch.num_nodes) == (len(ids), expected.num_nodes)
    assert torch.equal(subset.y, expected.y)


@given(seeds)
def test_pairs_against_a_loop(numbers):
    graphs = [graph(n) for n in numbers]
    batch = GraphStore.from_graphs(graphs).batch(with_pairs=True)
    edges = [tuple(e) for e in batch.edge_index.t().tolist()]
    expected = {}
    for u, v in edges:
        low, high = min(u, v), max(u, v)
        forward = edges.index((low, high)) if (low, high) in edges else -1
        backward = edges.index((high, low)) if (high, low) in edges and low != high else -1
        expected[low, high] = (int(batch.batch[u]), forward, backward)
    pairs = batch.pairs
    rows = zip(
        pairs.index.t().tolist(),
        zip(pairs.graph.tolist(), pairs.forward.tolist(), pairs.backward.tolist(), strict=True),
        strict=True,
    )
    assert {tuple(index): rest for index, rest in rows} == expected
    assert pairs.index.shape[1] == len(expected)


def test_every_kind_of_collection_gives_the_same_store():
    graphs = [graph(n) for n in range(1, 9)]
    expected = GraphStore.from_graphs(graphs)
    kinds = [Batch.from_data_list(graphs), DataLoader(graphs, batch_size=3), iter(graphs), expected]
    for kind in kinds:
        store = GraphStore.from_graphs(kind)
        for name in ("x", "local_edge_index", "sizes", "edge_counts", "edge_attr", "y"):
            assert torch.equal(getattr(store, name), getattr(expected, name))
    assert len(GraphStore.from_graphs(graphs[0])) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.ones(3)}, "x must be a tensor of shape"),
        ({"x": torch.ones(3, 2, dtype=torch.cfloat)}, "x must be floating point, integer or bool"),
        ({"x": torch.tensor([[1.0], [float("nan")], [0.0]])}, "NaN or infinite"),
        ({"x": None}, "neither z, pos nor num_nodes"),
        ({"edge_index": torch.tensor([[0, 3], [1, 0]])}, "out of range in graph 0"),
        ({"edge_index": torch.tensor([[0, -1], [1, 0]])}, "out of range in graph 0"),
        ({"edge_index": torch.tensor([[0.0], [1.0]])}, "edge_index must be torch.long"),
        ({"edge_index": torch.tensor([0, 1])}, "cannot be put into one batch"),
        ({"edge_attr": torch.ones(1, 2)}, "edge_attr has 1 rows for 2 edges"),
        ({"edge_attr": torch.full((2, 1), float("inf"))}, "edge_attr contains NaN"),
    ],
)
def test_unusable_graphs_are_named(change, message):
    data = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1], [1, 0]]))
    for key, value in change.items():
        data[key] = value
    with pytest.raises(InputError, match=message):
        GraphStore.from_graphs([data])


def test_collections_that_do_not_fit_together():
    plain, with_attr = graph(3), graph(4)
    del plain.edge_attr
    with pytest.raises(InputError, match="graph 1 has no edge_attr"):
        GraphStore.from_graphs([with_attr, plain])
    with pytest.raises(InputError, match="one batch"):
        GraphStore.from_graphs([graph(3), Data(x=torch.ones(2, 9), edge_index=graph(3).edge_index)])
    with pytest.raises(InputError, match="no graphs"):
        GraphStore.from_graphs([])


def carrying():
    """Two graphs with all there is: features, weights, anchors, and attributes of each level."""
    first = Data(
        x=torch.arange(4.0).view(4, 1),
        edge_index=torch.tensor([[0, 1, 1, 2, 3], [1, 0, 2, 1, 3]]),
        edge_attr=torch.arange(5.0).view(5, 1),
        edge_weight=torch.arange(5.0) / 10,
        anchors=torch.tensor([1]),
        y=torch.tensor([7]),
        color=torch.arange(4),
        edge_name=torch.arange(5),
        note="first",
    )
    second = first.clone()
    second.x, second.y, second.note = first.x + 10, torch.tensor([8]), "second"
    return [first, second]


def test_some_edges_take_everything_along():
    batch = GraphStore.from_graphs(carrying(), attributes="all").batch(with_pairs=True)
    mask = torch.tensor([True, False, True, False, True, False, True, True, True, False])
    for which in (mask, mask.nonzero().view(-1)):
        part = batch.edges(which)
        assert torch.equal(part.edge_index, batch.edge_index[:, mask])
        assert part.edge["edge_name"].tolist() == [0, 2, 4, 1, 2, 3]
        assert torch.equal(part.edge_attr.view(-1), part.edge["edge_name"].float())
        assert torch.equal(part.edge_weight * 10, part.edge["edge_name"].float())
        assert part.pairs.of_edge.tolist() == [0, 1, 2, 3, 4, 4]  # not those of all edges
    assert torch.equal(
        batch.edges(torch.arange(9, -1, -1)).grouped().edge_counts, batch.edge_counts
    )


def test_some_nodes_take_everything_along():
    batch = GraphStore.from_graphs(carrying(), attributes="all").batch()
    part = batch.nodes(torch.tensor([False, True, True, False, True, True, False, True]))
    assert part.x.view(-1).tolist() == [1, 2, 10, 11, 13]
    assert part.batch.tolist() == [0, 0, 1, 1, 1]
    assert part.edge_index.tolist() == [[0, 1, 2, 3, 4], [1, 0, 3, 2, 4]]
    assert part.edge["edge_name"].tolist() == [2, 3, 0, 1, 4]
    assert part.anchors.tolist() == [[0], [3]]
    assert part.node["color"].tolist() == [1, 2, 0, 1, 3]
    assert part.node_ids.tolist() == [1, 2, 4, 5, 7]
    assert part.graph["y"].tolist() == [7, 8]


def same(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    return one == other


def test_splitting_undoes_reading():
    graphs = carrying()
    store = GraphStore.from_graphs(graphs, attributes="all")
    shuffled = store.batch().edges(torch.tensor([5, 0, 6, 1, 7, 2, 8, 3, 9, 4]))
    for parts in (store.to_data_list(), store, [store[0], store[1]]):
        for one, other in zip(parts, graphs, strict=True):
            assert set(one.keys()) == set(other.keys())
            assert all(same(one[key], other[key]) for key in other.keys())  # noqa: SIM118
    for one, other in zip(GraphStore.from_graphs(shuffled), graphs, strict=True):
        assert set(one.keys()) == set(other.keys()) - {"note"}
        assert all(same(one[key], other[key]) for key in one.keys())  # noqa: SIM118


def test_attributes_beside_those_that_are_read_stay_behind_unless_asked_for():
    store = GraphStore.from_graphs(carrying())
    assert {*store.node, *store.edge, *store.graph, *store.text} == {
        "x", "edge_attr", "edge_weight", "y", "anchors",
    }  # fmt: skip
    whole = GraphStore.from_graphs(carrying(), attributes="all")
    assert whole.detached().to_data_list()[1].keys() == store.to_data_list()[1].keys()
    assert GraphStore.from_graphs(whole) is whole


@given(seeds)
def test_edges_there_and_back(numbers):
    batch = GraphStore.from_graphs([graph(n) for n in numbers]).batch()
    edges = batch.edge_index.T.tolist()
    for number, back in enumerate(batch.reverse.tolist()):
        wanted = edges[number][::-1]
        assert edges[back] == wanted if wanted in edges else back == number
