"""Features that speak of neighbours are computed again where graphs are mixed."""

import pytest
import torch
from torch import nn
from torch_geometric.nn import global_add_pool
from torch_geometric.utils import degree

from contract import make_graph
from hpme.errors import InputError
from hpme.explainers import HPMEExplainer
from hpme.models import ExplainedModel

WRONG = []  # not part of the model, which is left as it was


class Watching(nn.Module):
    """Reads degrees, and notes where they are not those of the graph."""

    def forward(self, x, edge_index, batch):
        WRONG.append(int((degree(edge_index[0], len(x)) != x[:, -1]).sum()))
        h = x + 0 * global_add_pool(x[edge_index[0]], batch[edge_index[1]])[batch]
        return global_add_pool(h, batch)[:, -1:]


def with_degrees(batch):
    found = degree(batch.edge_index[0], len(batch.x)).unsqueeze(1)
    return {"x": torch.cat([batch.x[:, :-1], found], dim=1)}


def fitted(derived):
    graphs = [make_graph(seed, nodes=8 + seed) for seed in range(12)]
    for graph in graphs:
        graph.x = with_degrees(graph)["x"]
    explained = ExplainedModel(Watching(), mode="regression", derived=derived)
    explainer = HPMEExplainer(k=3, restarts=1).fit(explained, graphs, progress=False)
    WRONG.clear()
    return explainer.quality(explained, graphs[:2])


def test_degrees_of_mixes_are_those_of_the_mix():
    fitted(None)
    assert sum(WRONG)
    assert len(fitted(with_degrees)) == 2 and not sum(WRONG)


@pytest.mark.parametrize(
    ("derived", "words"),
    [
        (lambda batch: batch.x, "a dictionary of node tensors, some of x"),
        (lambda batch: {"degree": batch.x}, "some of x"),
        (lambda batch: {"x": batch.x[:, 1:]}, "'x' in its form"),
        (lambda batch: {"x": batch.x.double()}, "of torch.float32"),
    ],
)
def test_what_does_not_fit_is_refused(derived, words):
    with pytest.raises(InputError, match=words):
        fitted(derived)
