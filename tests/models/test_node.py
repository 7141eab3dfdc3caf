"""Node-level targets: the models, how any user's model is called, training, the cache."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN, GCNConv
from torch_geometric.utils import to_undirected

from hpme.data import GraphStore, WholeGraph, load_dataset
from hpme.errors import InputError, ModelError, UnknownNameError
from hpme.models import Recipe, build_model, load_or_train, predict
from hpme.models.explained import ExplainedModel
from hpme.models.freezing import frozen
from hpme.models.registry import name_for

NAMES = ("node-gcn", "node-gin", "node-gat")
SHORT = Recipe(max_steps=4, patience=4, batch_size=1_000_000)


@pytest.fixture(scope="module")
def egos():
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(14, (2, 18), generator=generator)
    edges = to_undirected(edges[:, edges[0] != edges[1]])
    data = Data(x=torch.randn(14, 3, generator=generator), edge_index=edges)
    return WholeGraph.of(data, num_hops=2).ego_graphs(torch.tensor([3, 0, 8])).batch()


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_concatenated_layers_and_a_linear_head(name, egos):
    model = build_model(name, 3, 4, hidden_channels=8, num_layers=2).eval()
    h = model.node_embeddings(egos.x, egos.edge_index)
    assert h.shape == (egos.num_nodes, 16)
    assert torch.equal(model(egos.x, egos.edge_index), model.out(h))
    assert model.level == "node"
    again = build_model(name, **model.hyper_parameters)
    again.load_state_dict(model.state_dict())
    assert torch.equal(again.eval()(egos.x, egos.edge_index), model(egos.x, egos.edge_index))


def test_regression_rows_are_in_label_units(egos):
    model = build_model("node-gcn", 3, 1, "regression").eval()
    model.y_mean.fill_(500.0)
    assert bool((model(egos.x, egos.edge_index) > 400).all())


class Headless(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(3, 6)  # on node rows too, but before the layers
        self.first, self.second = GCNConv(6, 5), GCNConv(5, 2)

    def forward(self, x, edge_index):
        return self.second(self.first(self.encode(x), edge_index).relu(), edge_index)


class TwoLayerHead(Headless):
    def __init__(self):
        super().__init__()
        self.head = nn.Sequential(nn.Linear(2, 7), nn.ReLU(), nn.Linear(7, 4))

    def forward(self, x, edge_index):
        return self.head(super().forward(x, edge_index))


@pytest.mark.parametrize(
    ("make", "width", "source"),
    [
        (lambda: build_model("node-gcn", 3, 4, hidden_channels=5), 15, "input of the head"),
        (Headless, 2, "output of the last message-passing layer 'second'"),
        (TwoLayerHead, 2, "input of the head"),
        (lambda: GCN(3, 8, 2, 4, jk="cat"), 16, "input of the head"),
    ],
)
def test_where_node_embeddings_come_from(make, width, source, egos):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        adapter = ExplainedModel(make(), level="node").adapter()
    with frozen(adapter.model):
        embedding = adapter.embed(egos)
        output = adapter.model(egos.x, egos.edge_index)
    anchors = egos.anchors[:, 0]
    assert embedding.nodes.shape == (egos.num_nodes, width)
    assert embedding.source == source
    assert torch.equal(embedding.graph, embedding.nodes[anchors])
    assert torch.equal(embedding.output, output[anchors])
    assert torch.equal(adapter.predict(egos), output[anchors])
    assert source in adapter.describe() and "target nodes" in adapter.describe()


def test_a_named_layer_wins(egos):
    adapter = ExplainedModel(TwoLayerHead(), embedding_layer="first", level="node").adapter()
    with frozen(adapter.model):
        embedding = adapter.embed(egos)
    assert embedding.nodes.shape == (egos.num_nodes, 5)
    assert torch.equal(embedding.graph, embedding.nodes[egos.anchors[:, 0]])


@pytest.mark.parametrize("make", [Headless, lambda: build_model("node-gcn", 3, 4)])
def test_weight_zero_equals_deletion(make, egos):
    adapter = ExplainedModel(make(), level="node").adapter()
    deleted = torch.arange(egos.edge_index.shape[1]) % 3 == 0
    kept = egos.edges(~deleted)
    with frozen(adapter.model):
        adapter.probe(egos)
        weighted = adapter.predict(egos, (~deleted).float())
        output = adapter.model(kept.x, kept.edge_index)[egos.anchors[:, 0]]
    if adapter.weighting == "edge_weight":  # a mask on messages leaves degrees as they were
        assert torch.allclose(weighted, output, atol=1e-5)
    else:
        assert not torch.allclose(weighted, adapter.predict(egos))


def test_errors_name_the_remedy(egos):
    pooled, at_nodes = build_model("gcn", 3, 2), build_model("node-gcn", 3, 2)
    plain = GraphStore.from_graphs([Data(x=egos.x, edge_index=egos.edge_index)]).batch()
    with frozen(pooled), pytest.raises(ModelError, match="one row per node"):
        ExplainedModel(pooled, level="node").adapter().predict(egos)
    with frozen(at_nodes), pytest.raises(InputError, match="anchors"):
        ExplainedModel(at_nodes, level="node").adapter().predict(plain)
    with frozen(at_nodes), pytest.raises(ModelError, match="as index"):
        ExplainedModel(at_nodes).adapter().predict(plain)


def test_names_by_level():
    assert name_for("gcn", "graph") == "gcn"
    assert name_for("gcn", "node") == name_for("node-gcn", "node") == "node-gcn"
    with pytest.raises(InputError, match=r"no model of nodes.*node-gcn"):
        name_for("dgcnn", "node")
    with pytest.raises(InputError, match="no model of graphs"):
        name_for("node-gcn", "graph")
    with pytest.raises(UnknownNameError):
        name_for("gcm", "node")


def test_training_sees_the_whole_graph_and_explaining_ego_graphs(tmp_path):
    dataset = load_dataset("tree-grid", size=60, root=tmp_path)
    model, report = load_or_train(dataset, "gcn", recipe=SHORT, root=tmp_path)
    again, stored = load_or_train(dataset, "node-gcn", recipe=SHORT, root=tmp_path)
    assert stored == report
    nodes = torch.tensor([5, 17, 40])
    whole = dataset.training_store()
    rows = model(dataset.graph.x, dataset.graph.edge_index)
    assert torch.equal(predict(again, whole, nodes), rows[nodes])
    assert torch.equal(predict(again, whole), rows)
    expected = float((rows[dataset.split["test"]].argmax(1)
                      == dataset.graph.y[dataset.split["test"]]).float().mean())  # fmt: skip
    assert report.metrics["test"]["accuracy"] == pytest.approx(expected)
    egos = GraphStore.from_graphs(dataset.ego_graphs(nodes))
    outputs = predict(model, egos)
    for number, ego in enumerate(dataset.ego_graphs(nodes)):
        alone = model(ego.x, ego.edge_index)[ego.anchors[0]]
        assert torch.allclose(outputs[number], alone, atol=1e-6)
