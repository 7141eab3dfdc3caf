"""Copies of all that a model is given, one for every row of its output."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, global_add_pool

from hpme.errors import InputError, ModelError
from hpme.graphs.ego import WholeGraph
from hpme.models import ExplainedModel
from hpme.models.replicas import ROW, CallOnCopies, Copies, given_output

X = torch.linspace(-2, 2, 18).view(6, 3)
EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 4, 5], [1, 0, 2, 1, 3, 2, 5, 4]])
BATCH = torch.tensor([0, 0, 1, 1, 2, 2])
LINKS = torch.tensor([[0, 2], [5, 1]])
WHOLE = WholeGraph.of(Data(x=X, edge_index=EDGES))


class Pooled(nn.Module):
    """Wide embeddings, a readout, a head; links count for the graph of their first end."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = GCNConv(3, 8), nn.Linear(8, 2)

    def forward(self, x, edge_index, batch, edge_label_index=None, scale=1.0, edge_weight=None):
        h = self.conv(x, edge_index, edge_weight).relu()
        if edge_label_index is not None:
            h = h.index_add(0, edge_label_index[0], h[edge_label_index[1]])
        return scale * self.head(global_add_pool(h, batch))


def copies(model, rows, **arguments):
    explained, given = ExplainedModel(model), {"batch": BATCH, **arguments}
    output = given_output(explained, X, EDGES, given)
    return output, *Copies.of(explained, WHOLE, BATCH, given, output, rows)


@pytest.mark.parametrize("arguments", [{}, {"scale": 3.0}, {"edge_label_index": LINKS}])
def test_a_copy_has_the_output_of_its_row(arguments):
    rows = torch.tensor([2, 0, 1, 1])
    output, explained, found = copies(Pooled().eval(), rows, **arguments)
    parts = list(found.parts(torch.arange(4), 3))
    assert [len(ids) for ids, _ in parts] == [3, 1]
    with explained.frozen():
        adapter = explained.adapter()
        seen = [adapter.predict(store.detached(everything=True).batch()) for _, store in parts]
    assert torch.allclose(torch.cat(seen), output[rows], atol=1e-5)


def test_the_readout_is_that_of_the_graphs_inside():
    _, explained, found = copies(Pooled().eval(), torch.arange(3))
    ((_, store),) = found.parts(torch.arange(3), 9)
    with explained.frozen():
        embedding = explained.adapter().embed(store.detached(everything=True).batch())
    assert embedding.source == "input of the readout"
    assert embedding.nodes.shape == (18, 8) and bool((embedding.nodes >= 0).all())


def test_edge_weights_reach_the_model():
    _, explained, found = copies(Pooled().eval(), torch.arange(2))
    ((_, store),) = found.parts(torch.arange(2), 9)
    with explained.frozen():
        assert explained.adapter().probe(store.detached(everything=True).batch()) == "edge_weight"


def test_few_at_a_time_where_the_graph_is_large():
    large = replace(WHOLE, max_edges=30)
    sizes = [len(ids) for ids, _ in Copies(large, torch.arange(5)).parts(torch.arange(5), 100)]
    assert sizes == [2, 2, 1]


def test_what_cannot_be_called_has_no_output():
    assert given_output(ExplainedModel(Pooled()), X, EDGES, {}) is None
    assert given_output(ExplainedModel(Pooled()), X[:, :2], EDGES, {"batch": BATCH}) is None


def test_errors():
    call = CallOnCopies({}, {"": 6}, 3, 3, None, lambda output: output)
    with pytest.raises(InputError, match=r"edge_label_index must have shape \[2, links\]"):
        call._shifted({ROW: torch.zeros(1)}, LINKS.T[:1], ("", ""))
    _, explained, found = copies(Pooled().eval(), torch.arange(2), edge_label_index=LINKS)
    ((_, store),) = found.parts(torch.arange(2), 9)
    batch = store.detached(everything=True).batch()
    kept = torch.ones(12, dtype=torch.bool)
    kept[3] = False
    with explained.frozen(), pytest.raises(ModelError, match="that edge_label_index numbers were"):
        explained.adapter().predict(batch.nodes(kept))
