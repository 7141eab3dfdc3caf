"""What every explainer is tested on: one table of explainers, one of target models, the graphs."""

import copy
import random
import runpy
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import networkx as nx
import numpy as np
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import (
    GAT,
    GIN,
    GATConv,
    GCNConv,
    GINEConv,
    GraphSAGE,
    TransformerConv,
    global_add_pool,
    global_mean_pool,
)
from torch_geometric.utils import from_networkx, to_undirected

from hpme.explainers import EXPLAINERS, explainer_class
from hpme.models import build_model

# The explainer the examples teach is held to the same contract.
EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "own_explainer.py"))
EXPLAINERS["similarity"] = EXAMPLE["SimilarityExplainer"]

# Values of arguments that make fitting cheap, for every explainer that has them.
SMALL = {
    "k": 4,
    "epochs": 3,
    "restarts": 2,
    "mask_epochs": 2,
    "mask_graphs": 3,
    "posthoc_options": {"epochs": 2},
    "proxy_steps": 2,
    "steps": 4,
    "rollouts": 2,
    "samples": 2,
    "branches": 3,
    "exact_nodes": 6,
    "power": 2.0,
}
CHEAP = {
    slug: {name: SMALL[name] for name in kind.option_names() if name in SMALL}
    for slug, kind in EXPLAINERS.items()
}
# Those that need a package which is not installed, and why.
LEFT_OUT = (
    {}
    if find_spec("myerson")
    else {"myerson": "Myerson values need a package: pip install 'hpme[myerson]'"}
)
SLUGS = [slug for slug in CHEAP if slug not in LEFT_OUT]
FEATURES, EDGE_FEATURES, CLASSES = 3, 2, 3
CODES = 16  # more than any graph here has nodes


class Pooled(nn.Module):
    """A PyG model behind a readout. ``GIN``, ``GAT`` and ``GraphSAGE`` ignore ``edge_weight``."""

    def __init__(self, gnn, out_channels=CLASSES):
        super().__init__()
        self.gnn = gnn
        self.head = nn.Linear(gnn.out_channels, out_channels)

    def forward(self, x, edge_index, batch, edge_weight=None):
        return self.head(global_add_pool(self.gnn(x, edge_index, edge_weight=edge_weight), batch))


class EdgeFeatureGNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(
            GINEConv(nn.Linear(width, 8), edge_dim=EDGE_FEATURES) for width in (FEATURES, 8)
        )
        self.norm, self.dropout = nn.BatchNorm1d(8), nn.Dropout()
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x, edge_index, batch, edge_attr):
        for conv in self.convs:
            x = self.dropout(self.norm(conv(x, edge_index, edge_attr).relu()))
        return self.head(global_add_pool(x, batch))


class Tables(nn.Module):
    """The sum of embeddings of all columns, as OGB's encoders of atoms and bonds."""

    def __init__(self, columns, channels):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(CODES, channels) for _ in range(columns))

    def forward(self, codes):
        assert codes.dtype == torch.long  # nothing casts what a model is given
        return sum(table(codes[:, column]) for column, table in enumerate(self.tables))


class Coded(nn.Module):
    """Integers for features of nodes and edges; no linear layer sees them."""

    def __init__(self):
        super().__init__()
        self.bonds, self.atoms = Tables(EDGE_FEATURES, 8), Tables(FEATURES, 8)
        self.convs = nn.ModuleList(GINEConv(nn.Linear(8, 8), aggr="mean") for _ in range(2))
        self.norm, self.dropout = nn.BatchNorm1d(8), nn.Dropout()
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x, edge_index, batch, edge_attr):
        h, e = self.atoms(x), self.bonds(edge_attr)
        for conv in self.convs:
            h = self.dropout(self.norm(conv(h, edge_index, e).relu()))
        return self.head(global_add_pool(h, batch))


class Unweighted(nn.Module):
    """No ``edge_weight`` argument; convolutions that add their own self-loops."""

    def __init__(self):
        super().__init__()
        self.first, self.second = GCNConv(FEATURES, 8), GCNConv(8, 8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x, edge_index, batch=None):
        x = self.second(self.first(x, edge_index).relu(), edge_index).relu()
        return self.head(global_add_pool(x, batch))


class Attentive(nn.Module):
    """Attention layers that take an edge weight as an edge feature."""

    def __init__(self, conv=GATConv, edge_dim=1):
        super().__init__()
        self.first = conv(FEATURES, 4, heads=2, edge_dim=edge_dim)
        self.second = conv(8, 8, edge_dim=edge_dim)
        self.out = nn.Linear(16, CLASSES)

    def embed(self, x, edge_index, batch, edge_attr):
        x = self.second(self.first(x, edge_index, edge_attr).relu(), edge_index, edge_attr).relu()
        pools = (global_add_pool, global_mean_pool)
        return self.out(torch.cat([pool(x, batch) for pool in pools], dim=1))

    def forward(self, x, edge_index, batch=None, edge_weight=None):
        weight = x.new_ones(edge_index.shape[1]) if edge_weight is None else edge_weight
        return self.embed(x, edge_index, batch, weight.unsqueeze(1))


