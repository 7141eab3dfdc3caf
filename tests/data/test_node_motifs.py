"""BA-Shapes, BA-Community and Tree-Grid: as documented, as published, and as ego graphs."""

import numpy as np
import pytest
import torch
from torch_geometric.utils import contains_self_loops, is_undirected, k_hop_subgraph

from hpme.data import GraphStore, NodeDataset
from hpme.errors import InputError, StorageError

FACTS = {
    # nodes, undirected edges, ground-truth edges, labels, explained nodes
    "ba-shapes": (700, 2055, 480, [300, 160, 160, 80], 60),
    "ba-community": (1400, 4460, 960, [300, 160, 160, 80] * 2, 60),
    "tree-grid": (1231, 1565, 960, [511, 720], 289),
}
names = pytest.mark.parametrize("name", FACTS)


def motif_nodes(graph):
    """Nodes touched by ground truth."""
    mask = torch.zeros(graph.num_nodes, dtype=torch.bool)
    mask[graph.edge_index[:, graph.edge_mask].flatten()] = True
    return mask


@names
def test_the_graph_is_as_documented(load, name):
    nodes, edges, truth, labels, explained = FACTS[name]
    dataset = load(name)
    graph = dataset.graph
    assert isinstance(dataset, NodeDataset)
    assert (graph.num_nodes, graph.num_edges, int(graph.edge_mask.sum())) == (
        nodes, 2 * edges, 2 * truth,
    )  # fmt: skip
    assert graph.y.bincount().tolist() == labels
    assert graph.x.shape == (nodes, 10)
    assert is_undirected(graph.edge_index) and not contains_self_loops(graph.edge_index)
    assert graph.edge_index.unique(dim=1).shape[1] == 2 * edges
    assert torch.equal(graph.node_mask, motif_nodes(graph))
    classes = 2 if name == "tree-grid" else 4  # of one half
    assert torch.equal(graph.node_mask, graph.y % classes > 0)
    assert len(dataset.explainable) == explained
    assert graph.y[dataset.explainable].unique().tolist() == [1]


@names
def test_the_published_graph(load, official, name):
    nodes, edges, truth, labels, explained = FACTS[name]
    dataset = load(name, variant="published")
    graph, prefix = dataset.graph, name.replace("-", "_")
    with np.load(official / "node_synthetic.npz", allow_pickle=False) as arrays:
        published = arrays[f"{prefix}/edges"].astype(int)
        y = torch.from_numpy(arrays[f"{prefix}/y"].astype(int))
        features = arrays.get(f"{prefix}/x")
    assert (graph.num_nodes, graph.num_edges, int(graph.edge_mask.sum())) == (
        nodes, 2 * len(published), 2 * truth,
    )  # fmt: skip
    assert len(published) == edges
    assert graph.y.bincount().tolist() == labels
    # Renumbered, so compare what numbering leaves alone.
    degree = torch.bincount(torch.from_numpy(published.flatten()), minlength=nodes)
    ours = torch.bincount(graph.edge_index[0], minlength=nodes)
    for label in range(len(labels)):
        assert torch.equal(degree[y == label].sort().values, ours[graph.y == label].sort().values)
    documented = range(511, 800) if name == "tree-grid" else range(400, 700, 5)
    expected = degree[torch.tensor(documented)].sort().values
    assert torch.equal(expected, ours[dataset.explainable].sort().values)
    assert len(dataset.explainable) == explained
    if features is not None:
        rows = np.sort(features.astype(np.float32).sum(1))
        assert np.allclose(rows, np.sort(graph.x.sum(1).numpy()), atol=1e-4)


def test_features_tell_communities_apart(load):
    graph = load("ba-community").graph
    half = graph.y >= 4
    means = torch.stack([graph.x[~half].mean(0), graph.x[half].mean(0)])
    assert torch.allclose(means[:, :2], torch.tensor([[-1.0], [1.0]]).expand(2, 2), atol=0.1)
    assert torch.allclose(means[:, 2:], torch.zeros(2, 8), atol=0.15)
    assert torch.allclose(graph.x[half].var(0)[:2], torch.full((2,), 0.5), atol=0.1)
    crossing = half[graph.edge_index[0]] != half[graph.edge_index[1]]
    assert int(crossing.sum()) == 2 * 350


