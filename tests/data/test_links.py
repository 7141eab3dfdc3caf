"""Sets of links: split, non-links, what is visible to whom, and the dataset's interface."""

import networkx as nx
import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.utils import to_undirected

from hpme.data import DATASETS, GraphStore, LinkDataset, load_dataset
from hpme.errors import InputError


def whole_graph(nodes=40, links_per_node=3):
    graph = nx.barabasi_albert_graph(nodes, links_per_node, seed=0)
    edge_index = to_undirected(torch.tensor(list(graph.edges)).T)
    return Data(edge_index=edge_index, num_nodes=nodes)


@pytest.fixture(scope="module")
def dataset():
    return LinkDataset.from_graph(whole_graph())


def ends(graph):
    return tuple(sorted(graph.node_ids[graph.anchors].tolist()))


def links_of(data):
    return {(u, v) for u, v in data.edge_index.T.tolist() if u < v}


def test_every_link_and_as_many_non_links_once_each(dataset):
    links = links_of(whole_graph())
    positive = [ends(graph) for graph in dataset if graph.y.item() == 1]
    negative = [ends(graph) for graph in dataset if graph.y.item() == 0]
    assert sorted(positive) == sorted(links)
    assert len(set(negative)) == len(negative) == len(links)
    assert not set(negative) & links
    assert all(u < v for u, v in negative)


def test_parts_are_85_5_10_of_links_and_of_non_links(dataset):
    count = len(dataset) // 2
    split, y = dataset.split, torch.cat([graph.y for graph in dataset])
    assert torch.cat(list(split.values())).sort().values.tolist() == list(range(len(dataset)))
    for part, share in (("val", 0.05), ("test", 0.1)):
        assert len(split[part]) == 2 * int(share * count)
        assert int(y[split[part]].sum()) * 2 == len(split[part])


def test_held_out_links_are_hidden_from_subgraphs(dataset):
    """Validation links are seen by test subgraphs only, test links by none."""
    split = dataset.split

    def seen(part):
        found = set()
        for graph in dataset[split[part]]:
            found |= {(u, v) for u, v in graph.node_ids[graph.edge_index].T.tolist() if u < v}
        return found

    def positives(part):
        return {ends(graph) for graph in dataset[split[part]] if graph.y.item() == 1}

    for part in ("train", "val"):
        assert not seen(part) & (positives("val") | positives("test"))
    assert not seen("test") & positives("test")
    assert seen("test") & positives("val")
    for graph in dataset:
        pairs = graph.node_ids[graph.edge_index].sort(0).values.T.tolist()
        assert list(ends(graph)) not in pairs


def test_fewer_subgraphs_leave_the_other_links_in_the_graph():
    data = whole_graph()
    few = LinkDataset.from_graph(data, size=11, num_hops=2)
    assert len(few) == 11
    assert [len(ids) for ids in few.split.values()] == [7, 2, 2]
    assert int(few._data.y.sum()) == 6
    assert max(graph.num_edges for graph in few) > data.num_edges // 2


def test_the_seed_decides():
    data = whole_graph()
    one, same, other = (LinkDataset.from_graph(data, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one._data.node_ids, same._data.node_ids)
    assert torch.equal(one._data.anchors, same._data.anchors)
    assert not torch.equal(one._data.node_ids, other._data.node_ids)


def test_the_first_end_is_either_end(dataset):
    first_is_lower = [bool(g.node_ids[g.anchors].diff() > 0) for g in dataset]
    assert 0.3 < sum(first_is_lower) / len(first_is_lower) < 0.7


def test_own_features_follow_the_labels():
    data = whole_graph()
    data.x = torch.arange(40.0).view(-1, 1)
    dataset = LinkDataset.from_graph(data, use_x=True, num_labels=5)
    assert dataset.num_features == 6
    assert torch.equal(dataset[3].x[:, 5].long(), dataset[3].node_ids)


def test_interface_of_a_dataset_without_ground_truth(dataset):
    assert not dataset.has_ground_truth
    assert dataset.pool_ratio == 0.5
    assert dataset.alternatives(0) == []
    assert (dataset.num_classes, dataset.info.task) == (2, "classification")
    assert dataset.variant == "links"
    assert "linked" in dataset.rule
    assert dataset.companions(0).numel() == 0
    chosen = dataset.explained(seed=0, count=30)
    assert len(torch.unique(chosen)) == 30
    assert set(dataset._data.y[chosen].tolist()) == {0, 1}
    assert torch.equal(chosen, dataset.explained(seed=0, count=30))
    with pytest.raises(InputError, match="from_graph"):
        dataset.info.build("links", 0, 10)


def test_anchors_reach_the_store_from_a_dataset_a_list_and_a_batch(dataset):
    ids = [5, 0, 7]
    graphs = [dataset[i] for i in ids]
    assert graphs[0].anchors.shape == (2,)
    expected = torch.stack([graph.anchors for graph in graphs])
    batch = Batch.from_data_list(graphs)
    for source in (dataset[ids], graphs, batch, [batch]):
        assert torch.equal(GraphStore.from_graphs(source).anchors, expected)
    part = GraphStore.from_graphs(graphs).batch()
    assert bool((part.x[part.anchors.flatten()].argmax(1) == 1).all())


def test_unusable_graphs_and_sizes_are_named():
    with pytest.raises(InputError, match="has 2 links"):
        LinkDataset.from_graph(whole_graph(3, 1))
    with pytest.raises(InputError, match="at most"):
        LinkDataset.from_graph(whole_graph(), size=1000)
    complete = Data(edge_index=torch.combinations(torch.arange(6)).T, num_nodes=6)
    with pytest.raises(InputError, match="there are 0"):
        LinkDataset.from_graph(complete)


@pytest.mark.parametrize("name", ["ba-shapes-links", "ba-community-links", "tree-grid-links"])
def test_named_sets_are_loaded_and_cached(name, tmp_path):
    dataset = load_dataset(name, size=40, root=tmp_path)
    assert isinstance(dataset, LinkDataset)
    assert dataset.info is DATASETS[name]
    assert len(dataset) == 40
    again = load_dataset(name, size=40, root=tmp_path)
    assert torch.equal(dataset._data.x, again._data.x)
    assert torch.equal(dataset[3].anchors, again[3].anchors)
    assert again.split["val"].numel() == 2


@pytest.mark.parametrize("name", ["ba-shapes", "ba-community", "tree-grid"])
def test_documented_sizes_are_twice_the_number_of_links(name):
    flat = DATASETS[name].build("paper", 0, DATASETS[name].num_graphs)
    loops = int((flat.local_edge_index[0] == flat.local_edge_index[1]).sum())
    assert loops == 0
    assert flat.local_edge_index.shape[1] == DATASETS[f"{name}-links"].num_graphs
