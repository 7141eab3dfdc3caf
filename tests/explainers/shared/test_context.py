"""The frozen model on the graphs an explainer is fitted to, and the way from arguments to there."""

from collections import Counter

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from contract import FEATURES, make_explainer, make_graphs, make_target
from finder import Finder, planted_graphs
from hpme.data import GraphStore
from hpme.explainers.shared import base
from hpme.explainers.shared.context import Context
from hpme.models import ExplainedModel

COPIES = {"cat", "stack", "index_select", "index", "clone", "_to_copy"}


class FeatureCopies(TorchDispatchMode):
    """Counts what makes a new tensor with the features of all nodes."""

    def __init__(self, nodes):
        super().__init__()
        self.nodes, self.made = nodes, Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        if name in COPIES and result.shape == (self.nodes, FEATURES):
            self.made[name] += result.is_floating_point()
        return result


@pytest.mark.parametrize("step", ["fit", "explain"])
def test_features_are_read_once_and_put_into_a_batch_once(step):
    model, graphs = make_target("gcn"), make_graphs()
    explainer = make_explainer("random")
    with FeatureCopies(sum(graph.num_nodes for graph in graphs)) as copies:
        getattr(explainer, step)(model, graphs, progress=False)
    # All graphs in a row need no picking.
    picked = {"fit": "index_select", "explain": "clone"}[step]
    assert +copies.made == {"cat": 1, picked: 1}


@pytest.mark.parametrize("slug", ["random", "pgexplainer"])
def test_the_model_is_resolved_once(slug, monkeypatch):
    resolved, stores = [], []

    def resolve(*args, **options):
        resolved.append(known := real_resolve(*args, **options))
        return known

    def read(explained, graphs):
        stores.append(graphs)
        return real_read(explained, graphs)

    real_resolve, real_read = base.resolve, ExplainedModel.read
    monkeypatch.setattr(base, "resolve", resolve)
    monkeypatch.setattr(ExplainedModel, "read", read)
    model, graphs = make_target("gcn"), make_graphs()
    explainer = make_explainer(slug)
    for step in (explainer.fit, explainer.explain):
        step(model, graphs, progress=False)
        assert len(resolved) == 1 and stores == [graphs]
        resolved.clear()
        stores.clear()


def test_several_targets_read_the_graphs_once():
    graphs = make_graphs()
    with FeatureCopies(sum(graph.num_nodes for graph in graphs)) as copies:
        make_explainer("random").fit(make_target("gcn"), graphs, target=[0, 1, 2], progress=False)
    assert +copies.made == {"cat": 1, "index_select": 3}


def test_large_graphs_are_searched_on_fewer():
    store = GraphStore.from_graphs(planted_graphs())
    context = Context.build(Finder(), store, batch_size=64, mode="regression")
    generator = torch.Generator().manual_seed(0)
    total = int(store.edge_counts.sum())
    assert context.sample(40, total, generator) is context
    assert len(context.sample(33, total, generator).store) == 33
    some = context.sample(40, int(total * 0.9), generator).store
    assert 33 < len(some) < 40 and int(some.edge_counts.sum()) <= 0.9 * total
    assert len(context.sample(40, 10, generator).store) == 32
