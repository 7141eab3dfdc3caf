"""Whether regions and nodes raise or lower the output."""

import math

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import global_add_pool

import hetero
from hpme.errors import InputError
from hpme.explainers import HPMEExplainer

CHEAP = {"k": 2, "restarts": 1}


class Sum(nn.Module):
    """The sum of the first feature; the second, a mark, is not read."""

    def forward(self, x, edge_index, batch):
        h = x + 0 * global_add_pool(x[edge_index[0]], batch[edge_index[1]])[batch]
        return global_add_pool(h, batch)[:, :1]


def ring(values):
    nodes = len(values)
    index = torch.stack([torch.arange(nodes), (torch.arange(nodes) + 1) % nodes])
    x = torch.stack([torch.tensor(values), torch.ones(nodes)], dim=1)
    return Data(x=x, edge_index=torch.cat([index, index.flip(0)], dim=1))


@pytest.fixture(scope="module")
def fitted():
    generator = torch.Generator().manual_seed(0)
    graphs = []
    for number in range(24):
        values = (0.1 * torch.randn(6 + number % 4, generator=generator)).tolist()
        values[1] = 5.0 if number % 2 else -5.0
        graphs.append(ring(values))
    explainer = HPMEExplainer(**CHEAP)
    return explainer.fit(Sum(), graphs, mode="regression", progress=False), graphs


def test_signs_of_regions_and_nodes(fitted):
    explainer, graphs = fitted
    graphs = graphs[:8]
    explanations = explainer.explain(Sum(), graphs, progress=False)
    effects = explainer.effects(Sum(), explanations, draws=30)
    assert explanations[3].effect is effects[3]
    for number, (graph, effect) in enumerate(zip(graphs, effects, strict=True)):
        raised = number % 2
        assert effect.nodes.shape == (graph.num_nodes, 3)
        assert int(effect.nodes[:, 0].abs().argmax()) == 1
        assert (float(effect.nodes[1, 0]) > 0) == raised
        assert effect.low <= effect.mean <= effect.high
        assert bool((effect.nodes[:, 1] <= effect.nodes[:, 2]).all())
    assert {effect.sign for effect in effects[1::2]} == {1}
    assert {effect.sign for effect in effects[::2]} == {-1}
    assert str(effects[1]).startswith("raises the output: +")


def test_an_effect_is_the_change_of_the_output(fitted):
    """One node of a sum gives way to one of a host: the change is the difference of both."""
    explainer, graphs = fitted
    nodes = explainer.effects(Sum(), graphs[:2], draws=100)[1].nodes
    hosts = explainer.hosts
    host_mean = hosts.x[:, 0].mean()  # nodes of hosts are drawn in turns
    assert torch.allclose(nodes[:, 0], graphs[1].x[:, 0] - host_mean, atol=0.6)


def test_one_host_has_no_interval(fitted):
    explainer, graphs = fitted
    effect = explainer.effects(Sum(), graphs[:1], draws=1)[0]
    assert (effect.low, effect.high, effect.sign) == (-math.inf, math.inf, 0)
    with pytest.raises(InputError, match="draws must be at least 1"):
        explainer.effects(Sum(), graphs, draws=0)


def test_a_node_gives_way_to_one_of_its_type():
    graphs, seen = hetero.make_graphs(8), []

    class Watched(hetero.Convs):
        def forward(self, x_dict, edge_index_dict, batch_dict, edge_weight_dict=None,
                    batch_size=None):  # fmt: skip
            counts = [torch.bincount(batch_dict[k], minlength=batch_size) for k in hetero.WIDTHS]
            seen.append(torch.stack(counts, dim=1))
            return super().forward(x_dict, edge_index_dict, batch_dict, edge_weight_dict,
                                   batch_size)  # fmt: skip

    model = Watched().eval()
    explainer = HPMEExplainer(**CHEAP).fit(model, graphs, progress=False)
    explanations = explainer.explain(model, graphs, progress=False)
    seen.clear()
    explainer.effects(model, explanations, draws=2, nodes=False)
    regions = len(seen)
    seen.clear()
    effects = explainer.effects(model, explanations, draws=2)
    assert all(bool(effect.nodes.isfinite().all()) for effect in effects)
    single = [tuple(row) for table in seen[regions:] for row in table.tolist()]
    sizes = {tuple(len(graph[kind].x) for kind in hetero.WIDTHS) for graph in graphs}
    assert len(single) >= sum(map(sum, sizes)) and set(single) <= sizes
