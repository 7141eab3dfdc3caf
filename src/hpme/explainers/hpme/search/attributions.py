"""What cheap methods say about nodes: where some chains of the search begin."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hpme.errors import ModelError
from hpme.explainers.shared.context import Context, batches
from hpme.explainers.shared.replicas import (
    Change,
    ReplicaModel,
    explained_output,
    without_node,
    without_pair,
)
from hpme.graphs import GraphBatch
from hpme.graphs.segment import concatenated_ranges, standardise_in_segment

OCCLUSION = ("nodes", "edges")
"""Names of those by occlusion."""
OCCLUDED_NODES = 2_000_000
"""Nodes of all graphs with a part gone, together; more graphs are left to gradients."""


@dataclass(frozen=True)
class Attributions:
    """Node scores of several methods.

    Args:
        scores: Scores ``[A, N]``.
        graphs: Boolean ``[A, B]``: the graphs a method was applied to.
        names: Names of the methods.
    """

    scores: Tensor
    graphs: Tensor
    names: tuple[str, ...]

    def occlusion(self, graphs: GraphBatch) -> tuple[Tensor, Tensor]:
        """What occlusion of nodes and of edges says together ``[N]``, and of which graphs."""
        rows = [self.names.index(name) for name in OCCLUSION if name in self.names]
        both = standardise_in_segment(self.scores[rows].T, graphs.batch, graphs.num_graphs)
        return both.sum(1), self.graphs[rows].any(0).to(self.scores)

    def subset(self, graphs: GraphBatch, ids: Tensor) -> Attributions:
        """Those of some of the graphs."""
        rows = concatenated_ranges(graphs.ptr[ids], graphs.sizes[ids])[0]
        return replace(self, scores=self.scores[:, rows], graphs=self.graphs[:, ids])


def attributions(context: Context) -> Attributions:
    """Occlusion of nodes and of edges, and gradients, for the graphs of a context.

    The explained quantity is the log odds of the predicted class, which do not flatten where the
    model is sure, or the value. A part that speaks against the predicted class does not carry it,
    so for classes signs count; a value is carried by what raises and by what lowers it.
    """
    graphs = context.store.batch()
    slopes = _gradients(context, graphs)
    ids = _affordable(graphs)
    occluded = torch.zeros(2, graphs.num_nodes, device=slopes.device)
    if ids.numel():
        part = context.subset(ids)
        rows = concatenated_ranges(graphs.ptr[ids], graphs.sizes[ids])[0]
        occluded[:, rows] = torch.stack(_occlusion(part))
    seen = torch.zeros(graphs.num_graphs, dtype=torch.bool, device=slopes.device)
    seen[ids] = True
    everywhere = torch.ones_like(seen)
    return Attributions(
        scores=torch.cat([occluded.to(slopes), slopes]),
        graphs=torch.stack([seen, seen, everywhere, everywhere, everywhere]),
        names=(*OCCLUSION, "gradient", "gradient x input", "gradient x embedding"),
    )


def _affordable(graphs: GraphBatch) -> Tensor:
    """Numbers of graphs that can be occluded part by part, the small ones first."""
    cost = graphs.sizes * (graphs.sizes + graphs.pairs.counts)
    order = cost.argsort(stable=True)
    return order[cost[order].cumsum(0) <= OCCLUDED_NODES].sort().values


def _occlusion(context: Context) -> tuple[Tensor, Tensor]:
    """Scores of nodes that are gone, and of nodes whose edges are deleted in turn."""
    graphs = context.store.batch()
    model = ReplicaModel(context.adapter, graphs, {})
    pairs = graphs.pairs.proper
    before = context.predict(graphs).double()

    def change(owner: Tensor, without: Change) -> Tensor:
        """By how much the explained output falls without each part, given its graph."""
        if not owner.numel():
            return torch.zeros(0, device=before.device)
        kept, left = (
            _explained(context, output, owner) for output in (before[owner], model(owner, without))
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
    return change(graphs.batch, without_node(spared=spared)), ends


def _gradients(context: Context, graphs: GraphBatch) -> Tensor:
    """Length of the gradient, gradient times input, gradient times embedding: ``[3, N]``."""
    columns = []
    for ids in batches(torch.arange(len(context.store)), 512):
        part = context.store.batch(ids)
        try:
            x = context.adapter.node_input(part).clone().requires_grad_()
        except ModelError:  # codes that no layer embeds; occlusion has to do
            return torch.zeros(3, graphs.num_nodes, device=graphs.x.device)
        with torch.enable_grad():
            seen = context.adapter.trace(part, node_input=x)
            if not seen.output.requires_grad:  # no gradient flows; occlusion has to do
                return torch.zeros(3, graphs.num_nodes, device=graphs.x.device)
            explained = _explained(context, seen.output, ids).sum()
            nodes = seen.nodes if seen.nodes.requires_grad else x  # constants have no gradient
            slopes = torch.autograd.grad(
                explained, [x, nodes], allow_unused=True, materialize_grads=True
            )
        at_input, at_nodes = slopes
        products = [(at_input * x).sum(1), (at_nodes * nodes).sum(1)]
        if not context.task.classification:
            products = [product.abs() for product in products]
        columns.append(torch.stack([at_input.norm(dim=1), *products]).detach())
    return torch.cat(columns, dim=1).to(torch.get_default_dtype())


def _explained(context: Context, output: Tensor, ids: Tensor) -> Tensor:
    """The explained output of the graphs ``ids``."""
    classes = context.prediction[ids] if context.task.classification else None
    return explained_output(context.task, output, classes)
