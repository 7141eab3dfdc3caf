"""Shapes, invariances and scales of the target models."""

import inspect

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import GCNConv, GINConv

from hpme.errors import InputError, UnknownNameError
from hpme.models import MODELS, EdgeWeightedGNN, TargetGNN, build_model
from hpme.models.gnn import normalise_rows, output_bias

ALL = ["gat", "gcn", "gin"]
WEIGHTED = ["gcn", "gin"]


def random_graphs(seed: int = 0, features: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    """Three undirected graphs of 6, 1 and 8 nodes."""
    generator = torch.Generator().manual_seed(seed)
    batch = torch.tensor([0] * 6 + [1] + [2] * 8)
    x = torch.rand(15, features, generator=generator)
    linked = torch.rand(15, 15, generator=generator) < 0.4
    linked &= (batch[:, None] == batch) & (torch.ones(15, 15).triu(1) > 0)
    return x, (linked | linked.T).nonzero().T.contiguous(), batch


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(("task", "outputs"), [("classification", 3), ("regression", 1)])
def test_shapes(name, task, outputs):
    model = build_model(name, 4, outputs, task)
    x, edge_index, batch = random_graphs()
    assert model(x, edge_index, batch).shape == (3, outputs)
    assert model(x, edge_index).shape == (1, outputs)
    assert model(x, edge_index, batch, batch_size=5).shape == (5, outputs)
    nodes = model.node_embeddings(x, edge_index)
    graphs = model.graph_embedding(x, edge_index, batch)
    assert nodes.shape == (15, 20)
    assert graphs.shape == (3, 40)
    assert torch.equal(model.head(graphs), model(x, edge_index, batch))


@pytest.mark.parametrize("name", ALL)
def test_embeddings_are_normalised_rectified_and_pooled(name):
    x, edge_index, batch = random_graphs()
    model = build_model(name, 4, 2)
    nodes = model.node_embeddings(x, edge_index)
    assert bool((nodes >= 0).all())
    assert bool((nodes.norm(dim=1) <= 1 + 1e-5).all())
    graph = model.graph_embedding(x, edge_index, batch)[2]
    expected = torch.cat([nodes[7:].max(0).values, nodes[7:].mean(0)])
    torch.testing.assert_close(graph, expected)


@pytest.mark.parametrize("name", ALL)
def test_graphs_of_a_batch_do_not_interact(name):
    x, edge_index, batch = random_graphs()
    model = build_model(name, 4, 2)
    last = edge_index[:, batch[edge_index[0]] == 2] - 7
    torch.testing.assert_close(model(x[7:], last)[0], model(x, edge_index, batch)[2])


@pytest.mark.parametrize("name", ALL)
def test_node_order_does_not_matter(name):
    x, edge_index, batch = random_graphs()
    model = build_model(name, 4, 2)
    order = torch.randperm(15, generator=torch.Generator().manual_seed(1))
    position = torch.argsort(order)
    torch.testing.assert_close(
        model(x[order], position[edge_index], batch[order]), model(x, edge_index, batch)
    )


@pytest.mark.parametrize("name", WEIGHTED)
def test_weight_zero_equals_deletion_and_one_changes_nothing(name):
    x, edge_index, batch = random_graphs()
    model = build_model(name, 4, 2)
    keep = torch.arange(edge_index.shape[1]) % 3 > 0
    deleted = model(x, edge_index[:, keep], batch)
    torch.testing.assert_close(model(x, edge_index, batch, keep.float()), deleted)
    whole = model(x, edge_index, batch)
    torch.testing.assert_close(model(x, edge_index, batch, torch.ones(keep.numel())), whole)
    assert not torch.allclose(deleted, whole)


@pytest.mark.parametrize("name", WEIGHTED)
def test_edge_weights_have_gradients(name):
    x, edge_index, batch = random_graphs()
    model = build_model(name, 4, 2)
    weight = torch.full((edge_index.shape[1],), 0.5, requires_grad=True)
    (gradient,) = torch.autograd.grad(model(x, edge_index, batch, weight)[:, 0].sum(), weight)
    assert bool(torch.isfinite(gradient).all())
    assert bool((gradient != 0).any())


def test_only_models_that_use_edge_weights_accept_them():
    accepting = [
        name
        for name, kind in MODELS.items()
        if "edge_weight" in inspect.signature(kind.forward).parameters
    ]
    assert accepting == [n for n, kind in MODELS.items() if issubclass(kind, EdgeWeightedGNN)]
    assert set(WEIGHTED) < set(accepting)
    assert "gat" not in accepting


def test_gcn_layers_compute_what_pyg_does():
    x, edge_index, _ = random_graphs()
    edge_index = torch.cat([edge_index, torch.tensor([[2], [2]])], dim=1)  # with a self-loop
    weight = torch.rand(edge_index.shape[1], generator=torch.Generator().manual_seed(2))
    model = build_model("gcn", 4, 2)
    h = x
    for conv in model.convs:
        reference = GCNConv(conv.in_channels, conv.out_channels)
        reference.load_state_dict(conv.state_dict())
        h = torch.nn.functional.normalize(reference(h, edge_index, weight), dim=1).relu()
    torch.testing.assert_close(model.node_embeddings(x, edge_index, weight), h)


def test_gin_layers_compute_what_pyg_does():
    x, edge_index, _ = random_graphs()
    model = build_model("gin", 4, 2)
    h = x
    for conv in model.convs:
        h = torch.nn.functional.normalize(GINConv(conv.nn)(h, edge_index), dim=1).relu()
    torch.testing.assert_close(model.node_embeddings(x, edge_index), h)


def test_normalisation_of_a_zero_row_is_finite_forwards_and_backwards():
    h = torch.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    out = normalise_rows(h)
    torch.testing.assert_close(out, torch.tensor([[0.0, 0.0], [0.6, 0.8]]))
    (gradient,) = torch.autograd.grad(out[:, 0].sum(), h)
    assert float(gradient.abs().max()) <= 1


def test_constant_features_need_biases():
    """With zero biases all nodes of all graphs get the same embedding, whatever the edges."""
    _, edge_index, batch = random_graphs()
    x = torch.full((15, 4), 0.1)
    model = build_model("gcn", 4, 2)
    free = model(x, edge_index, batch)
    assert not torch.allclose(free, free[:1].expand_as(free), atol=1e-3)
    for conv in model.convs:
        torch.nn.init.zeros_(conv.bias)
    trapped = model(x, edge_index, batch)
    torch.testing.assert_close(trapped, trapped[:1].expand_as(trapped))


@pytest.mark.parametrize("name", ALL)
def test_initial_biases_are_not_zero(name):
    for conv in build_model(name, 4, 2).convs:
        assert bool((output_bias(conv) != 0).all())


@pytest.mark.parametrize("name", ALL)
def test_placed_biases_are_zero_at_a_node_in_every_channel(name):
    x, edge_index, _ = random_graphs()
    model = build_model(name, 4, 2)
    outputs = []
    model.place_biases(x, edge_index, torch.Generator().manual_seed(0))
    for conv in model.convs:
        conv.register_forward_hook(lambda _, __, out: outputs.append(out))
    model.node_embeddings(x, edge_index)
    assert len(outputs) == 3
    for out in outputs:
        torch.testing.assert_close(out.abs().min(0).values, torch.zeros(20), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["gcn", "gin"])
def test_placed_biases_tell_graphs_with_constant_features_apart(name):
    _, edge_index, batch = random_graphs()
    x = torch.full((15, 4), 0.1)
    spreads = []
    model = build_model(name, 4, 2)
    for _ in range(2):
        embedding = model.graph_embedding(x, edge_index, batch).detach()
        spreads.append(float(embedding.std(0).mean()))
        model.place_biases(x, edge_index, torch.Generator().manual_seed(0))
    assert spreads[1] > 2 * spreads[0]


def test_regression_returns_label_units():
    model = build_model("gcn", 4, 1, "regression")
    x, edge_index, batch = random_graphs()
    before = model(x, edge_index, batch)
    y = torch.tensor([100.0, 300.0, 800.0])
    model.y_mean.fill_(y.mean())
    model.y_scale.fill_(7.0)
    torch.testing.assert_close(model(x, edge_index, batch), before * 7 + 400)


def test_predictions_do_not_depend_on_the_unit_of_the_features():
    x, edge_index, batch = random_graphs()
    outputs = []
    for factor in (1.0, 100.0):
        model = build_model("gcn", 4, 2)
        model.fit_scales(factor * x, torch.zeros(3))
        outputs.append(model(factor * x, edge_index, batch))
    torch.testing.assert_close(*outputs)


def test_scales_are_taken_from_the_data():
    model = build_model("gcn", 2, 1, "regression")
    model.fit_scales(torch.tensor([[3.0, 4.0], [5.0, 0.0]]), torch.tensor([1, 2, 3, 6]))
    assert float(model.x_scale) == pytest.approx(12.5**0.5)
    assert float(model.y_mean) == 3
    assert float(model.y_scale) == pytest.approx(3.5**0.5)


def test_scales_of_constant_data_are_usable():
    model = build_model("gcn", 2, 1, "regression")
    model.fit_scales(torch.zeros(5, 2), torch.full((5,), 7.0))
    assert float(model.x_scale) == 1
    assert float(model.y_mean) == 7
    assert float(model.y_scale) == 1


def test_seed_decides_the_weights_and_global_random_state_is_untouched():
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    one, two, other = (build_model("gcn", 4, 2, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(before, torch.random.get_rng_state())
    same = [torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True)]
    assert all(same)
    assert not torch.equal(one.convs[0].lin.weight, other.convs[0].lin.weight)


def test_hyper_parameters_rebuild_the_model():
    model = build_model("gin", 5, 1, "regression", hidden_channels=8, num_layers=2)
    again = build_model("gin", **model.hyper_parameters)
    again.load_state_dict(model.state_dict())
    x, edge_index, batch = random_graphs(features=5)
    assert torch.equal(again(x, edge_index, batch), model(x, edge_index, batch))
    assert isinstance(again, TargetGNN)


def test_wrong_arguments_are_named():
    with pytest.raises(UnknownNameError, match="valid names: dgcnn, gat, gcn, gin"):
        build_model("sage", 4, 2)
    with pytest.raises(InputError, match="out_channels=1, got 2"):
        build_model("gcn", 4, 2, "regression")
    with pytest.raises(InputError, match="'ranking'"):
        build_model("gcn", 4, 2, "ranking")
    with pytest.raises(InputError, match="at least 1"):
        build_model("gcn", 0, 2)


def test_heads_of_a_gat_share_its_width():
    model = build_model("gat", 3, 2, hidden_channels=12, heads=3)
    assert [(conv.heads, conv.out_channels) for conv in model.convs] == [(3, 4)] * 3
    again = build_model("gat", **model.hyper_parameters)
    assert {n: p.shape for n, p in again.named_parameters()} == {
        n: p.shape for n, p in model.named_parameters()
    }
    with pytest.raises(InputError, match=r"multiple of heads, got 10 and 4"):
        build_model("gat", 3, 2, hidden_channels=10)
    with pytest.raises(InputError, match="heads must be at least 1"):
        build_model("gat", 3, 2, heads=0)
