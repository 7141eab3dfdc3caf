"""What cheap methods say about nodes: where the search begins, and what pools should agree with."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hpme.explainers.hpme.refining import Local
from hpme.explainers.shared.context import Context, batches
from hpme.explainers.shared.replicas import (
    Change,
    ReplicaModel,
    explained_output,
    without_node,
    without_pair,
)
from hpme.graphs.segment import concatenated_ranges, standardise_in_segment

OCCLUDED_NODES = 2_000_000
"""Nodes of all graphs with a part gone, together: a few seconds. Larger graphs are left out."""


@dataclass(frozen=True)
class Attributions:
    """Node scores by occlusion and by gradients.

    Args:
        scores: Scores ``[2, N]``.
        graphs: Boolean ``[2, B]``: the graphs each was applied to.
    """

    scores: Tensor
    graphs: Tensor


def attributions(context: Context) -> Attributions:
    """Occlusion of the graphs of a context, the small ones first, and gradients of all.

    The explained quantity is the log odds of the predicted class, which do not flatten where the
    model is sure, or the value. A part that speaks against the predicted class does not carry it,
    so for classes signs count; a value is carried by what raises and by what lowers it.
    """
    graphs = context.store.batch()
    gradients = Local("gradient", context.adapter, context.task)
    parts = batches(torch.arange(len(context.store)), 512)
    slopes = torch.cat([gradients(context.store.batch(part))[1] for part in parts])
    occluded, seen = torch.zeros_like(slopes), torch.zeros_like(graphs.sizes, dtype=torch.bool)
    cost = graphs.sizes * (graphs.sizes + graphs.pairs.counts)
    order = cost.argsort(stable=True)
    ids = order[cost[order].cumsum(0) <= OCCLUDED_NODES].sort().values
    if ids.numel():
        rows = concatenated_ranges(graphs.ptr[ids], graphs.sizes[ids])[0]
        occluded[rows] = _occlusion(context.subset(ids)).to(slopes)
        seen[ids] = True
    return Attributions(torch.stack([occluded, slopes]), torch.stack([seen, torch.ones_like(seen)]))


def _occlusion(context: Context) -> Tensor:
    """Scores of nodes that are gone, and of nodes whose edges are deleted in turn, together."""
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
    return standardise_in_segment(both, graphs.batch, graphs.num_graphs).sum(1)
