"""Batches of replicas with edges deleted: nodes, anchors, and cuts into forward passes."""

import pytest
import torch
from torch import nn

from hpme.data import GraphStore
from hpme.errors import ModelError
from hpme.graphs import transforms
from hpme.graphs.transforms import keep_edges
from hpme.metrics import deletion, robust_fidelity, simoar
from slow_metrics import both_ways, edges, explained, make_model, random_explanation


def test_isolated_nodes_go_with_their_loops_and_the_rest_is_renumbered():
    graph = explained(torch.cat([both_ways((0, 1), (1, 2)), edges((0, 0), (2, 2))], dim=1), 4)
    graph.edge_attr = torch.arange(6.0).view(6, 1)
    graph.edge_weight = torch.arange(6.0)
    batch = GraphStore.from_graphs([graph, graph]).batch()
    kept = torch.tensor([True, False, True, False, True, True, *[True] * 6])
    part = keep_edges(batch, kept, drop_isolated=True)
    assert part.edge_index.t().tolist() == [
        [0, 1], [1, 0], [0, 0],
        [2, 3], [3, 4], [3, 2], [4, 3], [2, 2], [4, 4],
    ]  # fmt: skip
    assert part.batch.tolist() == [0, 0, 1, 1, 1]
    assert torch.equal(part.x, torch.cat([graph.x[:2], graph.x[:3]]))
    assert part.edge_weight.tolist() == [0, 2, 4, 0, 1, 2, 3, 4, 5]
    assert torch.equal(part.edge_attr.view(-1), part.edge_weight)
    assert part.node_ids.tolist() == [0, 1, 4, 5, 6]


def test_nodes_stay_if_none_would_be_left_and_anchors_always_do():
    graph = explained(both_ways((0, 1), (2, 3)), 5, anchors=torch.tensor([4]))
    bare = explained(both_ways((0, 1)), 2)
    nothing = keep_edges(
        GraphStore.from_graphs([bare]).batch(), torch.zeros(2).bool(), drop_isolated=True
    )
    assert nothing.num_nodes == 2
    batch = GraphStore.from_graphs([graph, graph]).batch()
    kept = torch.tensor([False, True, False, True, *[True] * 4])
    part = keep_edges(batch, kept, drop_isolated=True)
    assert part.batch.tolist() == [0, 0, 0, 1, 1, 1, 1, 1]
    assert part.anchors.tolist() == [[2], [7]]


@pytest.mark.parametrize("limit", [1, 37, 400])
def test_cuts_into_forward_passes_change_nothing(limit, monkeypatch):
    model, _ = make_model("classes")
    explanations = [random_explanation(seed) for seed in range(4)]

    def values():
        fidelity = robust_fidelity(model, explanations, 3, samples=5)
        score = simoar(model, explanations, 3, ratio=0.4, samples=5)
        parts = (fidelity.plus, fidelity.minus, score)
        return torch.stack([scores.per_graph for scores in parts])

    whole = values()
    calls = []
    forward = deletion.ModelAdapter.predict
    monkeypatch.setattr(
        deletion.ModelAdapter,
        "predict",
        lambda self, graphs: calls.append(graphs.num_graphs) or forward(self, graphs),
    )
    monkeypatch.setattr(transforms, "MAX_ELEMENTS", limit)
    torch.testing.assert_close(values(), whole, atol=1e-6, rtol=0)
    assert len(calls) > 3
    # An output on the originals for each of the two metrics, and three sets of samples.
    assert sum(calls) == 2 * 4 + 3 * 4 * 5


def test_a_model_that_does_not_pool_is_refused():
    class Nodes(nn.Module):
        def forward(self, x, edge_index, batch):
            return x

    with pytest.raises(ModelError, match="shape"):
        simoar(Nodes(), [random_explanation(0)], 3)
