"""Every explainer on models that read further fields of graphs, at every level."""

from functools import cache

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, global_add_pool

from contract import CLASSES, FEATURES, SLUGS, make_explainer, make_graph
from hpme.explainers import MixingExplainer, explainer_class
from hpme.metrics import fidelity, shift, truth_shift
from hpme.models import ExplainedModel

slugs = pytest.mark.parametrize("slug", SLUGS)
# Those that show the model edges no graph has.
MIXING = {slug for slug in SLUGS if issubclass(explainer_class(slug), MixingExplainer)}
MIXING.add("best-attribution")  # it compares scorers by mixes
DOSES = 0.5 + torch.arange(8.0)


def direction(x):
    return torch.nn.functional.normalize(x, dim=1)


def length(charge, edge_index):
    return 2 + (charge[edge_index[0]] * charge[edge_index[1]]).sum(1)


def make(seed, nodes=None):
    """A graph whose fields can be told from its features, and are never zero."""
    graph = make_graph(seed, nodes)
    charge = direction(graph.x)
    return Data(
        x=graph.x, edge_index=graph.edge_index, charge=charge, y=graph.y,
        length=length(charge, graph.edge_index), dose=DOSES[seed % 8].view(1, 1),
    )  # fmt: skip


class Reads(nn.Module):
    """Reads fields of nodes, edges and graphs, if all of them are where they belong."""

    def __init__(self, slug, level):
        super().__init__()
        self.slug, self.level = slug, level
        self.attention = slug == "att"
        self.conv = (GATConv(2 * FEATURES, 8, edge_dim=1) if self.attention
                     else GCNConv(2 * FEATURES, 8))  # fmt: skip
        self.head = nn.Linear(9, CLASSES)

    def check(self, batch):
        assert batch.charge.shape == batch.x.shape
        assert batch.length.shape == batch.edge_index.shape[1:]
        hidden = batch.x.norm(dim=1) < 1e-6
        along = (direction(batch.x) * batch.charge).sum(1).abs()
        # Features may be scaled or hidden, but not change places.
        assert torch.allclose(along.masked_fill(hidden, 1.0), torch.ones(len(along)), atol=1e-4)
        assert bool(torch.isin(batch.dose, DOSES).all())
        assert bool((batch.length > 0.9).all())
        if self.slug not in MIXING:
            real = length(batch.charge, batch.edge_index)
            assert torch.allclose(batch.length, real, atol=1e-4)

    def read(self, batch):
        self.check(batch)
        weight = batch.length
        if batch.get("edge_weight") is not None:
            weight = weight * batch.edge_weight
        weight = weight.unsqueeze(1) if self.attention else weight
        h = self.conv(torch.cat([batch.x, batch.charge], 1), batch.edge_index, weight).relu()
        if self.level == "graph":
            h, dose = global_add_pool(h, batch.batch), batch.dose
        elif self.level == "node":
            dose = batch.dose[batch.batch]
        else:
            first, second = batch.edge_label_index
            h, dose = h[first] * h[second], batch.dose[batch.batch[first]]
        return self.head(torch.cat([h, dose], 1))


def call(model, batch):
    return model.read(batch)


@cache
def model(slug, level="graph"):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(1)
        return Reads(slug, level)


@slugs
def test_fields_of_graphs(slug):
    graphs = [make(seed) for seed in range(6)]
    explainer = make_explainer(slug).fit(model(slug), graphs, call=call, progress=False)
    found = explainer.explain(model(slug), graphs, progress=False)
    assert [e.edge_mask.numel() for e in found] == [g.num_edges for g in graphs]
    for explanation, graph in zip(found, graphs, strict=True):
        assert torch.equal(explanation.charge, graph.charge)


@slugs
@pytest.mark.parametrize("level", ["node", "edge"])
def test_fields_of_the_graph_around_nodes_and_links(slug, level):
    if (slug, level) == ("metagnn", "edge"):
        pytest.skip("links have no labels, which this explainer needs")
    graph, nodes = make(3, nodes=16), torch.arange(6)
    graph.y = torch.arange(16) % CLASSES
    index = nodes if level == "node" else torch.stack([nodes, nodes + 7])
    net = model(slug, level)
    explainer = make_explainer(slug, num_hops=1)
    explainer.fit(net, graph, index=index, call=call, level=level, progress=False)
    found = explainer.explain(net, graph, index=index, progress=False)
    assert len(found) == index.shape[-1]
    for explanation in found:
        assert torch.equal(explanation.charge, graph.charge[explanation.node_ids])
        assert torch.equal(explanation.length, graph.length[explanation.edge_ids])
        assert torch.equal(explanation.dose, graph.dose)


def test_metrics_of_models_that_read_fields():
    graphs, explained = [make(seed) for seed in range(4)], ExplainedModel(model("grad"), call=call)
    explanations = make_explainer("grad").explain(explained, graphs, progress=False)
    assert len(fidelity(explained, explanations, 0.5).plus.per_graph) == 4
    for weight in (None, torch.full((sum(g.num_edges for g in graphs),), 0.5)):
        moved = shift(explained, graphs, graphs, weight).euclidean.per_graph
        assert bool((moved == 0).all()) == (weight is None)
    for graph in graphs:
        graph.edge_mask = graph.edge_index.sum(0) < 6
    assert bool((truth_shift(explained, graphs).euclidean.per_graph > 0).all())
