"""Masks on messages land on the right edges, and leave nothing behind."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.nn import (
    GraphConv,
    global_add_pool,
    global_mean_pool,
)
from torch_geometric.utils import to_dense_adj

from hpme.models.explained import ExplainedModel
from hpme.models.freezing import frozen
from hpme.models.hooks import message_mask
from small_models import Net, as_batch, random_graph, traces

pytestmark = pytest.mark.usefixtures("seeded")


def test_message_mask_against_dense_matrices(graphs):
    """``GraphConv`` sums messages: ``x W_root + (mask * A)^T x W_rel + b``."""
    model = Net(GraphConv, global_add_pool)
    weight = torch.rand(graphs.edge_index.shape[1])
    dense = torch.zeros(graphs.num_nodes, graphs.num_nodes)
    dense[tuple(graphs.edge_index)] = weight
    h = graphs.x
    for conv in (model.first, model.second):
        h = (conv.lin_root(h) + conv.lin_rel(dense.t() @ h)).relu()
    expected = model.out(model.hidden(global_add_pool(h, graphs.batch)).relu())
    adapter = ExplainedModel(model).adapter()
    with frozen(model):
        assert adapter.probe(graphs) == "message"
        torch.testing.assert_close(adapter.predict(graphs, weight), expected)


def gcn_reference(model, graphs, weight, loop_weight):
    """GCN whose messages, after normalisation with all edges, are multiplied by weights."""
    adjacency = to_dense_adj(graphs.edge_index, max_num_nodes=graphs.num_nodes)[0]
    factor = torch.zeros_like(adjacency)
    factor[tuple(graphs.edge_index)] = weight
    adjacency.fill_diagonal_(1.0)
    factor.diagonal().copy_(loop_weight)
    scale = adjacency.sum(0).rsqrt()
    norm = factor * adjacency * scale[:, None] * scale[None, :]
    h = graphs.x
    for conv in (model.first, model.second):
        h = (norm.t() @ conv.lin(h) + conv.bias).relu()
    return model.out(model.hidden(global_mean_pool(h, graphs.batch)).relu())


@pytest.mark.parametrize("case", ["none", "some", "all"])
def test_message_mask_lands_on_the_right_edges_despite_self_loops(case):
    loops = {"none": [(), ()], "some": [(4, 1), (2,)], "all": [range(6), range(4)]}[case]
    graphs = as_batch(
        *(random_graph(n, 8, tuple(own)) for n, own in zip((6, 4), loops, strict=True))
    )
    weight = torch.rand(graphs.edge_index.shape[1])
    is_loop = graphs.edge_index[0] == graphs.edge_index[1]
    loop_weight = torch.ones(graphs.num_nodes)
    if case == "all":  # else the layer adds loops of its own in place of the given ones
        loop_weight[graphs.edge_index[0, is_loop]] = weight[is_loop]
    model = Net()
    adapter = ExplainedModel(model).adapter(weighting="message")
    with frozen(model):
        actual = adapter.predict(graphs, weight)
    torch.testing.assert_close(actual, gcn_reference(model, graphs, weight, loop_weight))


def test_message_mask_keeps_edge_features_with_their_edges():
    class EdgeNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = GraphConv(3, 2)

        def forward(self, x, edge_index, batch, edge_attr):
            return global_add_pool(self.conv(x, edge_index, edge_attr.sum(1)), batch)

    graphs = as_batch(random_graph(6, 9, (1, 3)))
    count = graphs.edge_index.shape[1]
    graphs = replace(graphs, edge_attr=torch.rand(count, 2))
    weight = torch.rand(count)
    adapter = ExplainedModel(EdgeNet()).adapter()
    with frozen(adapter.model):
        assert adapter.probe(graphs) == "message"
        scaled = replace(graphs, edge_attr=graphs.edge_attr * weight[:, None])
        torch.testing.assert_close(adapter.predict(graphs, weight), adapter.predict(scaled))


def test_message_mask_leaves_nothing(graphs):
    model = Net()
    before = traces(model)
    with message_mask(model, torch.rand(graphs.edge_index.shape[1]), graphs.edge_index):
        assert traces(model) != before
    assert traces(model) == before
    with (
        pytest.raises(RuntimeError, match="boom"),
        message_mask(model, torch.rand(3), graphs.edge_index),
    ):
        raise RuntimeError("boom")
    assert traces(model) == before


def after_gnn_explainer(model, graphs):
    explainer = Explainer(
        model,
        GNNExplainer(epochs=2),
        explanation_type="model",
        edge_mask_type="object",
        model_config={"mode": "regression", "task_level": "graph"},
    )
    explainer(graphs.x, graphs.edge_index, batch=graphs.batch)
    model.zero_grad()


@pytest.mark.parametrize("cleared", [True, False])
def test_message_mask_after_gnn_explainer(graphs, cleared):
    """PyG leaves a parameter behind, which would cut the gradient of every later mask."""
    model = Net(GraphConv)
    clean = copy.deepcopy(model)
    after_gnn_explainer(model, graphs)
    if not cleared:  # as after an exception in PyG
        model.first._edge_mask = nn.Parameter(torch.rand(graphs.edge_index.shape[1]))
        model.first.explain = True
    assert "_edge_mask" in model.first._parameters
    before = traces(model)
    weight = torch.rand(graphs.edge_index.shape[1], requires_grad=True)
    outputs = []
    for target in (model, clean):
        with message_mask(target, weight, graphs.edge_index):
            outputs.append(target(graphs.x, graphs.edge_index, graphs.batch))
    torch.testing.assert_close(*outputs)
    (gradient,) = torch.autograd.grad(outputs[0].sum(), weight)
    assert bool((gradient != 0).any())
    assert traces(model) == before
    assert list(model.first._parameters) != list(clean.first._parameters)


def test_layers_excluded_by_the_user_are_not_masked(graphs):
    model = Net(GraphConv)
    model.first.explain = False
    zeros = torch.zeros(graphs.edge_index.shape[1])
    with message_mask(model, zeros, graphs.edge_index):
        masked = model.first(graphs.x, graphs.edge_index)
    assert torch.equal(masked, model.first(graphs.x, graphs.edge_index))
    assert model.first.explain is False
