"""What occlusion says about nodes: where the search begins, and what pools should agree with."""

from __future__ import annotations

import torch
from torch import Tensor

from hpme.explainers.shared.context import Context
from hpme.explainers.shared.replicas import (
    ReplicaModel,
    explained_output,
    without_node,
    without_pair,
)
from hpme.graphs.segment import concatenated_ranges, standardise_in_segment
from hpme.models.replicas import Change

OCCLUDED_NODES = 2_000_000
"""Nodes of all graphs with a part gone, together: a few seconds. Larger graphs are left out."""


def occlusion(context: Context) -> tuple[Tensor, Tensor]:
    """How much every node matters where it is, ``[N]``, and in which graphs ``[B]`` that is known.

    By itself and by its edges together; see :func:`occlusions`.
    """
    scores, seen = occlusions(context)
    return scores.sum(0), seen


def occlusions(context: Context) -> tuple[Tensor, Tensor]:
    """What is lost without each node, and without its edges in turn, ``[2, N]``; and the graphs.

    The explained quantity is the log odds of the predicted class, which do not flatten where the
    model is sure, or the value. A part that speaks against the predicted class does not carry it,
    so for classes signs count; a value is carried by what raises and by what lowers it.
    """
    graphs = context.store.batch()
    cost, order = (graphs.sizes * (graphs.sizes + graphs.pairs.counts)).sort(stable=True)
    ids = order[cost.cumsum(0) <= OCCLUDED_NODES].sort().values
    scores = torch.zeros(2, graphs.num_nodes, device=context.device)
    seen = torch.zeros(graphs.num_graphs, device=context.device)
    if ids.numel():
        rows = concatenated_ranges(graphs.ptr[ids], graphs.sizes[ids])[0]
        scores[:, rows] = _occlusions(context.subset(ids)).to(scores)
    return scores, seen.index_fill(0, ids, 1.0)


def _occlusions(context: Context) -> Tensor:
    """Scores of nodes that are gone, and of nodes whose edges are deleted in turn."""
    graphs = context.store.batch()
    model = ReplicaModel(context.adapter, graphs, {})
    pairs = graphs.pairs.proper
    before = context.predict(graphs).double()

    def change(owner: Tensor, without: Change) -> Tensor:
        """By how much the explained output falls without each part, given its graph."""
        if not owner.numel():
            return torch.zeros(0, device=before.device)
        classes = context.prediction[owner] if context.task.classification else None
        kept, left = (
            explained_output(context.task, output, classes)
            for output in (before[owner], model(owner, without))
        )
        fall = kept - left if context.task.classification else (kept - left).abs()
        # Where the model has no answer without a part, mixes have to tell what that is worth.
        return fall.sum(1).nan_to_num(0.0, 0.0, 0.0).to(torch.get_default_dtype())

    edges = change(pairs.graph, without_pair(pairs))
    ends = torch.zeros(graphs.num_nodes, device=edges.device).index_add(
        0, pairs.index.flatten(), edges.repeat(2)
    )
    spared = None  # a graph is about its anchors
    if graphs.anchor_order is not None:
        spared = graphs.anchor_order < graphs.anchors_per_graph
    both = torch.stack([change(graphs.batch, without_node(spared=spared)), ends], dim=1)
    return standardise_in_segment(both, graphs.batch, graphs.num_graphs).T
