"""Embeddings are what enters the readout and the head."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import (
    GIN,
    GCNConv,
    GraphConv,
    GraphNorm,
    SAGEConv,
    SAGPooling,
    TopKPooling,
    aggr,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)

from hpme.errors import InputError, ModelError
from hpme.graphs import GraphBatch
from hpme.models import build_model
from hpme.models.explained import ExplainedModel
from hpme.models.freezing import frozen
from small_models import Net, Wrapped, as_batch, max_and_mean, random_graph, traces

pytestmark = pytest.mark.usefixtures("seeded")


READOUTS = {
    "add": lambda: global_add_pool,
    "mean": lambda: global_mean_pool,
    "max": lambda: global_max_pool,
    "max and mean": lambda: max_and_mean,
    "MeanAggregation": aggr.MeanAggregation,
    "SumAggregation": aggr.SumAggregation,
    "MaxAggregation": aggr.MaxAggregation,
    "StdAggregation": aggr.StdAggregation,
    "SoftmaxAggregation": lambda: aggr.SoftmaxAggregation(learn=True),
    "MultiAggregation": lambda: aggr.MultiAggregation(["mean", "max", "std"]),
    "AttentionalAggregation": lambda: aggr.AttentionalAggregation(nn.Linear(5, 1)),
    "Set2Set": lambda: aggr.Set2Set(5, 2),
    "SortAggregation": lambda: aggr.SortAggregation(k=3),
}


@pytest.mark.parametrize("name", READOUTS)
def test_embeddings_are_what_enters_readout_and_head(graphs, name):
    model = Net(readout=READOUTS[name]())
    model.eval()
    adapter = ExplainedModel(model).adapter()
    embedding = adapter.embed(graphs)
    nodes = model.embed(graphs.x, graphs.edge_index)
    graph = model.readout(nodes, graphs.batch)
    torch.testing.assert_close(embedding.nodes, nodes)
    torch.testing.assert_close(embedding.graph, graph)
    torch.testing.assert_close(embedding.output, model(graphs.x, graphs.edge_index, graphs.batch))
    assert embedding.source == "input of the readout"
    assert "input of the readout" in adapter.describe()
    assert not embedding.nodes.requires_grad


@pytest.mark.parametrize("name", ["add", "max and mean", "AttentionalAggregation"])
def test_embeddings_of_graphs_of_one_node(name):
    """As many nodes as graphs: shapes tell nothing."""
    graphs = as_batch(*(Data(x=torch.randn(1, 3), edge_index=torch.empty(2, 0).long())
                        for _ in range(4)))  # fmt: skip
    model = Net(readout=READOUTS[name]())
    embedding = ExplainedModel(model).adapter().embed(graphs)
    nodes = model.embed(graphs.x, graphs.edge_index)
    torch.testing.assert_close(embedding.nodes, nodes)
    torch.testing.assert_close(embedding.graph, model.readout(nodes, graphs.batch))


class Normed(nn.Module):
    """Normalisation per graph also reduces over the batch vector."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.out = SAGEConv(3, 5), GraphNorm(5), nn.Linear(5, 2)

    def forward(self, x, edge_index, batch):
        return self.out(global_add_pool(self.norm(self.conv(x, edge_index), batch), batch))


def test_graph_norm_is_no_readout(graphs):
    model = Normed()
    embedding = ExplainedModel(model).adapter().embed(graphs)
    nodes = model.norm(model.conv(graphs.x, graphs.edge_index), graphs.batch)
    torch.testing.assert_close(embedding.nodes, nodes)
    torch.testing.assert_close(embedding.graph, global_add_pool(nodes, graphs.batch))


def mean_by_hand(h, batch):
    return global_add_pool(h, batch) / global_add_pool(torch.ones_like(h), batch)


def mean_by_count(h, batch):
    total = h.new_zeros(3, h.shape[1]).index_add(0, batch, h)
    return total / h.new_zeros(3, 1).index_add(0, batch, h.new_ones(len(h), 1))


def mean_and_size(h, batch):
    ones = h.new_ones(len(h), 1)
    return torch.cat([global_mean_pool(h, batch), global_add_pool(ones, batch)], dim=1)


@pytest.mark.parametrize("readout", [mean_by_hand, mean_by_count, mean_and_size])
def test_counting_nodes_after_the_readout_is_no_readout(graphs, readout):
    model = Net(GraphConv)
    model.readout = readout
    model.hidden = nn.Linear(6 if readout is mean_and_size else 5, 4)
    embedding = ExplainedModel(model).adapter().embed(graphs)
    nodes = model.embed(graphs.x, graphs.edge_index)
    torch.testing.assert_close(embedding.nodes, nodes)
    torch.testing.assert_close(embedding.graph, readout(nodes, graphs.batch))
    assert embedding.source == "input of the readout"


def test_features_that_are_pooled_after_the_readout_are_no_embedding(graphs):
    class Skipping(Net):
        def forward(self, x, edge_index, batch):
            h = self.embed(x, edge_index)
            return torch.cat([global_add_pool(h, batch), global_add_pool(x, batch)], dim=1)

    model = Skipping()
    model.hidden = nn.Linear(5, 4)  # a lazy layer that is never called would be refused
    nodes = model.embed(graphs.x, graphs.edge_index)
    torch.testing.assert_close(ExplainedModel(model).adapter().embed(graphs).nodes, nodes)