class AttentiveToEdgeFeatures(Attentive):
    def __init__(self):
        super().__init__(edge_dim=EDGE_FEATURES)

    def forward(self, x, edge_index, batch, edge_attr):
        return self.embed(x, edge_index, batch, edge_attr)


class CodedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.atoms, self.bonds = Tables(FEATURES, 8), Tables(EDGE_FEATURES, 4)
        self.conv, self.head = GATConv(8, 8, edge_dim=4), nn.Linear(8, CLASSES)

    def forward(self, x, edge_index, batch, edge_attr):
        h = self.conv(self.atoms(x), edge_index, self.bonds(edge_attr)).relu()
        return self.head(global_add_pool(h, batch))


class UnweightedAttention(Attentive):
    def __init__(self):
        super().__init__(edge_dim=None)

    def forward(self, x, edge_index, batch=None):
        return self.embed(x, edge_index, batch, None)


TARGETS = {
    "gcn": lambda: build_model("gcn", FEATURES, CLASSES, hidden_channels=8),
    "gin": lambda: Pooled(GIN(FEATURES, 8, 2, 8)),
    "gat": lambda: Pooled(GAT(FEATURES, 8, 2, 8, heads=2)),
    "sage": lambda: Pooled(GraphSAGE(FEATURES, 8, 2, 8)),
    "gine": EdgeFeatureGNN,
    "unweighted": Unweighted,
    "coded": Coded,
}

EACH = [name for name in TARGETS if name != "gin"]
"""For what costs a fit each: GINE sums like GIN, and GraphSAGE has no edge weights either."""

# What stands in for each target where an explainer reads attention.
ATTENTION_TARGETS = {
    "gcn": Attentive,
    "gin": lambda: Pooled(GAT(FEATURES, 8, 2, 8, v2=True)),
    "gat": TARGETS["gat"],
    "sage": lambda: Attentive(TransformerConv),
    "gine": AttentiveToEdgeFeatures,
    "unweighted": UnweightedAttention,
    "coded": CodedAttention,
}


def make_target(name, slug=None):
    """A target, of a kind that the explainer can explain."""
    targets = ATTENTION_TARGETS if slug == "att" else TARGETS
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(1)
        return targets[name]()


def make_explainer(slug, **options):
    return explainer_class(slug)(**{**CHEAP[slug], **options})


def make_graph(seed, nodes=None, edge_features=False, directed=False, coded=False):
    """A connected random graph with features by which no two nodes look alike."""
    nodes = 6 + seed % 4 if nodes is None else nodes
    edges = from_networkx(nx.barabasi_albert_graph(nodes, 2, seed=seed)).edge_index
    edges = edges[:, edges[0] < edges[1]] if directed else edges
    return featured(edges, nodes, seed, edge_features, coded)


def featured(edge_index, nodes, seed=0, edge_features=False, coded=False):
    """Continuous features of nodes, and of edges if wanted; or codes of both."""
    generator = torch.Generator().manual_seed(seed)
    if coded:
        own = torch.randperm(CODES, generator=generator)[:nodes].unsqueeze(1)
        others = torch.randint(CODES, (nodes, FEATURES - 1), generator=generator)
        bonds = (edge_index.shape[1], EDGE_FEATURES)
        data = Data(
            x=torch.cat([own, others], dim=1),
            edge_index=edge_index,
            edge_attr=torch.randint(CODES, bonds, generator=generator),
            y=torch.tensor([seed % 2]),
        )
        return data
    data = Data(x=torch.randn(nodes, FEATURES, generator=generator), edge_index=edge_index)
    data.y = torch.tensor([seed % 2])  # for explainers that need labels; a class or a value
    if edge_features:
        data.edge_attr = torch.randn(edge_index.shape[1], EDGE_FEATURES, generator=generator)
    return data


def make_graphs(target="gcn", seeds=range(6)):
    return [make_graph(seed, **fields_of(target)) for seed in seeds]


def fields_of(target):
    """What graphs for a target have."""
    return {"edge_features": target == "gine", "coded": target == "coded"}


def _edges(*pairs):
    return torch.tensor(pairs, dtype=torch.long).view(-1, 2).t()