@names
def test_numbers_of_nodes_say_nothing(load, name):
    graph = load(name).graph
    position = torch.arange(graph.num_nodes).float()
    inside, outside = position[graph.node_mask].mean(), position[~graph.node_mask].mean()
    assert abs(float(inside - outside)) < 0.1 * graph.num_nodes
    assert torch.equal(load(name).graph.edge_index, graph.edge_index)
    assert not torch.equal(load(name, seed=1).graph.edge_index, graph.edge_index)


@names
def test_graphs_are_ego_graphs(load, name):
    dataset = load(name, size=240)
    whole = dataset.graph
    assert len(dataset) == 240
    for number in dataset.explained(seed=0, count=4).tolist():
        ego = dataset[number]
        ids, edge_index, place, mask = k_hop_subgraph(
            number, 3, whole.edge_index, relabel_nodes=True, num_nodes=240
        )
        assert torch.equal(ego.node_ids, ids)
        assert torch.equal(ego.edge_index, edge_index)
        assert torch.equal(ego.anchors, place)
        assert torch.equal(ego.edge_mask, whole.edge_mask[mask])
        assert torch.equal(ego.node_mask, motif_nodes(ego))
        assert int(ego.y) == int(whole.y[number]) == 1
        assert bool(ego.node_mask[ego.anchors])


@names
def test_what_explainers_are_fitted_on(load, name):
    dataset = load(name, size=240)
    explained, others = dataset.explained(seed=3, count=5), dataset.companions(seed=3, count=5)
    assert torch.equal(dataset.graph.y[explained], torch.ones(5, dtype=torch.long))
    assert bool((dataset.graph.y[others] != 1).all()) and len(others) == 5
    assert torch.equal(explained, dataset.explained(seed=3, count=5))
    egos = dataset.ego_graphs(dataset.explainable)
    share = torch.stack([ego.node_mask.double().mean() for ego in egos])
    assert dataset.pool_ratio == pytest.approx(min(0.5, float(share.quantile(0.9))))
    assert dataset.has_ground_truth
    parts = torch.cat(list(dataset.split.values()))
    assert torch.equal(parts.sort().values, torch.arange(240))
    stats = dataset.stats
    assert stats.truth_edges[dataset.explainable].tolist() == [int(e.edge_mask.sum()) for e in egos]
    assert stats.sizes[dataset.explainable].tolist() == [ego.num_nodes for ego in egos]


def test_a_store_of_the_dataset_holds_ego_graphs(load):
    dataset = load("tree-grid", size=60)
    store = GraphStore.from_graphs(dataset)
    assert len(store) == 60
    assert torch.equal(store.y, dataset.graph.y)
    assert store.anchors.shape == (60, 1)
    training = dataset.training_store()
    assert len(training) == 1 and torch.equal(training.y, dataset.graph.y)


@names
def test_published_graphs_have_one_size(load, official, name):
    with pytest.raises(InputError, match="exactly"):
        load(name, variant="published", size=100)


def test_too_small(load):
    with pytest.raises(InputError, match="at least"):
        load("ba-shapes", size=10)


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_a_damaged_file_is_named(load, monkeypatch, tmp_path, content):
    path = tmp_path / "node_synthetic.npz"
    if content is None:
        shapes = {"edges": (3, 2), "gt_edges": (1, 2), "y": 5}
        np.savez(path, **{f"ba_shapes/{key}": np.zeros(shape) for key, shape in shapes.items()})
    else:
        path.write_bytes(content)
    monkeypatch.setenv("HPME_DATA_DIR", str(tmp_path))
    with pytest.raises(StorageError, match="intact copy"):
        load("ba-shapes", variant="published", seed=99)
