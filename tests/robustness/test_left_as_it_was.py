"""The user's model and the global state after an explanation: as before, to the last bit."""

import copy
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.data import Batch
from torch_geometric.nn import APPNP, GCN2Conv, GCNConv, SGConv, global_add_pool

from contract import (
    assert_same_random_state,
    call,
    make_explainer,
    make_graphs,
    make_target,
    random_state,
)
from hpme.errors import ModelError


class Cached(nn.Module):
    """Layers that keep what they computed from the first graph they saw."""

    def __init__(self):
        super().__init__()
        self.first, self.second = GCNConv(3, 8, cached=True), SGConv(8, 8, K=2)
        self.third, self.last = APPNP(2, 0.1, cached=True), GCN2Conv(8, 0.5, cached=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x, edge_index, batch, edge_weight=None):
        x = start = self.first(x, edge_index, edge_weight).relu()
        x = self.third(self.second(x, edge_index, edge_weight), edge_index, edge_weight)
        x = self.last(x, start, edge_index, edge_weight).relu()
        return self.head(global_add_pool(x, batch))


def uncached(model):
    model = copy.deepcopy(model)
    for module in model.modules():
        if hasattr(module, "cached"):
            module.cached = False
    return model


def masks(slug, model, graphs):
    explainer = make_explainer(slug).fit(model, graphs, progress=False)
    found = explainer.explain(model, graphs, progress=False)
    call(explainer, model, Batch.from_data_list(graphs))
    return torch.cat([explanation.edge_mask for explanation in found])


CACHING = ["hpme", "random", "grad", "gnnexplainer", "pgexplainer", "metagnn", "matchexplainer"]


@pytest.mark.parametrize("slug", CACHING)
@pytest.mark.parametrize("used", [False, True])
def test_caches_are_emptied_for_us_and_restored_exactly(slug, used):
    torch.manual_seed(0)
    model, graphs, own = Cached(), make_graphs(), make_graphs()[0]
    expected = masks(slug, uncached(model), graphs)
    batch = torch.zeros(own.num_nodes, dtype=torch.long)
    if used:  # the caches now hold the user's graph
        before = model(own.x, own.edge_index, batch)
    kept = {name: dict(vars(module)) for name, module in model.named_modules()}
    assert torch.equal(masks(slug, model, graphs), expected)
    for name, module in model.named_modules():
        assert vars(module).keys() == kept[name].keys()
        assert all(vars(module)[key] is value for key, value in kept[name].items()), name
    if used:
        assert torch.equal(model(own.x, own.edge_index, batch), before)
    other = make_graphs()[1]
    if not used:  # nothing of ours is left: the first graph is the user's
        zeros = torch.zeros(other.num_nodes, dtype=torch.long)
        model(other.x, other.edge_index, zeros)
        assert model.first._cached_edge_index is not None


class Writing(nn.Module):
    """A forward that leaves traces wherever a module can."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("variance", torch.ones(3))
        self.last, self.seen, self.memory, self.count = None, [], {}, 0

    def forward(self, x, edge_index, batch, edge_weight=None):
        self.calls += 1
        self.count += 1
        F.batch_norm(x.detach(), self.mean, self.variance, training=True)
        output = self.model(x, edge_index, batch=batch, edge_weight=edge_weight)
        self.last = output
        self.seen.append(output)
        self.memory["last"] = output
        self.variance = self.variance + 1
        torch.rand(3), np.random.rand(3), random.random()
        return output


@pytest.mark.parametrize("slug", ["hpme", "grad", "gnnexplainer", "metagnn", "mixupexplainer"])
def test_what_a_forward_writes_is_put_back(slug):
    model, graphs = Writing(make_target("gcn", slug)), make_graphs()
    buffers = dict(model.named_buffers())
    before = {name: (value.clone(), value._version) for name, value in buffers.items()}
    state = random_state()
    masks(slug, model, graphs)
    assert_same_random_state(state)
    for name, value in model.named_buffers():
        assert value is buffers[name], name
        assert torch.equal(value, before[name][0]) and value._version == before[name][1], name
    assert (model.last, model.seen, model.memory, model.count) == (None, [], {}, 0)


def test_put_back_after_a_failure():
    class Failing(Writing):
        def forward(self, *args, **kwargs):
            super().forward(*args, **kwargs)
            raise ValueError("broken")

    model, state = Failing(make_target("gcn")), random_state()
    with pytest.raises(ModelError, match="broken"):
        make_explainer("hpme").fit(model, make_graphs(), progress=False)
    assert float(model.calls) == 0 and model.seen == [] and model.last is None
    assert_same_random_state(state)


@pytest.mark.parametrize("slug", ["hpme", "grad", "gnnexplainer", "metagnn", "pgexplainer", "att"])
def test_inference_tensors_as_weights(slug):
    with torch.inference_mode():
        model = make_target("gcn", slug)
        graphs = [graph.apply(lambda value: value.clone()) for graph in make_graphs()]
    assert all(weight.is_inference() for weight in model.parameters())
    assert graphs[0].x.is_inference()
    before = dict(model.named_parameters())
    values = {name: weight.clone() for name, weight in before.items()}
    expected = masks(slug, make_target("gcn", slug), make_graphs())
    assert torch.equal(masks(slug, model, graphs), expected)
    for name, weight in model.named_parameters():
        assert weight is before[name] and torch.equal(weight, values[name])
        assert weight.requires_grad == before[name].requires_grad and weight.grad is None


def test_shared_weights_stay_shared():
    model = make_target("gcn")
    model.twin = model.out
    with torch.inference_mode():
        for name, weight in list(model.out.named_parameters()):
            setattr(model.out, name, nn.Parameter(weight.clone()))
    masks("hpme", model, make_graphs())
    assert model.twin is model.out and model.twin.weight is model.out.weight