def odd_graphs(edge_features=False, coded=False):
    """Graphs at the edge of what a graph is, by name; all but ``empty`` may be fitted to."""
    ring = to_undirected(_edges((0, 1), (1, 2), (2, 3), (3, 0), (0, 2)))
    loops = torch.arange(4).repeat(2, 1)
    shapes = {
        "empty": (_edges(), 0),
        "one node": (_edges(), 1),
        "one node with a loop": (_edges((0, 0)), 1),
        "no edges": (_edges(), 5),
        "all self-loops": (torch.cat([loops, ring], dim=1), 4),
        "some self-loops": (torch.cat([ring[:, :3], loops[:, 2:], ring[:, 3:]], dim=1), 4),
        "disconnected": (torch.cat([ring, ring + 4], dim=1), 9),
        "smaller than pooled": (to_undirected(_edges((0, 1), (1, 2))), 3),
        "directed": (_edges((0, 1), (2, 1), (2, 3), (3, 0), (4, 0)), 5),
        "repeated edges": (torch.cat([ring, ring[:, :4]], dim=1), 4),
    }
    return {
        name: featured(edge_index, nodes, seed, edge_features, coded)
        for seed, (name, (edge_index, nodes)) in enumerate(shapes.items())
    }


def call(explainer, model, data, **extra):
    """PyG's calling convention for a ``Data`` or a ``Batch``."""
    optional = {key: data[key] for key in ("edge_attr", "batch") if data.get(key) is not None}
    return explainer(model, data.x, data.edge_index, **optional, **extra)


def permuted(data, seed=0):
    """The graph with its nodes renumbered and its edges reordered; where each edge came from."""
    generator = torch.Generator().manual_seed(seed)
    nodes = torch.randperm(data.num_nodes, generator=generator)
    edges = torch.randperm(data.num_edges, generator=generator)
    place = torch.empty_like(nodes)
    place[nodes] = torch.arange(len(nodes))
    other = Data(x=data.x[nodes], edge_index=place[data.edge_index][:, edges])
    if data.get("edge_attr") is not None:
        other.edge_attr = data.edge_attr[edges]
    return other, nodes, edges


def assert_valid(explanation, data):
    mask = explanation.edge_mask
    assert mask.shape == (data.edge_index.shape[1],)
    assert mask.dtype == torch.get_default_dtype()
    assert not mask.requires_grad
    assert bool(((mask >= 0) & (mask <= 1)).all())  # false for NaN
    nodes = explanation.get("node_mask")
    if nodes is not None:
        assert nodes.shape == (data.num_nodes, 1)
        assert bool(((nodes >= 0) & (nodes <= 1)).all())


def snapshot(model):
    """All a trace could be left on: attributes, hooks, parameters, gradients, flags."""
    modules = {}
    for name, module in model.named_modules():
        attributes = dict(module.__dict__)
        tables = {key: attributes.pop(key) for key in list(attributes)
                  if isinstance(attributes[key], dict)}  # fmt: skip
        modules[name] = (
            {key: id(value) for key, value in attributes.items()},
            {key: [(k, id(v)) for k, v in table.items()] for key, table in tables.items()},
            module.training,
        )
    tensors = {
        name: (tensor.detach().clone(), tensor.requires_grad, copy.deepcopy(tensor.grad))
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]
    }
    return modules, tensors


def assert_same(before, after):
    assert before[0] == after[0]
    assert before[1].keys() == after[1].keys()
    for name, (value, flag, grad) in before[1].items():
        other, other_flag, other_grad = after[1][name]
        assert torch.equal(value, other), name
        assert flag == other_flag, name
        assert (grad is None) == (other_grad is None), name
        assert grad is None or torch.equal(grad, other_grad), name


def in_use(model):
    """A model as users have it: partly frozen, partly in training mode, with gradients."""
    parameters = list(model.parameters())
    parameters[0].requires_grad_(False)
    parameters[-1].grad = torch.ones_like(parameters[-1])
    model.train()
    next(model.children()).eval()
    return model


def random_state():
    return torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()


def assert_same_random_state(before):
    torch_state, numpy_state, python_state = random_state()
    assert torch.equal(before[0], torch_state)
    assert np.array_equal(before[1], numpy_state)
    assert before[2] == python_state


@dataclass(frozen=True)
class Fitted:
    explainer: object
    model: nn.Module
    graphs: list
    before: tuple = field(repr=False)
    after: tuple = field(repr=False)

    @property
    def batch(self):
        return Batch.from_data_list(self.graphs)


@cache
def fitted(slug, target="gcn"):
    """An explainer fitted to a target, once per session, and the target before and after."""
    model, graphs = in_use(make_target(target, slug)), make_graphs(target)
    before = snapshot(model)
    explainer = make_explainer(slug).fit(model, graphs, progress=False)
    return Fitted(explainer, model, graphs, before, snapshot(model))
