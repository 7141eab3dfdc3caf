from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data, HeteroData

from hpme.data.synthetic.drawing import CRANE, CYCLE, GRID, HOUSE, GraphSketch, flatten
from hpme.errors import InputError
from hpme.graphs import GraphStore
from hpme.graphs.transforms import from_tensors, to_tensors
from hpme.graphs.transforms import shuffled as shuffle


def graphs_of(store):
    """Every graph as networkx, with all attributes on nodes and edges."""
    result, node, edge = [], 0, 0
    for size, count in zip(store.sizes.tolist(), store.edge_counts.tolist(), strict=True):
        graph = nx.DiGraph()
        for i in range(size):
            row = {key: value[node + i].tolist() for key, value in store.node.items()}
            graph.add_node(i, row=row)
        for i in range(edge, edge + count):
            row = {key: value[i].tolist() for key, value in store.edge.items()}
            graph.add_edge(*store.local_edge_index[:, i].tolist(), row=row)
        assert graph.number_of_edges() == count
        result.append(graph)
        node, edge = node + size, edge + count
    return result


def sample(seed, count=3):
    sketches = [
        GraphSketch.barabasi_albert(4 + i, 1, seed + i).attach((HOUSE, GRID)[i % 2], i % 4)
        for i in range(count)
    ]
    store = flatten(sketches)
    x = torch.arange(int(store.sizes.sum())).float().view(-1, 1)
    return store.with_attributes(node={"x": x}, graph={"y": torch.arange(count)})


def test_motifs():
    assert HOUSE.edges == ((0, 1), (0, 3), (0, 4), (1, 2), (1, 4), (2, 3))
    assert CRANE.edges == ((0, 1), (0, 3), (1, 2), (1, 4), (2, 3), (3, 4))
    assert nx.is_isomorphic(nx.Graph(CYCLE.edges), nx.cycle_graph(5))
    assert nx.is_isomorphic(nx.Graph(GRID.edges), nx.grid_graph((3, 3)))
    assert nx.Graph(GRID.edges).degree(0) == 2  # a corner
    assert [m.num_nodes for m in (HOUSE, CRANE, CYCLE, GRID)] == [5, 5, 5, 9]


def test_flatten_marks_motifs_but_not_attachments():
    sketch = GraphSketch.barabasi_albert(6, 1, 0).attach(HOUSE, 2, 4).attach(CYCLE, 5)
    sketch.add_edges([(0, 7)])
    (graph,) = graphs_of(flatten([sketch]))
    truth = {edge for edge in graph.edges if graph.edges[edge]["row"]["edge_mask"]}
    expected = [(u + 6, v + 6) for u, v in HOUSE.edges] + [(u + 11, v + 11) for u, v in CYCLE.edges]
    assert truth == {*expected, *((v, u) for u, v in expected)}
    assert {(2, 10), (10, 2), (5, 11), (11, 5), (0, 7), (7, 0)} <= set(graph.edges)
    assert [graph.nodes[i]["row"]["node_mask"] for i in range(16)] == [False] * 6 + [True] * 10


@given(st.integers(0, 1000))
def test_shuffled_is_a_relabelling_that_carries_attributes(seed):
    store = sample(seed)
    shuffled = shuffle(store, np.random.default_rng(seed))
    assert torch.equal(store.graph["y"], shuffled.graph["y"])
    for before, after in zip(graphs_of(store), graphs_of(shuffled), strict=True):
        # x numbers the nodes, so it undoes the relabelling
        name = {i: after.nodes[i]["row"]["x"][0] for i in after}
        old = {i: before.nodes[i]["row"]["x"][0] for i in before}
        restored, original = nx.relabel_nodes(after, name), nx.relabel_nodes(before, old)
        assert dict(restored.nodes(data="row")) == dict(original.nodes(data="row"))
        key = {(u, v): row for u, v, row in restored.edges(data="row")}
        assert key == {(u, v): row for u, v, row in original.edges(data="row")}
        assert list(after.edges) == sorted(after.edges)


def test_round_trip_through_tensors():
    store = sample(1)
    again = from_tensors(to_tensors(store))
    assert to_tensors(again).keys() == to_tensors(store).keys()
    for key, value in to_tensors(store).items():
        assert torch.equal(to_tensors(again)[key], value)


