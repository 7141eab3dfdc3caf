"""Models as training leaves them: wrapped, compiled, in a dictionary, with arguments fixed."""

import sys
from functools import partial

import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv, Sequential, global_mean_pool

from contract import make_graphs, make_target
from hpme.errors import ModelError
from hpme.explainers import OcclusionExplainer
from hpme.models import ExplainedModel


class Training(nn.Module):
    """As a Lightning module without forward: steps call the network inside."""

    def __init__(self, **inside):
        super().__init__()
        for name, module in inside.items():
            setattr(self, name, module)

    def training_step(self, batch):
        return self.model(batch.x, batch.edge_index, batch.batch).sum()


def masks(model, **facts):
    explained = ExplainedModel(model, **facts)
    found = OcclusionExplainer().explain(explained, make_graphs(), progress=False)
    return torch.cat([one.edge_mask for one in found])


@pytest.fixture(autouse=True)
def on_the_processor(monkeypatch):
    """Other tests register a stand-in for an accelerator, to which this wrapper moves models."""
    module = sys.modules[nn.DataParallel.__module__]  # a function has the module's name
    monkeypatch.setattr(module, "_get_available_device_type", lambda: None)


@pytest.fixture(scope="module")
def model():
    return make_target("gcn", "occlusion")


@pytest.mark.parametrize(
    "wrap",
    [
        nn.DataParallel,
        lambda model: torch.compile(model, backend="eager"),
        lambda model: torch.compile(nn.DataParallel(model), backend="eager"),
        lambda model: Training(model=model),
        lambda model: Training(loss=nn.CrossEntropyLoss(), net=nn.DataParallel(model)),
    ],
)
def test_what_is_wrapped_is_explained(wrap, model):
    wrapped = wrap(model)
    assert ExplainedModel(wrapped).model is model
    assert torch.equal(masks(wrapped), masks(model))


def test_distributed(model, tmp_path):
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        wrapped = nn.parallel.DistributedDataParallel(model)
        assert torch.equal(masks(wrapped), masks(model))
    finally:
        torch.distributed.destroy_process_group()


def test_pygs_sequential():
    width = make_graphs()[0].x.shape[1]
    layers = [
        (GCNConv(width, 4), "x, edge_index -> x"),
        (global_mean_pool, "x, batch -> x"),
        nn.Linear(4, 2),
    ]
    model = Sequential("x, edge_index, batch", layers)
    # PyG writes the forward of the last one to the class.
    Sequential("z", [(nn.Linear(1, 1), "z -> z")])
    assert float(masks(model).std()) > 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            lambda model: {"model": model, "epoch": 3},
            r"holds a module; pass that: given\['model'\]",
        ),
        (
            lambda model: {"state_dict": model.state_dict(), "epoch": 3},
            r"make the module, fill it with module.load_state_dict\(checkpoint\['state_dict'\]\)",
        ),
        (lambda model: model.state_dict(), r"module.load_state_dict\(checkpoint\)"),
        (lambda model: {"epoch": 3}, "a dictionary with 'epoch'; pass a torch.nn.Module"),
        (lambda model: partial(model, scale=2), r"partial of \w+; .*module\(.*, scale=2\)\)"),
        (lambda model: partial(lambda batch, k: batch, k=1), "call=the partial, a function"),
        (lambda model: lambda batch: model(batch), "got function; pass the module that it calls"),
        (
            lambda model: Training(a=model, b=nn.Tanh()),
            r"Training has no forward.*\(model.a, model.b\)",
        ),
        (lambda model: Training(), "has no forward; .*it has none inside"),
        (lambda model: type(model), "expected a torch.nn.Module, got type"),
    ],
)
def test_what_cannot_be_found_is_asked_for(given, message, model):
    with pytest.raises(ModelError, match=message):
        masks(given(model))


def test_a_partial_says_how_a_model_is_called(model):
    def run(module, batch, scale):
        return scale * module(batch.x, batch.edge_index, batch.batch)

    assert torch.allclose(masks(model, call=partial(run, scale=1.0)), masks(model), atol=1e-6)
    bound = partial(run, model, scale=1.0)
    assert torch.allclose(masks(model, call=bound), masks(model), atol=1e-6)


def test_a_call_gets_the_model_as_it_is(model):
    def inside(module, batch):
        return module.encoder(batch.x, batch.edge_index, batch.batch)

    wrapped = Training(encoder=model)
    assert ExplainedModel(wrapped, call=inside).model is wrapped
    assert torch.allclose(masks(wrapped, call=inside), masks(model), atol=1e-6)
