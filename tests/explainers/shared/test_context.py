"""The frozen model on the graphs an explainer is fitted to."""

import torch

from finder import Finder, planted_graphs
from hpme.data import GraphStore
from hpme.explainers.shared.context import Context


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
