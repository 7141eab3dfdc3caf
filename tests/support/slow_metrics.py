"""Small models and graphs, and metrics the slow way: pair by pair, graph by graph, sample by sample."""  # noqa: E501

import networkx as nx
import torch
from torch import nn
from torch_geometric.explain import Explanation
from torch_geometric.nn import GATConv, GCNConv, global_add_pool, global_mean_pool
from torch_geometric.utils import from_networkx

from hpme.models.output import Task

FEATURES = 3


class Convolutional(nn.Module):
    """Degree normalisation and a mean over nodes: deleting is not masking, and isolated nodes count."""  # noqa: E501

    def __init__(self, outputs, conv=GCNConv):
        super().__init__()
        self.first, self.second = conv(FEATURES, 8), conv(8, 8)
        self.head = nn.Linear(8, outputs)

    def nodes(self, x, edge_index):
        x = (5 * self.first(x, edge_index)).sin()
        return (5 * self.second(x, edge_index)).sin()

    def forward(self, x, edge_index, batch):
        return 5 * self.head(global_mean_pool(self.nodes(x, edge_index), batch))


class EdgeCount(nn.Module):
    """Half the number of edges, weighted; nothing else. Classes: logits 0 and the count."""

    def __init__(self, outputs=1):
        super().__init__()
        self.head = nn.Linear(1, outputs, bias=False)
        with torch.no_grad():
            self.head.weight.copy_(torch.arange(2.0 - outputs, 2.0).view(-1, 1))

    def forward(self, x, edge_index, batch, edge_weight=None):
        weight = x.new_ones(edge_index.shape[1]) if edge_weight is None else edge_weight
        degree = x.new_zeros(len(x)).index_add(0, edge_index[0], weight)
        return self.head(global_add_pool(degree.unsqueeze(1) / 2, batch))


# Models by name, and the mode they need to be told.
MODELS = {
    "classes": (lambda: Convolutional(3), None),
    "binary": (lambda: Convolutional(1, GATConv), "binary_classification"),
    "values": (lambda: Convolutional(1), "regression"),
    "several values": (lambda: Convolutional(2), "regression"),
}


def make_model(name):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(3)
        return MODELS[name][0](), MODELS[name][1]


def explained(edge_index, nodes, seed=0, **more):
    """A graph with random features and distinct random scores, as an explainer returns it."""
    generator = torch.Generator().manual_seed(seed)
    return Explanation(
        x=torch.randn(nodes, FEATURES, generator=generator),
        edge_index=edge_index,
        edge_mask=torch.rand(edge_index.shape[1], generator=generator),
        **more,
    )


def random_explanation(seed, nodes=None):
    nodes = 6 + seed % 4 if nodes is None else nodes
    edges = from_networkx(nx.barabasi_albert_graph(nodes, 2, seed=seed)).edge_index
    return explained(edges, nodes, seed)


def edges(*pairs):
    return torch.tensor(pairs, dtype=torch.long).view(-1, 2).t()


def both_ways(*pairs):
    return edges(*pairs, *((j, i) for i, j in pairs))


def odd_explanations():
    """Graphs at the edge of what a graph is that still have something to delete."""
    ring = both_ways((0, 1), (1, 2), (2, 3), (3, 0), (0, 2))
    loops = torch.arange(4).repeat(2, 1)
    return {
        "one pair": explained(both_ways((0, 1)), 2, 1),
        "directed": explained(edges((0, 1), (2, 1), (2, 3), (3, 0), (4, 0)), 5, 2),
        "one way and both": explained(edges((0, 1), (1, 0), (2, 1), (2, 3)), 4, 3),
        "all self-loops": explained(torch.cat([loops, ring], dim=1), 4, 4),
        "some self-loops": explained(torch.cat([ring[:, :3], loops[:, 2:], ring[:, 3:]], 1), 4, 5),
        "isolated nodes": explained(ring, 7, 6),
        "disconnected": explained(torch.cat([ring, ring + 4], dim=1), 8, 7),
        "repeated edges": explained(torch.cat([ring, ring[:, :4]], dim=1), 4, 8),
    }


def bare_explanations():
    """Graphs without anything to delete."""
    return {
        "no nodes": explained(edges(), 0),
        "one node": explained(edges(), 1),
        "no edges": explained(edges(), 4),
        "a loop": explained(edges((0, 0)), 1),
    }


def all_explanations():
    return [random_explanation(seed) for seed in range(5)] + list(odd_explanations().values())


def pair_scores(explanation):
    """Mean score of every pair of different nodes, by its node numbers, in their order."""
    found = {}
    columns = zip(explanation.edge_index.t().tolist(), explanation.edge_mask.tolist(), strict=True)
    for (i, j), score in columns:
        if i != j:
            found.setdefault((min(i, j), max(i, j)), []).append(score)
    return {pair: sum(found[pair]) / len(found[pair]) for pair in sorted(found)}


def best_pairs(explanation, count):
    scores = pair_scores(explanation)
    return set(sorted(scores, key=scores.get, reverse=True)[:count])


@torch.no_grad()
def output_on(model, explanation, kept, drop_isolated=False):
    """Output for the graph that has the kept pairs and its self-loops."""
    stay = [
        (i, j)
        for i, j in explanation.edge_index.t().tolist()
        if i == j or (min(i, j), max(i, j)) in kept
    ]
    nodes = list(range(explanation.num_nodes))
    if drop_isolated:
        connected = {node for i, j in stay if i != j for node in (i, j)}
        nodes = [node for node in nodes if node in connected] or nodes
    place = {node: number for number, node in enumerate(nodes)}
    stay = [(place[i], place[j]) for i, j in stay if i in place]
    return model.eval()(
        explanation.x[nodes], edges(*stay), batch=torch.zeros(len(nodes), dtype=torch.long)
    )


def slow_judge(model, explanations, mode, labels=None):
    """Functions ``lost(number, output)`` and ``kept(number, output)``, in units of the spread."""
    whole = torch.cat([output_on(model, e, set(pair_scores(e))) for e in explanations])
    if mode == "regression":
        unit = float(whole.std())

        def distance(number, output):
            return float((whole[number] - output[0]).abs().mean()) / unit

        return distance, lambda number, output: float(
            torch.exp(torch.tensor(-distance(number, output)))
        )
    task = Task(mode or "multiclass_classification")
    before = task.values(whole)
    label = before.argmax(1) if labels is None else labels

    def kept(number, output):
        return float(task.values(output)[0, label[number]])

    return lambda number, output: float(before[number, label[number]]) - kept(number, output), kept
