"""Small models and graphs for pages, and what a page holds."""

import base64
import json
import re
from dataclasses import replace

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.explain import Explanation

from hpme.explainers.hpme.proof import Planted, Proof
from hpme.explainers.hpme.quality import Quality

ARRAYS = {"u8": "<u1", "u16": "<u2", "u32": "<u4", "f32": "<f4"}


class Counter(torch.nn.Module):
    """Logits that depend on every edge; called with plain tensors, as users' models are."""

    def __init__(self, outputs=2):
        super().__init__()
        self.head = torch.nn.Linear(3, outputs)
        with torch.no_grad():
            self.head.weight.copy_(torch.linspace(-1, 1, 3 * outputs).view(outputs, 3))
            self.head.bias.copy_(torch.linspace(0.5, -0.5, outputs))

    def forward(self, x, edge_index, batch, edge_weight=None):
        message = x[edge_index[0]] * (1 + x[edge_index[1]])
        if edge_weight is not None:
            message = message * edge_weight.view(-1, 1)
        nodes = torch.zeros_like(x).index_add(0, edge_index[1], message) + 0.1 * x
        pooled = torch.zeros(int(batch.max()) + 1, 3).index_add(0, batch, nodes)
        return self.head(0.3 * pooled)


def cycle(size=5, chords=0, *, seed=0, **attributes):
    """An undirected cycle with some chords from its first node."""
    generator = torch.Generator().manual_seed(seed)
    pairs = [(i, (i + 1) % size) for i in range(size)] + [(0, 2 + i) for i in range(chords)]
    source, target = torch.tensor(pairs).t()
    edge_index = torch.stack([torch.cat([source, target]), torch.cat([target, source])])
    x = torch.rand(size, 3, generator=generator)
    return Data(x=x, edge_index=edge_index, **attributes)


def with_truth(graph):
    """The graph with its first two nodes and the edges between them as ground truth."""
    graph.node_mask = torch.arange(graph.num_nodes) < 2
    graph.edge_mask = graph.node_mask[graph.edge_index].all(0)
    return graph


def explain(graph, seed=0, **attributes):
    """Random scores, the two directions of an edge different."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(graph.num_edges, generator=generator)
    return Explanation(edge_index=graph.edge_index, edge_mask=scores, **attributes)


def quality(verdict="carried", *, up=True, trials=2, nodes=2, **changes):
    """What moving two nodes of a cycle into others did, as an explainer says it."""
    sign = 1 if up else -1
    effect = (0.8 * sign, 0.7 * sign, 0.9 * sign)
    effect = (effect[0], *sorted(effect[1:]))
    every = torch.arange(6)
    host = Planted(cycle(6), every > 3, every, 0.5 - 0.4 * sign)
    origin = torch.tensor([0, 1, 2, 3, -1, -1])
    chosen, random = (
        Planted(cycle(6, 1), origin < 0, origin, 0.5 + sign * change) for change in (0.4, -0.3)
    )
    outputs = [torch.full((4,), 0.5 + sign * change) for change in (-0.4, 0.4, -0.3)]
    shown = ((host, chosen, random),) * trials
    region = torch.arange(5) < nodes
    proof = Proof(region, 0.5 + 0.45 * sign, "p(<b>class</b>)", *outputs, shown, True)
    found = Quality(
        verdict, 0.9, 0.8, 1.0, 0.001, 0.5, 0.4, 0.6, *effect, 0.1 * sign, -0.4 * sign, -0.5, -0.3,
        0.7, size=nodes, way=0.85 * sign, proof=proof,
    )  # fmt: skip
    return replace(found, **changes)


def page_data(path):
    """What the page's script reads."""
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script id="data"[^>]*>(.*?)</script>', text, re.S)[1])


def decode(column):
    """Numbers of a column, as the page's script decodes them."""
    values = np.frombuffer(base64.b64decode(column["data"]), ARRAYS[column["type"]])
    if "low" not in column:
        return values
    share = values.astype(float) / 65534
    shown = column["low"] + share * (column["high"] - column["low"])
    return np.where(values == 65535, np.nan, shown)
