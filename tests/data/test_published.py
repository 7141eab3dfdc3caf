"""Agreement with the published files and recipes."""

import random
from collections import Counter

import networkx as nx
import numpy as np
import pytest
import torch

from hpme.data import DATASETS, load_dataset
from hpme.data.synthetic.ba import (
    published_ba_2motifs,
    published_ba_motif_counting,
    published_ba_motif_volume,
)
from hpme.errors import InputError, StorageError


def directed_edges(flat):
    graph = torch.repeat_interleave(flat.edge_counts)
    return torch.cat([graph.view(1, -1), flat.local_edge_index]).t().tolist()


def test_ba_2motifs_equals_the_file(official):
    flat = published_ba_2motifs()
    file = np.load(official / "ba_2motifs.npz", allow_pickle=False)
    graph = np.repeat(np.arange(1000), file["n_edges"])
    edges = list(zip(graph.tolist(), file["u"].tolist(), file["v"].tolist(), strict=True))
    both = {(g, u, v) for g, u, v in edges} | {(g, v, u) for g, u, v in edges}
    mine = [tuple(edge) for edge in directed_edges(flat)]
    assert len(mine) == len(set(mine))
    assert set(mine) == both
    truth = {edge for edge, flag in zip(mine, flat.edge["edge_mask"].tolist(), strict=True) if flag}
    assert truth == {(g, u, v) for g, u, v in both if u >= 20 and v >= 20 and u != v}
    assert flat.graph["y"].tolist() == file["y"].tolist()
    assert torch.equal(flat.node["x"], torch.full((25_000, 10), 0.1))


def test_ba_2motifs_self_loops_and_labels(official, tmp_path):
    dataset = load_dataset("ba-2motifs", variant="published", root=tmp_path)
    y, loops = dataset._data.y, Counter()
    assert torch.bincount(y).tolist() == [500, 500]
    for data in dataset:
        loop = data.edge_index[0] == data.edge_index[1]
        graph = nx.Graph(data.edge_index.t().tolist())
        assert nx.number_connected_components(graph) == 1 + int(loop.any())
        assert not bool((loop & data.edge_mask).any())
        loops[int(data.y)] += int(loop.sum())
    assert loops == {0: 20, 1: 20}


def test_ba_2motifs_is_loaded_with_shuffled_nodes(official, tmp_path):
    dataset = load_dataset("ba-2motifs", variant="published", root=tmp_path)
    flat = published_ba_2motifs()
    position = torch.stack([data.node_mask.nonzero().double().mean() for data in dataset])
    assert float(position.mean()) == pytest.approx(12, abs=0.5)
    starts = torch.cat([torch.zeros(1).long(), flat.edge_counts.cumsum(0)])
    for number in range(0, 1000, 50):
        original = flat.local_edge_index[:, starts[number] : starts[number + 1]]
        loaded = dataset[number].edge_index
        assert nx.is_isomorphic(nx.DiGraph(original.t().tolist()), nx.DiGraph(loaded.t().tolist()))


def test_constant_predictor_reaches_the_papers_accuracy(official, tmp_path):
    dataset = load_dataset("ba-2motifs", variant="published", root=tmp_path)
    share = dataset._data.y[dataset.split["test"]].double().mean()
    assert float(share) == pytest.approx(0.44)


def test_published_protocol_of_ba_2motifs(official, tmp_path):
    dataset = load_dataset("ba-2motifs", variant="published", root=tmp_path)
    order = np.random.RandomState(42).permutation(1000)
    expected = [*order[:100], *order[500:600]]
    assert dataset.explained(0).tolist() == expected == dataset.explained(1).tolist()
    assert dataset.explained(0, 10).tolist() == [*order[:5], *order[500:505]]
    apart = set(dataset.explained(400).tolist())
    assert apart and not apart & set(expected)


def test_missing_or_wrong_file(monkeypatch, tmp_path):
    build = DATASETS["ba-2motifs"].build
    monkeypatch.delenv("HPME_DATA_DIR", raising=False)
    with pytest.raises(StorageError, match=r"ba_2motifs\.npz.*HPME_DATA_DIR"):
        build("published", 0, 1000)
    monkeypatch.setenv("HPME_DATA_DIR", str(tmp_path))
    with pytest.raises(StorageError, match=r"official/ba_2motifs\.npz"):
        build("published", 0, 1000)
    path = tmp_path / "ba_2motifs.npz"
    path.write_bytes(b"not an archive")
    with pytest.raises(StorageError, match="cannot be read"):
        build("published", 0, 1000)
    np.savez(path, n_edges=[1], u=[0], v=[1], y=[0])
    with pytest.raises(StorageError, match="1000 graphs"):
        build("published", 0, 1000)
    with pytest.raises(InputError, match="exactly 1000"):
        build("published", 0, 10)


def test_ba_motif_volume_follows_the_recipe():
    flat = published_ba_motif_volume(30)
    assert flat.sizes.tolist() == [25] * 30
    edges = {tuple(edge) for edge in directed_edges(flat)}
    x, y = flat.node["x"].view(30, 25, 10), flat.graph["y"]
    for i in range(30):
        draw = random.Random(i)
        graph = nx.barabasi_albert_graph(20, 1, seed=i)
        graph.add_edge(draw.randrange(0, 19), draw.randrange(20, 24))
        nx.add_cycle(graph, range(20, 25))
        values = [draw.randrange(1, 1000) / 10 for _ in range(25)]
        assert {(u, v) for g, u, v in edges if g == i} == set(graph.to_directed().edges)
        torch.testing.assert_close(x[i], torch.tensor(values).view(25, 1).expand(25, 10))
        assert float(y[i]) == pytest.approx(10 * sum(values[20:]), rel=1e-6)


def test_ba_motif_volume_labels_have_the_documented_spread():
    y = published_ba_motif_volume(1000).graph["y"].double()
    assert float(y.std()) == pytest.approx(657, abs=1)


def test_ba_motif_counting_follows_the_recipe():
    flat = published_ba_motif_counting(30)
    edges = {tuple(edge) for edge in directed_edges(flat)}
    for i in range(30):
        k = random.Random(i).randrange(1, 20)
        assert float(flat.graph["y"][i]) == k
        base = nx.barabasi_albert_graph(120 - 5 * k, 1, seed=i).to_directed()
        n = base.number_of_nodes()
        assert {(u, v) for g, u, v in edges if g == i and max(u, v) < n} == set(base.edges)


def test_recipes_do_not_depend_on_the_number_of_graphs():
    for recipe in (published_ba_motif_volume, published_ba_motif_counting):
        few, more = recipe(5), recipe(8)
        assert torch.equal(few.edge_index, more.edge_index[:, : few.edge_index.shape[1]])
        assert torch.equal(few.graph["y"], more.graph["y"][:5])
