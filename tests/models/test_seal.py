"""DGCNN against a slow reference, its sort pooling against PyG's, and how explainers see it."""

import networkx as nx
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, SortAggregation
from torch_geometric.utils import to_undirected

from hpme.data import GraphStore, LinkDataset, enclosing_subgraph
from hpme.errors import InputError
from hpme.models import DGCNN, Recipe, build_model, load_or_train, predict, train_target
from hpme.models.explained import ExplainedModel
from hpme.models.freezing import frozen
from hpme.models.seal import SortPool

FEATURES = 24


def whole_graph(nodes=40, seed=0):
    graph = nx.barabasi_albert_graph(nodes, 3, seed=seed)
    return Data(edge_index=to_undirected(torch.tensor(list(graph.edges)).T), num_nodes=nodes)


@pytest.fixture(scope="module")
def store():
    """Subgraphs smaller and larger than the ten nodes that are read, one without edges."""
    links = [(0, 1), (5, 39), (3, 20), (30, 31)]
    graphs = enclosing_subgraph(whole_graph(), links)
    lonely = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)
    store = GraphStore.from_graphs(graphs + enclosing_subgraph(lonely, [(0, 1)]))
    assert int(store.sizes.min()) == 2
    assert int(store.sizes.max()) > 10
    return store


