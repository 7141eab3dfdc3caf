"""Distribution shift: against single graphs, by hand, and where it is undefined."""

import math

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import global_add_pool, global_mean_pool

from hpme.data import GraphStore
from hpme.errors import InputError, ModelError
from hpme.graphs import GraphBatch, transforms
from hpme.metrics import shift, truth_shift
from hpme.models import build_model
from slow_metrics import (
    Convolutional,
    both_ways,
    edges,
    explained,
    make_model,
    odd_explanations,
    random_explanation,
)


class Sums(nn.Module):
    """The embedding of a graph is the sum of its node features and of its edge weights."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 2)

    def forward(self, x, edge_index, batch, edge_weight=None):
        weight = x.new_ones(edge_index.shape[1]) if edge_weight is None else edge_weight
        degree = x.new_zeros(len(x)).index_add(0, edge_index[0], weight)
        return self.head(global_add_pool(torch.cat([x, degree.unsqueeze(1)], dim=1), batch))


def slow_embedding(model, graph, edge_index=None, nodes=None):
    """Of the models in this file that are built of convolutions and a mean."""
    edge_index = graph.edge_index if edge_index is None else edge_index
    x = graph.x if nodes is None else graph.x[nodes]
    return model.nodes(x, edge_index).mean(0).detach()


def graph_with(x, edge_index):
    return Data(x=torch.tensor(x), edge_index=edge_index)


def test_by_hand():
    graphs = [graph_with([[1.0, 0], [1, 0]], edges())] * 2
    others = [graph_with([[0.0, 2.0]], edges()), graph_with([[1.0, 1.0]], edges())]
    result = shift(Sums(), graphs, others)
    assert result.cosine.per_graph.tolist() == pytest.approx([0, 1 / math.sqrt(2)])
    assert result.euclidean.per_graph.tolist() == pytest.approx([math.sqrt(8), math.sqrt(2)])
    assert result.cosine.mean == pytest.approx(1 / math.sqrt(8))


def test_edge_weights_of_other_graphs_by_hand():
    graph = graph_with([[1.0, 0], [1, 0]], both_ways((0, 1)))
    batch = GraphStore.from_graphs([graph, graph]).batch()
    weight = torch.tensor([1.0, 1.0, 0.25, 0.5])
    result = shift(Sums(), [graph, graph], batch, weight)
    assert result.euclidean.per_graph.tolist() == pytest.approx([0, 1.25])
    assert result.cosine.per_graph[1] == pytest.approx(
        (4 + 2 * 0.75) / (math.sqrt(8) * math.sqrt(4 + 0.75**2))
    )


def test_edges_of_a_batch_may_come_in_any_order():
    graphs = [random_explanation(seed) for seed in range(3)]
    batch = GraphStore.from_graphs(graphs).batch()
    generator = torch.Generator().manual_seed(0)
    weight = torch.rand(batch.edge_index.shape[1], generator=generator)
    order = torch.randperm(weight.numel(), generator=generator)
    shuffled = GraphBatch(batch.x, batch.edge_index[:, order], batch.batch, batch.num_graphs)
    model = build_model("gcn", 3, 2)
    first, second = (
        shift(model, graphs, batch, weight),
        shift(model, graphs, shuffled, weight[order]),
    )
    torch.testing.assert_close(first.cosine.per_graph, second.cosine.per_graph)
    torch.testing.assert_close(first.euclidean.per_graph, second.euclidean.per_graph)
    assert first.euclidean.mean > 1e-3


@pytest.mark.parametrize("limit", [1, 50, 10_000])
def test_every_graph_equals_the_slow_way(limit, monkeypatch):
    monkeypatch.setattr(transforms, "MAX_ELEMENTS", limit)
    model, _ = make_model("classes")
    graphs = [random_explanation(seed) for seed in range(5)]
    others = list(odd_explanations().values())[:5]
    result = shift(model, graphs, others)
    for number, (graph, other) in enumerate(zip(graphs, others, strict=True)):
        h, h_other = slow_embedding(model, graph), slow_embedding(model, other)
        distance = float((h - h_other).norm())
        cosine = float(h @ h_other / h.norm() / h_other.norm())
        assert result.euclidean.per_graph[number] == pytest.approx(distance, abs=1e-5)
        assert result.cosine.per_graph[number] == pytest.approx(cosine, abs=1e-5)


def with_truth(graph, *truth):
    marks = [(min(i, j), max(i, j)) in truth for i, j in graph.edge_index.t().tolist()]
    return Data(x=graph.x, edge_index=graph.edge_index, edge_mask=torch.tensor(marks).bool())


@pytest.mark.parametrize("drop_isolated", [True, False])
def test_ground_truth_subgraphs_equal_the_slow_way(drop_isolated):
    model, _ = make_model("classes")
    graph = with_truth(explained(both_ways((0, 1), (1, 2), (2, 3), (3, 4)), 5), (1, 2), (2, 3))
    result = truth_shift(model, [graph], drop_isolated=drop_isolated)
    nodes, path = ([1, 2, 3], both_ways((0, 1), (1, 2)))
    if not drop_isolated:
        nodes, path = list(range(5)), both_ways((1, 2), (2, 3))
    h, h_truth = slow_embedding(model, graph), slow_embedding(model, graph, path, nodes)
    assert result.euclidean.mean == pytest.approx(float((h - h_truth).norm()), abs=1e-5)


def test_all_ground_truth_is_no_shift():
    model, _ = make_model("classes")
    graph = random_explanation(0)
    graph.edge_mask = torch.ones(graph.num_edges).bool()
    result = truth_shift(model, [graph])
    assert result.cosine.mean == pytest.approx(1, abs=1e-6)
    assert result.euclidean.mean == pytest.approx(0, abs=1e-6)


def test_graphs_without_ground_truth_are_left_out():
    model, _ = make_model("classes")
    graph = explained(both_ways((0, 1), (1, 2), (2, 3)), 4)
    some, none = with_truth(graph, (0, 1)), with_truth(graph)
    result = truth_shift(model, [none, some])
    assert result.cosine.per_graph.isnan().tolist() == [True, False]
    assert "ground truth" in truth_shift(model, [none]).euclidean.mean.reason


def test_graphs_without_nodes_keep_their_place():
    model, _ = make_model("classes")
    graph, empty = random_explanation(0), explained(edges(), 0)
    result = shift(model, [graph, empty, graph], [graph, graph, empty])
    assert result.euclidean.per_graph.isnan().tolist() == [False, True, True]
    assert "no graph has nodes" in shift(model, [graph], [empty]).cosine.mean.reason


def test_the_direction_of_a_zero_embedding_is_undefined():
    zero, one = graph_with([[0.0, 0.0]], edges()), graph_with([[3.0, 4.0]], edges())
    result = shift(Sums(), [zero], [one])
    assert result.euclidean.mean == 5
    assert "zero" in result.cosine.mean.reason


def test_messages_are_weighted_where_the_model_takes_no_weights():
    model = Convolutional(2)
    graphs = [explained(edges(), 3), random_explanation(1)]  # the first cannot show how
    batch = GraphStore.from_graphs(graphs).batch()
    result = shift(model, graphs, batch, torch.full((batch.edge_index.shape[1],), 0.5))
    assert result.euclidean.per_graph[0] == pytest.approx(0, abs=1e-6)
    assert result.euclidean.per_graph[1] > 1e-3


def test_masks_on_messages_leave_self_loops_alone():
    model, graph = Convolutional(2), odd_explanations()["all self-loops"]
    weight = (graph.edge_index[0] != graph.edge_index[1]).float()
    result = shift(model, [graph], [graph], weight)
    assert result.euclidean.mean == pytest.approx(0, abs=1e-6)


class Dense(nn.Module):
    """A readout by a matrix, which cannot be recognised."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x, edge_index, batch):
        members = nn.functional.one_hot(batch).to(x)
        return self.head(members.t() @ self.first(x))