def test_inconsistent_tensors_are_refused():
    tensors = to_tensors(sample(1))
    for key in ("node.x", "edge.edge_mask", "graph.y", "edge_counts"):
        with pytest.raises(InputError):
            from_tensors({**tensors, key: tensors[key][:-1]})
    with pytest.raises(InputError, match="edge_index"):
        from_tensors({**tensors, "edge_index": tensors["edge_index"][:, 1:]})


def with_matches():
    """Three graphs of 3, 0 and 2 nodes with matches and texts, some of them empty."""
    return GraphStore(
        sizes=torch.tensor([3, 0, 2]),
        edge_counts=torch.tensor([2, 0, 2]),
        local_edge_index=torch.tensor([[0, 1, 0, 1], [1, 0, 1, 0]]),
        node={"x": torch.arange(5.0).view(-1, 1)},
        match_counts=torch.tensor([2, 0, 1]),
        match={"match_index": torch.tensor([0, 2, 1]), "match_id": torch.tensor([0, 1, 0])},
        text={"name": ["wässrig", "", "b"]},
    )


def test_matches_and_texts_survive_a_round_trip():
    store = with_matches()
    again = from_tensors(to_tensors(store))
    assert again.text == {"name": ["wässrig", "", "b"]}
    assert torch.equal(again.match["match_index"], store.match["match_index"])
    assert store.slices()["match_index"].tolist() == [0, 2, 2, 3]
    for broken in ({"match_counts": torch.tensor([1, 0, 1])}, {"text": {"name": ["a"]}}):
        with pytest.raises(InputError):
            replace(store, **broken)


def test_shuffled_renumbers_matches():
    store = with_matches()
    for seed in range(5):
        shuffled = shuffle(store, np.random.default_rng(seed))
        start = torch.tensor([0, 0, 3])
        matched = shuffled.node["x"][shuffled.match["match_index"] + start].view(-1)
        assert matched.tolist() == [0.0, 2.0, 4.0]


def test_subset_takes_graphs_in_the_given_order():
    part = with_matches().subset(torch.tensor([2, 0]))
    assert part.sizes.tolist() == [2, 3]
    assert part.node["x"].view(-1).tolist() == [3.0, 4.0, 0.0, 1.0, 2.0]
    assert part.local_edge_index.tolist() == [[0, 1, 0, 1], [1, 0, 1, 0]]
    assert part.match_counts.tolist() == [1, 2]
    assert part.match["match_index"].tolist() == [1, 0, 2]
    assert part.text == {"name": ["b", "wässrig"]}


def test_concatenation_undoes_subsets():
    for whole in (sample(0), with_matches()):
        parts = [whole.subset(torch.tensor([i])) for i in range(len(whole))]
        joined = to_tensors(parts[0].joined(*parts[1:]))
        assert all(torch.equal(joined[key], value) for key, value in to_tensors(whole).items())


class Rings(Data):
    """Has an attribute of its own that numbers nodes, and one that numbers nothing."""

    def __inc__(self, key, value, *args):
        return self.num_nodes if key == "rings" else super().__inc__(key, value, *args)


@pytest.mark.parametrize("kind", ["usual", "own", "no features", "hetero"])
def test_a_batch_is_read_as_its_graphs(kind):
    def graph(i):
        size = 3 + i
        known = {"y": torch.tensor([i]), "smiles": f"C{i}", "anchors": torch.tensor([1])}
        edges = torch.randint(0, size, (2, 4), generator=torch.Generator().manual_seed(i))
        if kind == "hetero":
            data = HeteroData()
            data["a"].x, data["a", "r", "a"].edge_index = torch.rand(size, 2), edges
            return data
        data = Rings(edge_index=edges, **known)
        if kind == "no features":
            data.z = torch.arange(size)
        else:
            data.x = torch.rand(size, 2)
        if kind == "own":
            data.rings = torch.stack([edges[0, :3], edges[1, :3]], dim=1)[: size - 2]
        return data

    graphs = [graph(i) for i in range(4)]
    read, batched = (
        GraphStore.from_graphs(g, attributes="inputs")
        for g in (graphs, Batch.from_data_list(graphs))
    )
    assert torch.equal(read.x, batched.x) and read.text == batched.text
    assert torch.equal(read.local_edge_index, batched.local_edge_index)
    if kind != "hetero":
        assert torch.equal(read.anchors, batched.anchors) and torch.equal(read.y, batched.y)
    whole = [
        GraphStore.from_graphs(g, attributes="fitting")
        for g in (graphs, Batch.from_data_list(graphs))
    ]
    for group in ("node", "edge", "graph"):
        one, other = (getattr(store, group) for store in whole)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)
