"""Graphs with parts of them gone, and how many of them go through a model at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from hpme.graphs.batch import GraphBatch, GraphStore
from hpme.graphs.segment import exclusive_cumsum

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
    if drop_isolated:
        nodes = _connected(graphs, kept)
        kept = kept & nodes[graphs.edge_index[0]]
    graphs = replace(
        graphs,
        edge_index=graphs.edge_index[:, kept],
        edge_attr=None if graphs.edge_attr is None else graphs.edge_attr[kept],
        edge_weight=None if graphs.edge_weight is None else graphs.edge_weight[kept],
        pairs=None,
    )
    if not drop_isolated:
        return graphs
    number = nodes.long().cumsum(0) - 1
    return replace(
        graphs,
        x=graphs.x[nodes],
        edge_index=number[graphs.edge_index],
        batch=graphs.batch[nodes],
        node_ids=None if graphs.node_ids is None else graphs.node_ids[nodes],
        anchors=None if graphs.anchors is None else number[graphs.anchors],
    )


def _connected(graphs: GraphBatch, kept: Tensor) -> Tensor:
    """Boolean :math:`[N]`: nodes to stay if isolated ones go."""
    source, target = graphs.edge_index
    ends = graphs.edge_index[:, kept & (source != target)].flatten()
    nodes = torch.zeros_like(graphs.batch, dtype=torch.bool)
    nodes[ends] = True
    if graphs.anchors is not None:
        nodes[graphs.anchors.flatten()] = True
    left = torch.bincount(graphs.batch[nodes], minlength=graphs.num_graphs)
    return nodes | (left == 0)[graphs.batch]