def test_a_layer_can_be_named_where_no_readout_is_found():
    model, graphs = Dense(), [random_explanation(0), random_explanation(1)]
    with pytest.raises(ModelError, match="embedding_layer"):
        shift(model, graphs, graphs)
    result = shift(model, graphs, graphs[::-1], embedding_layer="first")
    h, h_other = (model.first(graph.x).sum(0).detach() for graph in graphs)
    assert result.euclidean.mean == pytest.approx(float((h - h_other).norm()), abs=1e-5)


def test_nothing_is_left_on_the_model():
    model, _ = make_model("classes")
    model.train()
    hooks = [dict(module._forward_hooks) for module in model.modules()]
    graphs = [random_explanation(0), random_explanation(1)]
    shift(model, graphs, graphs[::-1])
    assert model.training
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert [dict(module._forward_hooks) for module in model.modules()] == hooks


def test_node_level_embeddings_are_those_of_the_anchor():
    class Nodes(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = Convolutional(2).first, nn.Linear(8, 2)

        def forward(self, x, edge_index):
            return self.head(self.conv(x, edge_index))

    model = Nodes()
    first, second = (explained(both_ways((0, 1), (1, 2)), 3, seed) for seed in (0, 1))
    first.anchors, second.anchors = torch.tensor([0]), torch.tensor([2])
    result = shift(model, [first], [second], level="node")
    h = model.conv(first.x, first.edge_index)[0] - model.conv(second.x, second.edge_index)[2]
    assert result.euclidean.mean == pytest.approx(float(h.detach().norm()), abs=1e-5)


def test_wrong_arguments_are_named():
    model, _ = make_model("classes")
    graph = random_explanation(0)
    with pytest.raises(InputError, match="one other graph per graph"):
        shift(model, [graph], [graph, graph])
    with pytest.raises(InputError, match="edge_weight"):
        shift(model, [graph], [graph], torch.ones(3))
    with pytest.raises(InputError, match="no ground truth"):
        truth_shift(model, [Data(x=graph.x, edge_index=graph.edge_index)])


def test_pools_other_than_the_mean_are_found():
    """The embedding of the library's own targets is a maximum and a mean."""
    model = build_model("gcn", 3, 2).eval()
    graph, other = random_explanation(0), random_explanation(1)
    h, h_other = (
        torch.cat([nodes.max(0).values, global_mean_pool(nodes, None)[0]])
        for nodes in (model.node_embeddings(g.x, g.edge_index) for g in (graph, other))
    )
    result = shift(model, [graph], [other])
    assert result.euclidean.mean == pytest.approx(float((h - h_other).detach().norm()), abs=1e-5)
