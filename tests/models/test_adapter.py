import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.nn import (
    GAT,
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
from torch_geometric.utils import to_dense_adj, to_undirected

from hpme.data import GraphStore
from hpme.errors import InputError, ModelError
from hpme.graphs import GraphBatch
from hpme.models import build_model
from hpme.models.adapter import ModelAdapter
from hpme.models.freezing import frozen
from hpme.models.message_mask import message_mask


@pytest.fixture(autouse=True)
def seed():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def random_graph(nodes, edges, loops=()):
    index = to_undirected(torch.randint(nodes, (2, edges)))
    index = index[:, index[0] != index[1]]
    index = torch.cat([index, torch.tensor([loops, loops], dtype=torch.long)], dim=1)
    index = index[:, torch.randperm(index.shape[1])]  # loops in between
    return Data(x=torch.randn(nodes, 3), edge_index=index)


def as_batch(*graphs):
    return GraphStore.from_graphs(graphs).batch()


@pytest.fixture
def graphs():
    return as_batch(random_graph(6, 9), random_graph(4, 5), random_graph(7, 12))


def without(graphs, deleted):
    return replace(graphs, edge_index=graphs.edge_index[:, ~deleted])


class Net(nn.Module):
    """Two layers, a readout, a two-layer head."""

    def __init__(self, conv=GCNConv, readout=global_mean_pool, width=5, **options):
        super().__init__()
        self.first, self.second = conv(3, width, **options), conv(width, width, **options)
        self.readout = readout
        self.hidden, self.out = nn.LazyLinear(4), nn.Linear(4, 2)
        with torch.no_grad():
            self(torch.randn(3, 3), torch.tensor([[0, 1], [1, 2]]), torch.tensor([0, 0, 1]))

    def embed(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index).relu()

    def forward(self, x, edge_index, batch):
        return self.out(self.hidden(self.readout(self.embed(x, edge_index), batch)).relu())


# Weights #########################################################################################


@pytest.mark.parametrize("name", ["gcn", "gin"])
def test_edge_weight_zero_is_deletion(graphs, name):
    adapter = ModelAdapter(build_model(name, 3, 2))
    with frozen(adapter.model):
        assert adapter.probe(graphs) == "edge_weight"
        deleted = torch.rand(graphs.edge_index.shape[1]) < 0.4
        weighted = adapter.predict(graphs, (~deleted).float())
        torch.testing.assert_close(weighted, adapter.predict(without(graphs, deleted)))
        plain = adapter.predict(graphs)
        torch.testing.assert_close(adapter.predict(graphs, torch.ones(len(deleted))), plain)
    assert not torch.allclose(weighted, plain)


def test_own_weights_are_multiplied(graphs):
    adapter = ModelAdapter(build_model("gcn", 3, 2))
    own, weight = torch.rand(2, graphs.edge_index.shape[1])
    weighted = replace(graphs, edge_weight=own)
    with frozen(adapter.model):
        adapter.probe(graphs)
        torch.testing.assert_close(
            adapter.predict(weighted, weight), adapter.predict(graphs, own * weight)
        )
        torch.testing.assert_close(adapter.predict(weighted), adapter.predict(graphs, own))


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
    adapter = ModelAdapter(model)
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
    adapter = ModelAdapter(model, weighting="message")
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
    adapter = ModelAdapter(EdgeNet())
    with frozen(adapter.model):
        assert adapter.probe(graphs) == "message"
        scaled = replace(graphs, edge_attr=graphs.edge_attr * weight[:, None])
        torch.testing.assert_close(adapter.predict(graphs, weight), adapter.predict(scaled))


class Wrapped(nn.Module):
    def __init__(self, gnn):
        super().__init__()
        self.gnn = gnn

    def forward(self, x, edge_index, batch, edge_weight=None):
        return global_add_pool(self.gnn(x, edge_index, edge_weight=edge_weight), batch)


class IgnoresEdges(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 2)

    def forward(self, x, edge_index, batch, edge_weight=None):
        return self.lin(global_add_pool(x, batch))


class AnyKeyword(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GraphConv(3, 2)

    def forward(self, x, edge_index, **kwargs):
        return global_add_pool(self.conv(x, edge_index), kwargs["batch"])


class NoLoops(nn.Module):
    """Without self-loops the normalisation hides a factor common to all edges."""

    def __init__(self):
        super().__init__()
        self.conv = GCNConv(3, 2, add_self_loops=False)

    def forward(self, x, edge_index, batch, edge_weight=None):
        return global_add_pool(self.conv(x, edge_index, edge_weight), batch)


@pytest.mark.parametrize(
    ("make", "weighting"),
    [
        (lambda: build_model("gcn", 3, 2), "edge_weight"),
        (lambda: build_model("gat", 3, 2), "message"),
        (lambda: Wrapped(GIN(3, 4, 2)), "message"),
        (lambda: Wrapped(GAT(3, 4, 2)), "message"),
        (Net, "message"),
        (AnyKeyword, "message"),
        (NoLoops, "edge_weight"),
        (IgnoresEdges, "none"),
    ],
)
def test_probe(graphs, make, weighting):
    adapter = ModelAdapter(make())
    assert "not probed" in adapter.describe()
    with frozen(adapter.model):
        assert adapter.probe(graphs) == weighting
    word = {"edge_weight": "edge_weight argument", "message": "masks on messages"}
    assert word.get(weighting, "does not depend") in adapter.describe()


def test_predict_probes_when_it_has_to(graphs):
    adapter = ModelAdapter(build_model("gcn", 3, 2))
    with frozen(adapter.model):
        adapter.predict(graphs)
        assert adapter.weighting is None
        adapter.predict(graphs, torch.ones(graphs.edge_index.shape[1]))
    assert adapter.weighting == "edge_weight"


def test_model_that_ignores_the_weights_of_the_graphs_is_still_masked(graphs):
    weighted = replace(graphs, edge_weight=torch.rand(graphs.edge_index.shape[1]))
    adapter = ModelAdapter(Wrapped(GIN(3, 4, 2)))
    with frozen(adapter.model):
        assert adapter.probe(weighted) == "message"


def test_graphs_with_weights_for_a_model_without(graphs):
    weighted = replace(graphs, edge_weight=torch.rand(graphs.edge_index.shape[1]))
    with pytest.raises(ModelError, match=r"graphs have edge_weight.*remove it"):
        ModelAdapter(Net()).predict(weighted)


# Leaving no trace ################################################################################


def traces(model):
    return [
        (dict(m.__dict__), dict(m._parameters), m.training, len(m._forward_hooks))
        for m in model.modules()
    ]


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


def test_frozen_restores_flags_even_on_error():
    model = Net()
    model.train()
    model.second.eval()
    model.out.weight.requires_grad_(False)
    model.hidden.weight.grad = torch.ones_like(model.hidden.weight)
    training = [m.training for m in model.modules()]
    needs_grad = [p.requires_grad for p in model.parameters()]
    for error in (None, KeyError("x"), KeyboardInterrupt()):
        try:
            with frozen(model):
                assert not any(m.training for m in model.modules())
                assert not any(p.requires_grad for p in model.parameters())
                if error is not None:
                    raise error
        except (KeyError, KeyboardInterrupt) as caught:
            assert caught is error  # noqa: PT017
        assert [m.training for m in model.modules()] == training
        assert [p.requires_grad for p in model.parameters()] == needs_grad
        assert torch.equal(model.hidden.weight.grad, torch.ones_like(model.hidden.weight))


def test_frozen_wants_a_module():
    with pytest.raises(ModelError, match=r"torch\.nn\.Module, got function"), frozen(lambda: 0):
        pass


def test_errors_of_the_model_are_named_and_kept(graphs):
    wide = replace(graphs, x=torch.cat([graphs.x, graphs.x], dim=1))
    with pytest.raises(ModelError, match=r"6 features.*shapes cannot be multiplied") as caught:
        ModelAdapter(Net()).predict(wide)
    assert isinstance(caught.value.__cause__, RuntimeError)


# Embeddings ######################################################################################


def max_and_mean(h, batch):
    return torch.cat([global_max_pool(h, batch), global_mean_pool(h, batch)], dim=1)


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
    adapter = ModelAdapter(model)
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
    embedding = ModelAdapter(model).embed(graphs)
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
    embedding = ModelAdapter(model).embed(graphs)
    nodes = model.norm(model.conv(graphs.x, graphs.edge_index), graphs.batch)
    torch.testing.assert_close(embedding.nodes, nodes)
    torch.testing.assert_close(embedding.graph, global_add_pool(nodes, graphs.batch))


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
    embedding = ModelAdapter(model).embed(graphs)
    h = model.first(graphs.x, graphs.edge_index).relu()
    torch.testing.assert_close(embedding.nodes, model.second(h, graphs.edge_index))
    assert embedding.source == "output of the last message-passing layer 'second'"
    assert embedding.output.shape == (3, 2)


def test_weights_reach_the_layers_before_a_pooling_layer(graphs):
    model = Hierarchical(norm=False).eval()
    adapter = ModelAdapter(model)
    assert adapter.probe(graphs) == "message"
    ones = torch.ones(graphs.edge_index.shape[1])
    torch.testing.assert_close(adapter.predict(graphs, ones), adapter.predict(graphs))
    assert "explain_message" not in vars(model.first)


def test_scores_of_a_pooling_layer_are_no_embedding(graphs):
    model = Hierarchical(norm=False)
    model.pool = SAGPooling(5, ratio=0.5)  # holds a message-passing layer with one channel
    embedding = ModelAdapter(model).embed(graphs)
    assert embedding.source == "output of the last message-passing layer 'second'"


def test_named_layer(graphs):
    model = Net()
    embedding = ModelAdapter(model, embedding_layer="first").embed(graphs)
    torch.testing.assert_close(embedding.nodes, model.first(graphs.x, graphs.edge_index))
    assert embedding.source == "output of layer 'first'"


def test_bad_layer_names(graphs):
    with pytest.raises(InputError, match=r"no layer 'third'; it has: first, .*second"):
        ModelAdapter(Net(), embedding_layer="third")
    with pytest.raises(InputError, match=r"'out' gives no .nodes, channels. tensor; name another"):
        ModelAdapter(Net(), embedding_layer="out").embed(graphs)


def test_no_embedding_to_be_found(graphs):
    class Opaque(nn.Module):
        def forward(self, x, edge_index, batch):
            return torch.stack([x[batch == b].sum(0) for b in range(3)])

    with pytest.raises(ModelError, match=r"neither a readout.*embedding_layer="):
        ModelAdapter(Opaque()).embed(graphs)


def test_embedding_leaves_no_hook_even_on_error(graphs):
    class Failing(Net):
        def embed(self, x, edge_index):
            if len(x) > 10:
                raise RuntimeError("too large")
            return super().embed(x, edge_index)

    model = Failing()
    before = traces(model)
    with pytest.raises(ModelError, match="too large"):
        ModelAdapter(model).embed(graphs)
    assert traces(model) == before


def test_embedding_without_a_head_is_the_output(graphs):
    model = Wrapped(GIN(3, 4, 2))
    embedding = ModelAdapter(model).embed(graphs)
    assert torch.equal(embedding.graph, embedding.output)


def test_graphs_built_by_pyg_serve_as_well():
    data = Batch.from_data_list([random_graph(5, 6), random_graph(4, 4)])
    graphs = GraphBatch(data.x, data.edge_index, data.batch, 2)
    model = build_model("gcn", 3, 2)
    embedding = ModelAdapter(model).embed(graphs)
    torch.testing.assert_close(embedding.nodes, model.node_embeddings(data.x, data.edge_index))
    torch.testing.assert_close(
        embedding.graph, model.graph_embedding(data.x, data.edge_index, data.batch)
    )


@pytest.mark.parametrize("conv", [GCNConv, GraphConv])
def test_trace_is_differentiable_in_weights_and_embedding(graphs, conv):
    model = Net(conv, max_and_mean).double()
    graphs = replace(graphs, x=graphs.x.double())
    adapter = ModelAdapter(model)
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
    adapter = ModelAdapter(Net())
    plain = adapter.trace(graphs)
    none = torch.zeros(graphs.edge_index.shape[1])
    assert adapter.weighting is None
    assert not torch.allclose(adapter.trace(graphs, none).graph, plain.graph)
    assert adapter.weighting == "message"
