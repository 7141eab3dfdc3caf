r"""Preserved nodes :math:`I^L`: from scores, or from given sets of nodes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hpme.graphs import GraphBatch
from hpme.graphs.segment import Ties, rank_in_segment, ties_in_segment


@dataclass(frozen=True)
class Selection:
    r"""Pooled nodes of a batch of graphs.

    Args:
        keep: Boolean node mask, :math:`I^L`.
        order: Rank of each pooled node among those of its graph; decides which inserted node
            takes the place of which removed one.
    """

    keep: Tensor
    order: Tensor

    def __getitem__(self, index: object) -> Selection:
        return Selection(self.keep[index], self.order[index])  # type: ignore[index]

    def at(self, places: Tensor) -> Selection:
        """Some of the nodes, counted through all selections of a stack."""
        return Selection(*(v.flatten().index_select(0, places) for v in (self.keep, self.order)))


def top_nodes(score: Tensor, graphs: GraphBatch, m: Tensor) -> Selection:
    r"""The :math:`m` nodes of highest score of every graph (Eq. graph_pooling), best first.

    Anchors come first, whatever their scores: a graph is about them, so no pool goes without.

    Args:
        score: Scores ``[P, N]``, one row per selection.
        graphs: The graphs.
        m: Preserved nodes of every graph.

    Returns:
        A selection whose ``order`` ranks all nodes, also those that are not pooled.
    """
    if graphs.anchor_order is not None:
        first = torch.finfo(torch.float32).max / (1 + graphs.anchor_order)
        is_anchor = graphs.anchor_order < graphs.anchors_per_graph
        score = torch.where(is_anchor, first.to(score.dtype), score)
    stack = torch.arange(score.shape[0], device=score.device).unsqueeze(1)
    segment = (stack * graphs.num_graphs + graphs.batch).flatten()
    ptr = (stack * graphs.num_nodes + graphs.ptr).flatten()
    rank = rank_in_segment(score.flatten(), segment, ptr).view_as(score)
    return Selection(rank < m.index_select(0, graphs.batch), rank)


def tied(score: Tensor, selection: Selection, graphs: GraphBatch) -> Ties:
    """Ranks of the first of several selections by score, in which ties share their places."""
    order = graphs.anchor_order
    anchors = None if order is None else order < graphs.anchors_per_graph
    row = score[0].detach()
    return ties_in_segment(row, selection.order[0], graphs.batch, graphs.ptr, anchors)


def by_boundary(keep: Tensor, graphs: GraphBatch, generator: torch.Generator | None) -> Selection:
    """Orders pooled nodes by the number of edges that leave the pooled subgraph, ties at random.

    Matching by node number would leak how a generator numbers its motifs.

    Args:
        keep: Boolean ``[P, N]``, one row per selection.
        graphs: The graphs.
        generator: Breaks ties; if ``None``, the first node comes first.
    """
    source, target = graphs.edge_index
    noise = torch.zeros(keep.shape)
    if generator is not None:
        noise = torch.rand(keep.shape, generator=generator)
    outside = (~keep).index_select(1, target).to(graphs.x.dtype)
    leaving = (0.5 * noise.to(graphs.x)).index_add(1, source, outside)
    score = torch.where(keep, leaving, -1.0)
    return Selection(keep, top_nodes(score, graphs, graphs.sizes).order)
