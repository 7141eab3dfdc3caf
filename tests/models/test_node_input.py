"""Where codes of nodes become numbers, and that other numbers can take their place."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, global_add_pool

from contract import CODES, assert_same, make_graphs, make_target, snapshot
from hpme.data import GraphStore
from hpme.errors import ModelError
from hpme.models import ExplainedModel


class Reads(nn.Module):
    """Embeds codes in one of several ways, then passes messages."""

    def __init__(self, way):
        super().__init__()
        self.way = way
        self.table, self.other = nn.Embedding(CODES, 4), nn.Embedding(CODES, 4)
        self.inner = nn.Sequential(self.other, nn.ReLU())
        self.lift = nn.Linear(3, 4)
        self.conv, self.head = GCNConv(4, 4), nn.Linear(4, 3)

    def embed(self, x):
        if self.way == "several":
            return self.table(x[:, 0]) + self.inner(x[:, 1])
        if self.way == "one table":
            return self.table(x).sum(1)
        if self.way == "again":
            h = self.table(x[:, 0])
            h += self.table(x[:, 1])
            return h
        if self.way == "numbers":
            return self.lift(x.float())
        return torch.nn.functional.one_hot(x[:, 0], 4).float()

    def forward(self, x, edge_index, batch):
        h = self.embed(x)
        if self.way != "nothing":
            h = self.conv(h, edge_index)
        return self.head(global_add_pool(h.relu(), batch))


WAYS = {
    "several": (8, "output of 'table', 'inner'"),
    "one table": (12, "output of 'table'"),
    "again": (8, "output of 'table'"),
    "numbers": (4, "input of the first message-passing layer 'conv'"),
}


def batch():
    graphs = make_graphs("coded")
    for graph in graphs:
        graph.x = graph.x % 4
    return GraphStore.from_graphs(graphs).batch()


@pytest.mark.parametrize("way", WAYS)
def test_it_is_found_and_replaced(way):
    model, graphs = Reads(way).eval(), batch()
    before, (width, source) = snapshot(model), WAYS[way]
    adapter = ExplainedModel(model).adapter()
    given = adapter.node_input(graphs)
    assert given.shape == (graphs.num_nodes, width)
    assert adapter.describe().endswith(f"gradients of nodes: by the {source}")
    output = adapter.predict(graphs)
    assert torch.equal(adapter.predict(graphs, node_input=given), output)
    leaf = given.clone().requires_grad_()
    (slope,) = torch.autograd.grad(adapter.predict(graphs, node_input=leaf).sum(), leaf)
    assert bool((slope != 0).any())
    step = 1e-3 * slope
    moved = adapter.predict(graphs, node_input=given + step).sum() - output.sum()
    assert float(moved.detach()) == pytest.approx(float((slope * step).sum()), rel=0.05)
    if way != "numbers":
        hidden = adapter.predict(graphs, node_input=torch.zeros_like(given))
        plain = model.head(
            global_add_pool(model.conv.bias.relu().expand(len(given), -1), graphs.batch)
        )
        assert torch.allclose(hidden, plain, atol=1e-6)
    assert_same(before, snapshot(model))


def test_the_outermost_layer_stands_for_those_inside():
    model, graphs = make_target("coded"), GraphStore.from_graphs(make_graphs("coded")).batch()
    adapter = ExplainedModel(model).adapter()
    with ExplainedModel(model).frozen():
        assert adapter.node_input(graphs).shape == (graphs.num_nodes, 8)
        assert str(adapter.entry) == "output of 'atoms'"
        first = adapter.embed(graphs).layers[0]
    assert torch.equal(first, model.atoms(graphs.x))


def test_numbers_are_their_own_input():
    graphs = GraphStore.from_graphs(make_graphs()).batch()
    adapter = ExplainedModel(make_target("gcn")).adapter()
    assert adapter.node_input(graphs) is graphs.x
    other = torch.randn_like(graphs.x)
    direct = adapter.model(other, graphs.edge_index, batch=graphs.batch)
    assert torch.equal(adapter.predict(graphs, node_input=other), direct)


def test_a_model_without_one_is_named():
    with pytest.raises(ModelError, match=r"x is torch\.int64.*nn\.Embedding.*occlusion"):
        ExplainedModel(Reads("nothing")).adapter().node_input(batch())


def test_the_precision_of_the_model_is_kept():
    model, graphs = Reads("several").double().eval(), batch()
    adapter = ExplainedModel(model).adapter()
    weight = torch.rand(graphs.num_edges)
    assert adapter.predict(graphs, weight).dtype == torch.float64
    assert adapter.node_input(graphs).dtype == torch.float64


class Positional(nn.Module):
    """Edges come after two fields of nodes, as in models with positional encodings."""

    def __init__(self):
        super().__init__()
        self.table, self.lift = nn.Embedding(5, 4), nn.Linear(2, 4)
        self.conv, self.head = GCNConv(4, 4), nn.Linear(4, 2)

    def forward(self, x, pe, edge_index, batch):
        assert (x.dtype, pe.dtype) == (torch.long, torch.float)
        h = self.conv(self.table(x) + self.lift(pe), edge_index)
        return self.head(global_add_pool(h, batch))


def test_fields_before_edges_are_called_by_name():
    graph = make_graphs()[0]
    graph = Data(
        x=torch.arange(graph.num_nodes) % 5,
        pe=torch.rand(graph.num_nodes, 2),
        edge_index=graph.edge_index,
    )
    model = Positional()
    explained = ExplainedModel(model)
    graphs = explained.read([graph]).batch()
    none = torch.zeros(graph.num_nodes, dtype=torch.long)
    expected = model(graph.x, graph.pe, graph.edge_index, none)
    assert torch.equal(explained.adapter().predict(graphs), expected)
    assert graphs.x.dim() == 1
