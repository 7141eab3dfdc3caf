"""The stand-in accelerator itself: it computes what the CPU does, and refuses what CUDA refuses."""

import copy

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch
from torch_geometric.nn import BatchNorm, GATConv, GCNConv, GINConv, GINEConv, global_add_pool

from contract import make_graphs
from stand_in import DEVICE, Accelerated, DeviceMixError, StandIn


@pytest.fixture(autouse=True)
def mode():
    with StandIn() as mode:
        yield mode


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.gcn, self.gin = GCNConv(3, 8), GINConv(nn.Sequential(nn.Linear(8, 8), nn.ReLU()))
        self.gat, self.gine = GATConv(8, 4, heads=2), GINEConv(nn.Linear(8, 8), edge_dim=2)
        self.norm, self.head = BatchNorm(8), nn.Linear(8, 3)

    def forward(self, x, edge_index, batch, edge_attr):
        x = self.norm(self.gin(self.gcn(x, edge_index).relu(), edge_index))
        x = self.gine(self.gat(x, edge_index).relu(), edge_index, edge_attr).relu()
        return self.head(global_add_pool(x, batch))


def trained(model, graphs):
    batch, optimiser = Batch.from_data_list(graphs), torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(2):
        optimiser.zero_grad()
        output = model(batch.x, batch.edge_index, batch.batch, batch.edge_attr)
        output.square().mean().backward()
        optimiser.step()
    return model


def test_trains_pyg_layers_to_the_same_weights(mode):
    graphs, model = make_graphs("gine"), Layers()
    there = trained(copy.deepcopy(model).to("accel"), [g.clone().to("accel") for g in graphs])
    assert mode.operators > 100
    for name, value in trained(model, graphs).state_dict().items():
        assert there.state_dict()[name].device == DEVICE
        assert torch.equal(there.state_dict()[name].cpu(), value), name


def test_modules_move_there_and_back():
    model = nn.Linear(2, 2)
    weight = model.weight.detach().clone()
    model.to("accel")
    assert isinstance(model.weight, nn.Parameter) and isinstance(model.weight, Accelerated)
    assert copy.deepcopy(model).weight.device == DEVICE
    model.cpu()
    assert type(model.weight) is nn.Parameter and torch.equal(model.weight, weight)


def test_gradients_cross_devices_and_views_are_written_in_place():
    x = torch.ones(3, requires_grad=True)
    y = x.to("accel") * 2
    y[0] *= 3
    y[1:].mul_(5)
    y.sum().backward()
    assert x.grad.tolist() == [6, 10, 10]
    table = torch.zeros(2, 2, device="accel")
    table[:, 0] += 1
    table.view(-1)[3] = 7
    assert table.tolist() == [[1, 0], [1, 7]]


def test_indices_sorting_and_counting():
    keys = torch.tensor([3, 1, 2, 3], device="accel")
    values, inverse = torch.unique(keys, return_inverse=True)
    assert values.device == inverse.device == keys.sort().values.device == DEVICE
    assert torch.bincount(keys).tolist() == [0, 1, 1, 2]
    assert keys[keys > 1].tolist() == keys[torch.tensor([0, 2, 3])].tolist() == [3, 2, 3]
    assert torch.zeros(4, device="accel").scatter_add(0, keys, keys.float()).tolist() == [
        0,
        1,
        2,
        6,
    ]
    assert int(keys.sum()) == 9 and keys.dtype == torch.long


REFUSED = {
    "sum of two devices": lambda t: t + torch.ones(3),
    "concatenation": lambda t: torch.cat([t, torch.ones(3)]),
    "stack with a number": lambda t: torch.stack([t[0], torch.tensor(1.0)]),
    "choice": lambda t: torch.where(t > 0, t, torch.ones(3)),
    "index_select by CPU numbers": lambda t: t.index_select(0, torch.tensor([1])),
    "scatter by CPU numbers": lambda t: t.scatter_add(0, torch.tensor([1]), t[:1]),
    "CPU values into the device": lambda t: t.index_put_((torch.tensor([1]),), torch.ones(1)),
    "device numbers into a CPU tensor": lambda t: torch.ones(3)[t.long()],
    "CPU generator": lambda t: torch.rand(3, device="accel", generator=torch.Generator()),
    "CPU generator in place": lambda t: t.uniform_(generator=torch.Generator()),
    "numpy": lambda t: t.numpy(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name):
    with pytest.raises((DeviceMixError, TypeError), match="device"):
        REFUSED[name](torch.ones(3, device="accel"))


def test_allows_numbers_of_the_cpu():
    assert (torch.ones(2, device="accel") * torch.tensor(3.0)).tolist() == [3, 3]
