"""Models that compute in ways of their own: explained rightly, or refused by name."""

import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv, global_add_pool

from contract import CLASSES, FEATURES, SLUGS, make_explainer, make_graphs

slugs = pytest.mark.parametrize("slug", [slug for slug in SLUGS if slug != "att"])


class Counting(nn.Module):
    """A readout that nothing recognises, and a count of nodes that looks like one."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = GCNConv(FEATURES, 4), nn.Linear(4, CLASSES)

    def forward(self, x, edge_index, batch, edge_weight=None):
        h = self.conv(x, edge_index, edge_weight)
        count = global_add_pool(torch.ones_like(h), batch)
        pooled = torch.stack([h[batch == graph].sum(0) for graph in range(len(count))])
        return self.head(pooled / count)


@slugs
def test_a_count_of_nodes_is_no_readout(slug):
    model, graphs = Counting(), make_graphs()
    explainer = make_explainer(slug).fit(model, graphs, progress=False)
    for explanation in explainer.explain(model, graphs, progress=False):
        assert bool(explanation.edge_mask.isfinite().all())
        assert len(explanation.edge_mask.unique()) > 1
