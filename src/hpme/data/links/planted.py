"""Links with ground truth: a path between two nodes that the link would close, or a broken one."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from hpme.data.links.drawing import non_links, parts_of
from hpme.errors import InputError
from hpme.graphs import GraphStore
from hpme.graphs.enclosing import BaseGraph, cut_out
from hpme.graphs.shuffling import shuffled

NEW = 3
"""Nodes on the planted path; with the two ends and the link it closes a five-cycle."""
STEPS = NEW + 1
RULE = f"a planted path of {STEPS} edges joins the two nodes (1), or lacks one of them (0)"


def planted_graphs(base: BaseGraph, size: int, seed: int, *, num_hops: int) -> GraphStore:
    """Pairs of nodes that are not linked, with a new path of four edges between them.

    It is whole (label 1), so that the link would close a cycle, or any one of its edges is missing
    (label 0); all else is alike. Its edges are the ground truth of label 1. Label 0 has none, since
    something is missing. Only the ends are marked.

    Args:
        base: The graph around.
        size: Number of pairs, half of them of either label.
        seed: Seed of pairs, labels and parts.
        num_hops: Radius of the subgraphs.

    Raises:
        InputError: If ``size`` is too small, or the graph has too few pairs without a link.
    """
    if size < 2 * NEW:
        raise InputError(f"size must be at least {2 * NEW}, got {size}")
    generator = torch.Generator().manual_seed(seed)
    store = cut_out(base, non_links(base, size, generator), num_hops=num_hops, labels="ends")
    whole = size - size // 2
    closed = torch.arange(size) < whole
    missing = torch.randint(STEPS, (size,), generator=generator).masked_fill(closed, -1)
    store = _with_paths(store, missing, base.num_nodes).with_attributes(
        graph={"part": torch.cat([parts_of(whole), parts_of(size - whole)]), "y": closed.long()}
    )
    return shuffled(store, np.random.default_rng(seed))


def _with_paths(store: GraphStore, missing: Tensor, num_nodes: int) -> GraphStore:
    """Every graph with :data:`NEW` nodes more, on a path between its ends without one edge."""
    count, anchors = len(store), store.anchors
    assert anchors is not None
    new = store.sizes.unsqueeze(1) + torch.arange(NEW)
    path = torch.cat([anchors[:, :1], new, anchors[:, 1:]], dim=1)
    there = torch.arange(STEPS) != missing.unsqueeze(1)
    steps = torch.stack([path[:, :-1][there], path[:, 1:][there]])
    graph = torch.repeat_interleave(there.sum(1))
    node_owner = torch.cat([store.node_graph, torch.arange(count).repeat_interleave(NEW)])
    edge_owner = torch.cat([store.edge_graph, graph, graph])
    nodes, edges = node_owner.argsort(stable=True), edge_owner.argsort(stable=True)
    unmarked = F.one_hot(torch.zeros(count * NEW, dtype=torch.long), store.node["x"].shape[1])
    truth = torch.cat([torch.zeros_like(store.edge_graph), missing[graph] < 0, missing[graph] < 0])
    truth = truth.bool()[edges]
    edge_index = torch.cat([store.local_edge_index, steps, steps.flip(0)], dim=1)[:, edges]
    sizes = store.sizes + NEW
    touched = torch.zeros(int(sizes.sum()), dtype=torch.bool)
    start = (sizes.cumsum(0) - sizes)[edge_owner[edges]]
    touched[(edge_index + start)[:, truth].flatten()] = True
    return GraphStore(
        sizes=sizes,
        edge_counts=torch.bincount(edge_owner, minlength=count),
        local_edge_index=edge_index,
        node={
            "x": torch.cat([store.node["x"], unmarked.to(store.node["x"])])[nodes],
            "node_ids": torch.cat([store.node["node_ids"], num_nodes + torch.arange(count * NEW)])[
                nodes
            ],
            "node_mask": touched,
        },
        edge={"edge_mask": truth},
        graph=dict(store.graph),
    )
