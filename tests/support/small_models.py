"""Small models and graphs for tests of how any model is called."""

from dataclasses import replace

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import (
    GCNConv,
    global_add_pool,
    global_max_pool,
    global_mean_pool,
)
from torch_geometric.utils import to_undirected

from hpme.data import GraphStore


def random_graph(nodes, edges, loops=()):
    index = to_undirected(torch.randint(nodes, (2, edges)))
    index = index[:, index[0] != index[1]]
    index = torch.cat([index, torch.tensor([loops, loops], dtype=torch.long)], dim=1)
    index = index[:, torch.randperm(index.shape[1])]  # loops in between
    return Data(x=torch.randn(nodes, 3), edge_index=index)


def as_batch(*graphs):
    return GraphStore.from_graphs(graphs).batch()


def without(graphs, deleted):
    return replace(graphs, edge_index=graphs.edge_index[:, ~deleted])


class Net(nn.Module):
    """Two layers, a readout, a two-layer head."""

    def __init__(self, conv=GCNConv, readout=global_mean_pool, width=5, **options):
        super().__init__()
        self.first, self.second = conv(3, width, **options), conv(width, width, **options)
        self.readout = readout
        self.hidden, self.out = nn.LazyLinear(4), nn.Linear(4, 2)
        with torch.no_grad():
            self(torch.randn(3, 3), torch.tensor([[0, 1], [1, 2]]), torch.tensor([0, 0, 1]))

    def embed(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index).relu()

    def forward(self, x, edge_index, batch):
        return self.out(self.hidden(self.readout(self.embed(x, edge_index), batch)).relu())


class Wrapped(nn.Module):
    def __init__(self, gnn):
        super().__init__()
        self.gnn = gnn

    def forward(self, x, edge_index, batch, edge_weight=None):
        return global_add_pool(self.gnn(x, edge_index, edge_weight=edge_weight), batch)


def traces(model):
    return [
        (dict(m.__dict__), dict(m._parameters), m.training, len(m._forward_hooks))
        for m in model.modules()
    ]


def max_and_mean(h, batch):
    return torch.cat([global_max_pool(h, batch), global_mean_pool(h, batch)], dim=1)
