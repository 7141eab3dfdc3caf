"""Graphs with parts of them gone, and how many of them go through a model at once."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from hpme.graphs.batch import GraphBatch
from hpme.graphs.segment import exclusive_cumsum
from hpme.graphs.store import GraphStore

MAX_ELEMENTS = 30_000
"""Nodes and edges per forward pass; few enough for the cache of a processor."""


def chunks(store: GraphStore, ids: Tensor) -> Iterator[Tensor]:
    """Consecutive parts of graph numbers, each of about :data:`MAX_ELEMENTS` nodes and edges."""
    cost = (store.sizes + store.edge_counts)[ids]
    part = exclusive_cumsum(cost) // MAX_ELEMENTS
    counts = torch.unique_consecutive(part, return_counts=True)[1]
    yield from ids.split(counts.tolist())  # type: ignore[no-untyped-call]


def keep_edges(graphs: GraphBatch, kept: Tensor, *, drop_isolated: bool = False) -> GraphBatch:
    """The graphs with some of their edges.

    Args:
        graphs: The graphs.
        kept: Boolean :math:`[E]`.
        drop_isolated: Whether nodes without a kept edge to another node go, too, with their
            self-loops. Anchors stay, and so do all nodes of a graph that would have none left.
    """
    graphs = graphs.edges(kept)
    return graphs.nodes(_connected(graphs)) if drop_isolated else graphs


def _connected(graphs: GraphBatch) -> Tensor:
    """Boolean :math:`[N]`: nodes to stay if isolated ones go."""
    ends = graphs.edge_index[:, ~graphs.loops].flatten()
    nodes = torch.zeros_like(graphs.batch, dtype=torch.bool)
    nodes[ends] = True
    if graphs.anchors is not None:
        nodes[graphs.anchors.flatten()] = True
    left = torch.bincount(graphs.batch[nodes], minlength=graphs.num_graphs)
    return nodes | (left == 0)[graphs.batch]
