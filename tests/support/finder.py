"""A target that looks for one kind of node, and says so: what explains it is known."""

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import global_add_pool
from torch_geometric.utils import erdos_renyi_graph, to_undirected

from hpme.data import GraphStore
from hpme.explainers.hpme.method.pool import PoolSize
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.shared.context import Context

NODES, PLANTED = 12, 3


class Finder(nn.Module):
    """Predicts the sum of feature 0 over connected pairs of nodes marked by feature 1."""

    def forward(self, x, edge_index, batch=None, edge_weight=None):
        weight = torch.ones(edge_index.shape[1]) if edge_weight is None else edge_weight
        marked = x * x[:, 1:2]
        message = weight.view(-1, 1) * marked[edge_index[0]] * marked[edge_index[1], 1:2]
        h = torch.zeros_like(x).index_add(0, edge_index[1], message)
        return global_add_pool(torch.cat([h, x], dim=1), batch)[:, :1]


def planted_graphs(count=40, seed=0):
    """Random graphs with a marked path of three nodes somewhere."""
    generator = torch.Generator().manual_seed(seed)
    graphs = []
    for _ in range(count):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(10**6, (1,), generator=generator)))
            noise = erdos_renyi_graph(NODES, 0.15)
        where = torch.randperm(NODES, generator=generator)[:PLANTED]
        path = torch.stack([where[:-1], where[1:]])
        x = torch.zeros(NODES, 2)
        x[:, 0] = torch.rand(NODES, generator=generator)
        x[where, 1] = 1
        x[where, 0] += 3 * torch.rand(1, generator=generator)
        graphs.append(Data(x=x, edge_index=to_undirected(torch.cat([noise, path], dim=1))))
    return graphs


def mix_of(model, graphs, k=PLANTED, neighbor="contrast"):
    """Hard mixes of graphs under a regression model."""
    store = GraphStore.from_graphs(graphs)
    context = Context.build(model, store, batch_size=64, mode="regression")
    generator = torch.Generator().manual_seed(0)
    return HardMix.build(context, PoolSize(k=k), neighbor, "swap", generator)


def planted_mix(neighbor="contrast", count=40):
    return mix_of(Finder(), planted_graphs(count), neighbor=neighbor)
