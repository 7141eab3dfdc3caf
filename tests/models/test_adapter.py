"""Edge weights reach any model."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch_geometric.nn import (
    GAT,
    GIN,
    GCNConv,
    GraphConv,
    global_add_pool,
)

from hpme.errors import ModelError
from hpme.graphs.transforms import elements_per_pass
from hpme.models import build_model
from hpme.models.explained import ExplainedModel
from hpme.models.freezing import frozen
from hpme.models.replicas import channels_of
from small_models import Net, Wrapped, without

pytestmark = pytest.mark.usefixtures("seeded")


@pytest.mark.parametrize("name", ["gcn", "gin"])
def test_edge_weight_zero_is_deletion(graphs, name):
    adapter = ExplainedModel(build_model(name, 3, 2)).adapter()
    with frozen(adapter.model):
        assert adapter.probe(graphs) == "edge_weight"
        deleted = torch.rand(graphs.edge_index.shape[1]) < 0.4
        weighted = adapter.predict(graphs, (~deleted).float())
        torch.testing.assert_close(weighted, adapter.predict(without(graphs, deleted)))
        plain = adapter.predict(graphs)
        torch.testing.assert_close(adapter.predict(graphs, torch.ones(len(deleted))), plain)
    assert not torch.allclose(weighted, plain)


def test_own_weights_are_multiplied(graphs):
    adapter = ExplainedModel(build_model("gcn", 3, 2)).adapter()
    own, weight = torch.rand(2, graphs.edge_index.shape[1])
    weighted = replace(graphs, edge_weight=own)
    with frozen(adapter.model):
        adapter.probe(graphs)
        torch.testing.assert_close(
            adapter.predict(weighted, weight), adapter.predict(graphs, own * weight)
        )
        torch.testing.assert_close(adapter.predict(weighted), adapter.predict(graphs, own))


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
    adapter = ExplainedModel(make()).adapter()
    assert "not probed" in adapter.describe()
    with frozen(adapter.model):
        assert adapter.probe(graphs) == weighting
    word = {"edge_weight": "edge_weight argument", "message": "masks on messages"}
    assert word.get(weighting, "does not depend") in adapter.describe()


def test_predict_probes_when_it_has_to(graphs):
    adapter = ExplainedModel(build_model("gcn", 3, 2)).adapter()
    with frozen(adapter.model):
        adapter.predict(graphs)
        assert adapter.weighting is None
        adapter.predict(graphs, torch.ones(graphs.edge_index.shape[1]))
    assert adapter.weighting == "edge_weight"


def test_model_that_ignores_the_weights_of_the_graphs_is_still_masked(graphs):
    weighted = replace(graphs, edge_weight=torch.rand(graphs.edge_index.shape[1]))
    adapter = ExplainedModel(Wrapped(GIN(3, 4, 2))).adapter()
    with frozen(adapter.model):
        assert adapter.probe(weighted) == "message"


def test_graphs_with_weights_for_a_model_without(graphs):
    weighted = replace(graphs, edge_weight=torch.rand(graphs.edge_index.shape[1]))
    with pytest.raises(ModelError, match=r"graphs have edge_weight.*remove it"):
        ExplainedModel(Net()).adapter().predict(weighted)


def test_errors_of_the_model_are_named_and_kept(graphs):
    wide = replace(graphs, x=torch.cat([graphs.x, graphs.x], dim=1))
    with pytest.raises(ModelError, match=r"6 features.*shapes cannot be multiplied") as caught:
        ExplainedModel(Net()).adapter().predict(wide)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_wide_models_read_fewer_graphs_at_once():
    table, wide = nn.Embedding(10_000, 16), nn.Linear(300, 400)
    assert channels_of(nn.Sequential(table, nn.LazyLinear(8))) == 16
    assert channels_of(nn.Sequential(table, wide, nn.Linear(400, 1))) == 300
    assert channels_of(nn.Identity()) == 1
    assert elements_per_pass(300) == elements_per_pass(16) // 6 == 5_000
