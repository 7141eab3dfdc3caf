"""Links with ground truth: a cycle that closes around two nodes, or at one of them."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from hpme.data.links.drawing import non_links, parts_of
from hpme.errors import InputError
from hpme.graphs import GraphStore
from hpme.graphs.enclosing import BaseGraph, cut_out
from hpme.graphs.transforms import shuffled

NEW = 3
"""Nodes on the planted path; with the two ends and the link it closes a five-cycle."""
RULE = "a planted path of four edges leads from one node to the other (1), or back to itself (0)"


def planted_graphs(base: BaseGraph, size: int, seed: int, *, num_hops: int) -> GraphStore:
    """Pairs of nodes that are not linked, with a path of four edges from the first of them.

    It leads to the other (label 1), so that the link would close a cycle, or back to where it began
    (label 0); all else is alike, the numbers of nodes and edges, too. Its edges are the ground
    truth of label 1. Label 0 has none, since something is missing. Only the ends are marked.

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
    links = non_links(base, size, generator)
    store = cut_out(base, links, num_hops=num_hops, labels="ends")
    anchors = store.anchors
    assert anchors is not None
    closed = torch.arange(size) < size - size // 2
    # Either end may be the one where a path begins.
    turned = torch.rand(size, 1, generator=generator) < 0.5
    store = store.with_attributes(graph={"anchors": torch.where(turned, anchors.flip(1), anchors)})
    last = torch.where(closed, anchors[:, 1], anchors[:, 0])
    count = size - size // 2
    parts = torch.cat([parts_of(count), parts_of(size - count)])
    store = _with_paths(store, anchors[:, 0], last, closed, base.num_nodes)
    store = store.with_attributes(graph={"part": parts, "y": closed.long()})
    return shuffled(store, np.random.default_rng(seed))


def _with_paths(
    store: GraphStore, first: Tensor, last: Tensor, closed: Tensor, num_nodes: int
) -> GraphStore:
    """Every graph with :data:`NEW` nodes more, on a path between two of its nodes."""
    count = len(store)
    new = store.sizes.unsqueeze(1) + torch.arange(NEW)
    path = torch.cat([first.unsqueeze(1), new, last.unsqueeze(1)], dim=1)
    steps = torch.stack([path[:, :-1], path[:, 1:]])
    both = torch.cat([steps, steps.flip(0)], dim=2)
    node_owner = torch.cat([store.node_graph, torch.arange(count).repeat_interleave(NEW)])
    edge_owner = torch.cat([store.edge_graph, torch.arange(count).repeat_interleave(2 * NEW + 2)])
    nodes, edges = node_owner.argsort(stable=True), edge_owner.argsort(stable=True)
    unmarked = F.one_hot(torch.zeros(count * NEW, dtype=torch.long), store.node["x"].shape[1])
    fresh = num_nodes + torch.arange(count * NEW)
    truth = torch.cat([
        torch.zeros(store.edge_graph.numel(), dtype=torch.bool),
        closed.repeat_interleave(2 * NEW + 2),
    ])[edges]  # fmt: skip
    edge_index = torch.cat([store.local_edge_index, both.flatten(1)], dim=1)[:, edges]
    sizes = store.sizes + NEW
    touched = torch.zeros(int(sizes.sum()), dtype=torch.bool)
    start = (sizes.cumsum(0) - sizes)[edge_owner[edges]]
    touched[(edge_index + start)[:, truth].flatten()] = True
    return GraphStore(
        sizes=sizes,
        edge_counts=store.edge_counts + 2 * NEW + 2,
        local_edge_index=edge_index,
        node={
            "x": torch.cat([store.node["x"], unmarked.to(store.node["x"])])[nodes],
            "node_ids": torch.cat([store.node["node_ids"], fresh])[nodes],
            "node_mask": touched,
        },
        edge={"edge_mask": truth},
        graph=dict(store.graph),
    )