class Hierarchical(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.first, self.second, self.third = GCNConv(3, 5), GCNConv(5, 5), GCNConv(5, 5)
        self.norm = GraphNorm(5) if norm else None
        self.pool, self.out = TopKPooling(5, ratio=0.5), nn.Linear(5, 2)

    def forward(self, x, edge_index, batch):
        x = self.second(self.first(x, edge_index).relu(), edge_index)
        h = x.relu() if self.norm is None else self.norm(x, batch).relu()
        h, edge_index, _, batch, _, _ = self.pool(h, edge_index, batch=batch)
        return self.out(global_mean_pool(self.third(h, edge_index), batch))


@pytest.mark.parametrize("norm", [False, True])
def test_hierarchical_model_falls_back_to_the_last_layer_with_all_nodes(graphs, norm):
    model = Hierarchical(norm)
    embedding = ExplainedModel(model).adapter().embed(graphs)
    h = model.first(graphs.x, graphs.edge_index).relu()
    torch.testing.assert_close(embedding.nodes, model.second(h, graphs.edge_index))
    assert embedding.source == "output of the last message-passing layer 'second'"
    assert embedding.output.shape == (3, 2)


def test_weights_reach_the_layers_before_a_pooling_layer(graphs):
    model = Hierarchical(norm=False).eval()
    adapter = ExplainedModel(model).adapter()
    assert adapter.probe(graphs) == "message"
    ones = torch.ones(graphs.edge_index.shape[1])
    torch.testing.assert_close(adapter.predict(graphs, ones), adapter.predict(graphs))
    assert "explain_message" not in vars(model.first)


def test_scores_of_a_pooling_layer_are_no_embedding(graphs):
    model = Hierarchical(norm=False)
    model.pool = SAGPooling(5, ratio=0.5)  # holds a message-passing layer with one channel
    embedding = ExplainedModel(model).adapter().embed(graphs)
    assert embedding.source == "output of the last message-passing layer 'second'"


def test_named_layer(graphs):
    model = Net()
    embedding = ExplainedModel(model, embedding_layer="first").adapter().embed(graphs)
    torch.testing.assert_close(embedding.nodes, model.first(graphs.x, graphs.edge_index))
    assert embedding.source == "output of layer 'first'"


def test_bad_layer_names(graphs):
    with pytest.raises(InputError, match=r"no layer 'third'; it has: first, .*second"):
        ExplainedModel(Net(), embedding_layer="third").adapter()
    with pytest.raises(InputError, match=r"'out' gives no .nodes, channels. tensor; name another"):
        ExplainedModel(Net(), embedding_layer="out").adapter().embed(graphs)


def test_no_embedding_to_be_found(graphs):
    class Opaque(nn.Module):
        def forward(self, x, edge_index, batch):
            return torch.stack([x[batch == b].sum(0) for b in range(3)])

    with pytest.raises(ModelError, match=r"neither a readout.*embedding_layer="):
        ExplainedModel(Opaque()).adapter().embed(graphs)


def test_embedding_leaves_no_hook_even_on_error(graphs):
    class Failing(Net):
        def embed(self, x, edge_index):
            if len(x) > 10:
                raise RuntimeError("too large")
            return super().embed(x, edge_index)

    model = Failing()
    before = traces(model)
    with pytest.raises(ModelError, match="too large"):
        ExplainedModel(model).adapter().embed(graphs)
    assert traces(model) == before


def test_embedding_without_a_head_is_the_output(graphs):
    model = Wrapped(GIN(3, 4, 2))
    embedding = ExplainedModel(model).adapter().embed(graphs)
    assert torch.equal(embedding.graph, embedding.output)


def test_graphs_built_by_pyg_serve_as_well():
    data = Batch.from_data_list([random_graph(5, 6), random_graph(4, 4)])
    graphs = GraphBatch(data.x, data.edge_index, data.batch, 2)
    model = build_model("gcn", 3, 2)
    embedding = ExplainedModel(model).adapter().embed(graphs)
    torch.testing.assert_close(embedding.nodes, model.node_embeddings(data.x, data.edge_index))
    torch.testing.assert_close(
        embedding.graph, model.graph_embedding(data.x, data.edge_index, data.batch)
    )


@pytest.mark.parametrize("conv", [GCNConv, GraphConv])
def test_trace_is_differentiable_in_weights_and_embedding(graphs, conv):
    model = Net(conv, max_and_mean).double()
    graphs = replace(graphs, x=graphs.x.double())
    adapter = ExplainedModel(model).adapter()
    adapter.probe(graphs)
    weight = torch.rand(graphs.edge_index.shape[1]).double().requires_grad_()
    with frozen(model):
        traced = adapter.trace(graphs, weight)
        assert torch.equal(traced.output, adapter.predict(graphs, weight))
        torch.testing.assert_close(model.out(model.hidden(traced.graph).relu()), traced.output)
        assert torch.equal(model.readout(traced.nodes, graphs.batch), traced.graph)
        assert torch.autograd.gradcheck(
            lambda w: adapter.trace(graphs, w).graph, weight, eps=1e-6, atol=1e-5
        )
        slope = torch.autograd.grad(traced.output[:, 1].sum(), traced.graph)[0]
        h = traced.graph.detach().requires_grad_()
        model.out(model.hidden(h).relu())[:, 1].sum().backward()
    torch.testing.assert_close(slope, h.grad)


def test_trace_probes_when_it_has_to(graphs):
    adapter = ExplainedModel(Net()).adapter()
    plain = adapter.trace(graphs)
    none = torch.zeros(graphs.edge_index.shape[1])
    assert adapter.weighting is None
    assert not torch.allclose(adapter.trace(graphs, none).graph, plain.graph)
    assert adapter.weighting == "message"
