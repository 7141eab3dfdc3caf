"""A target whose right explanation is known, and the slow way to join two graphs."""

import networkx as nx
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import global_add_pool
from torch_geometric.utils import from_networkx

from contract import make_graphs, make_target


class MarkedEdges(nn.Module):
    """The (weighted) number of edges between two marked nodes; nothing else matters."""

    def __init__(self, unit=1.0):
        super().__init__()
        self.head = nn.Linear(3, 1, bias=False)
        with torch.no_grad():
            self.head.weight.copy_(torch.tensor([[0.0, 0.0, unit]]))

    def forward(self, x, edge_index, batch, edge_weight=None):
        weight = x.new_ones(edge_index.shape[1]) if edge_weight is None else edge_weight
        marked = x[edge_index[0], 0] * x[edge_index[1], 0]
        count = torch.zeros_like(x[:, 0]).index_add(0, edge_index[1], weight * marked)
        return self.head(global_add_pool(torch.cat([x, count.unsqueeze(1)], dim=1), batch))


class MarkedClasses(MarkedEdges):
    """Whether there are less or more than 6 of these edges, as logits."""

    def forward(self, x, edge_index, batch, edge_weight=None):
        more = super().forward(x, edge_index, batch, edge_weight) - 6
        return torch.cat([-more, more], dim=1)


# Targets by the mode they need to be told.
MARKED = {"regression": MarkedEdges, None: MarkedClasses}


def marked_graph(seed, nodes=12):
    edge_index = from_networkx(nx.barabasi_albert_graph(nodes, 2, seed=seed)).edge_index
    marked = (torch.rand(nodes, generator=torch.Generator().manual_seed(seed)) < 0.5).float()
    truth = (marked[edge_index[0]] * marked[edge_index[1]]).bool()
    return Data(x=torch.stack([marked, 1 - marked], dim=1), edge_index=edge_index, edge_mask=truth)


def marked_graphs(count=24):
    return [marked_graph(seed, 10 + seed % 4) for seed in range(count)]


def weighted_output(model, parts):
    """Output on the disjoint union of ``(graph, edge weights)``, by concatenation."""
    x, edges, weights, offset = [], [], [], 0
    for graph, weight in parts:
        x.append(graph.x)
        edges.append(graph.edge_index + offset)
        weights.append(weight)
        offset += graph.num_nodes
    return model(
        torch.cat(x),
        torch.cat(edges, dim=1),
        torch.zeros(offset, dtype=torch.long),
        edge_weight=torch.cat(weights),
    )


def regression_target():
    """The contract's GCN with one output instead of classes."""
    model = make_target("gcn").eval()
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(2)
        model.out = nn.Linear(16, 1)
    return model


def decided_target():
    """The contract's GCN with probabilities that features change: outputs centred and spread."""
    model, batch = make_target("gcn").eval(), Batch.from_data_list(make_graphs())
    with torch.no_grad():
        model.out.weight *= 300
        model.out.bias.zero_()
        model.out.bias -= model(batch.x, batch.edge_index, batch.batch).mean(0)
    return model