def slow_forward(model, x, edge_index, weight=None):
    """One graph at a time, in the words of the paper."""
    layers = [x]
    for conv in model.convs:
        layer = GCNConv(conv.in_channels, conv.out_channels)
        layer.load_state_dict(conv.state_dict())
        layers.append(torch.tanh(layer(layers[-1], edge_index, weight)))
    h = torch.cat(layers[1:], dim=1)
    order = sorted(range(len(h)), key=lambda node: -h[node, -1].item())[: model.k]
    rows = torch.zeros(model.k, h.shape[1])
    rows[: len(order)] = h[order]
    first, last = model.sequence[0], model.sequence[3]
    sequence = (rows @ first.weight[:, 0].T + first.bias).relu()  # one step reads one node
    halved = sequence[: model.k // 2 * 2].view(-1, 2, 16).max(1).values
    read = F.conv1d(halved.T[None], last.weight, last.bias).relu().view(-1)
    return model.out(read)


def test_batched_model_equals_the_reference_graph_by_graph(store):
    model = build_model("dgcnn", FEATURES, 2, k=11).eval()
    weight = torch.rand(int(store.edge_counts.sum()))
    graphs = store.batch()
    plain = model(graphs.x, graphs.edge_index, graphs.batch)
    weighted = model(graphs.x, graphs.edge_index, graphs.batch, weight)
    start = store.edge_start.tolist()
    for i in range(len(store)):
        one = store.batch(torch.tensor([i]))
        own = weight[start[i] :][: one.edge_index.shape[1]]
        torch.testing.assert_close(plain[i], slow_forward(model, one.x, one.edge_index))
        torch.testing.assert_close(weighted[i], slow_forward(model, one.x, one.edge_index, own))
    assert not torch.allclose(plain[:4], weighted[:4])


def test_shapes(store):
    graphs = store.batch()
    for task, outputs in (("classification", 3), ("regression", 1)):
        model = build_model("dgcnn", FEATURES, outputs, task)
        arguments = graphs.x, graphs.edge_index, graphs.batch
        assert model(*arguments).shape == (5, outputs)
        assert model(*arguments, batch_size=7).shape == (7, outputs)
        assert model(graphs.x, graphs.edge_index).shape == (1, outputs)
        assert model.node_embeddings(graphs.x, graphs.edge_index).shape == (graphs.num_nodes, 97)
        assert model.graph_embedding(*arguments).shape == (5, 32 * 11)


@given(st.lists(st.integers(0, 7), min_size=1, max_size=5), st.integers(1, 6), st.integers(0, 99))
def test_sort_pooling_is_that_of_pyg(sizes, k, seed):
    batch = torch.repeat_interleave(torch.tensor(sizes))
    if batch.numel() == 0:
        return
    x = torch.randn(batch.numel(), 3, generator=torch.Generator().manual_seed(seed))
    expected = SortAggregation(k)(x, batch, dim_size=len(sizes))
    torch.testing.assert_close(SortPool(k)(x, batch, dim_size=len(sizes)), expected)


def test_weight_zero_equals_deletion_and_node_order_does_not_matter(store):
    graphs, model = store.batch(), build_model("dgcnn", FEATURES, 2).eval()
    keep = torch.arange(graphs.edge_index.shape[1]) % 3 > 0
    torch.testing.assert_close(
        model(graphs.x, graphs.edge_index, graphs.batch, keep.float()),
        model(graphs.x, graphs.edge_index[:, keep], graphs.batch),
    )
    order = torch.argsort(graphs.batch + 0.9 * torch.rand(graphs.num_nodes))
    place = torch.argsort(order)
    torch.testing.assert_close(
        model(graphs.x[order], place[graphs.edge_index], graphs.batch),
        model(graphs.x, graphs.edge_index, graphs.batch),
    )


def test_edge_weights_have_gradients_that_finite_differences_confirm(store):
    """Sorting is piecewise constant; away from a change of order the gradient is exact."""
    graphs, model = (
        store.batch(torch.tensor([0])),
        build_model("dgcnn", FEATURES, 2).double().eval(),
    )
    x, weight = graphs.x.double(), torch.full((graphs.edge_index.shape[1],), 0.7).double()
    weight = (weight + 0.1 * torch.rand(weight.shape)).requires_grad_()

    def score(weight):
        return model(x, graphs.edge_index, graphs.batch, weight)[0, 1]

    (gradient,) = torch.autograd.grad(score(weight), weight)
    assert int((gradient != 0).sum()) > weight.numel() // 2
    direction, step = torch.randn(weight.shape).double(), 1e-6
    with torch.no_grad():
        slope = (score(weight + step * direction) - score(weight - step * direction)) / (2 * step)
    assert float(slope) == pytest.approx(float(gradient @ direction), rel=1e-4)


def test_dropout_is_active_in_training_only(store):
    graphs, model = store.batch(), build_model("dgcnn", FEATURES, 2)
    arguments = graphs.x, graphs.edge_index, graphs.batch
    assert not torch.equal(model.train()(*arguments), model(*arguments))
    assert torch.equal(model.eval()(*arguments), model(*arguments))


def test_explainers_take_the_sorted_rows_as_node_embeddings(store):
    graphs, model = store.batch(), build_model("dgcnn", FEATURES, 2).eval()
    with frozen(model):
        adapter = ExplainedModel(model).adapter()
        assert adapter.probe(graphs) == "edge_weight"
        embedding = adapter.embed(graphs)
    assert embedding.source == "input of the readout"
    torch.testing.assert_close(embedding.nodes, model.node_embeddings(graphs.x, graphs.edge_index))
    arguments = graphs.x, graphs.edge_index, graphs.batch
    torch.testing.assert_close(embedding.graph, model.graph_embedding(*arguments))


@pytest.mark.parametrize(
    ("sizes", "k"),
    [([3, 4], 10), (range(1, 101), 60), ([50, 20, 30], 30), ([12] * 9, 12), ([], 10)],
)
def test_length_is_the_sixtieth_percentile_of_sizes_and_at_least_ten(sizes, k):
    assert DGCNN.suited_to(torch.tensor(list(sizes), dtype=torch.long)) == {"k": k}


def test_too_short_sequences_are_refused():
    with pytest.raises(InputError, match="at least 10, got 9"):
        build_model("dgcnn", FEATURES, 2, k=9)


def test_hyper_parameters_rebuild_the_model(store):
    model = build_model("dgcnn", FEATURES, 2, k=12, hidden_channels=8, num_layers=2, dropout=0.1)
    again = build_model("dgcnn", **model.hyper_parameters)
    again.load_state_dict(model.state_dict())
    assert torch.equal(predict(again.eval(), store), predict(model.eval(), store))


def test_training_learns_links_repeats_itself_and_is_cached(tmp_path):
    dataset = LinkDataset.from_graph(whole_graph(80), seed=1)
    recipe = Recipe(max_steps=40, patience=40, learning_rate=3e-3, batch_size=64)
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    model, report = load_or_train(dataset, "dgcnn", 0, recipe=recipe, root=tmp_path)
    assert torch.equal(before, torch.random.get_rng_state())
    assert report.metrics["train"]["auc"] > 0.7
    assert set(report.metrics["test"]) >= {"loss", "accuracy", "auc"}
    sizes = GraphStore.from_graphs(dataset).sizes[dataset.split["train"]]
    assert model.k == DGCNN.suited_to(sizes)["k"]
    again = build_model("dgcnn", FEATURES, 2, k=model.k)
    train_target(again, dataset, seed=0, recipe=recipe)
    cached, _ = load_or_train(dataset, "dgcnn", 0, recipe=recipe, root=tmp_path)
    store = GraphStore.from_graphs(dataset)
    assert torch.equal(predict(again, store), predict(model, store))
    assert torch.equal(predict(cached, store), predict(model, store))
