"""What cheap methods say about nodes: where some chains of the search begin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hpme.explainers.shared.context import TargetContext, batches
from hpme.graphs import GraphBatch
from hpme.graphs.segment import concatenated_ranges, exclusive_cumsum
from hpme.models.task import Task

OCCLUDED_NODES = 2_000_000
"""Nodes of all graphs with a part gone, together; more graphs are left to gradients."""
PASS_NODES = 20_000
"""Nodes per forward pass; few enough for the processor's cache."""


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


def attributions(context: TargetContext) -> Attributions:
    """Occlusion of nodes and of edges, and gradients, for the graphs of a context.

    The explained quantity is the log odds of the predicted class, which do not flatten where the
    model is sure, or the value. A part that speaks against the predicted class does not carry it,
    so for classes signs count; a value is carried by what raises and by what lowers it.
    """
    graphs = context.store.batch()
    slopes = _gradients(context, graphs)
    ids = _affordable(graphs)
    occluded = torch.zeros(2, graphs.num_nodes)
    if ids.numel():
        part = context.subset(ids)
        rows = concatenated_ranges(graphs.ptr[ids], graphs.sizes[ids])[0]
        occluded[:, rows] = torch.stack(_occlusion(part, part.store.batch()))
    seen = torch.zeros(graphs.num_graphs, dtype=torch.bool)
    seen[ids] = True
    everywhere = torch.ones_like(seen)
    return Attributions(
        scores=torch.cat([occluded.to(slopes), slopes]),
        graphs=torch.stack([seen, seen, everywhere, everywhere, everywhere]),
        names=("nodes", "edges", "gradient", "gradient x input", "gradient x embedding"),
    )


def _affordable(graphs: GraphBatch) -> Tensor:
    """Numbers of graphs that can be occluded part by part, the small ones first."""
    cost = graphs.sizes * (graphs.sizes + graphs.pairs.counts)
    order = cost.argsort(stable=True)
    return order[cost[order].cumsum(0) <= OCCLUDED_NODES].sort().values


@torch.no_grad()
def _occlusion(context: TargetContext, graphs: GraphBatch) -> tuple[Tensor, Tensor]:
    """Scores of nodes whose features are zeroed, and of nodes whose edges are deleted in turn."""
    pairs = graphs.pairs.proper

    def without_node(replicas: GraphBatch, node: Tensor) -> GraphBatch:
        x = replicas.x.clone()
        x[replicas.ptr + node - graphs.ptr[graphs.batch[node]]] = 0
        return replace(replicas, x=x)

    def without_pair(replicas: GraphBatch, pair: Tensor) -> GraphBatch:
        owner = pairs.graph[pair]
        starts = exclusive_cumsum(graphs.edge_counts[owner])
        kept = torch.ones(replicas.num_edges, dtype=torch.bool)
        for way in (pairs.forward[pair], pairs.backward[pair]):
            place = starts + way - exclusive_cumsum(graphs.edge_counts)[owner]
            kept[place[way >= 0]] = False
        return replicas.edges(kept)

    nodes = _falls(context, graphs.batch, without_node)
    edges = _falls(context, pairs.graph, without_pair)
    ends = torch.zeros(graphs.num_nodes).index_add(0, pairs.index.flatten(), edges.repeat(2))
    return nodes, ends


def _falls(
    context: TargetContext, owner: Tensor, without: Callable[[GraphBatch, Tensor], GraphBatch]
) -> Tensor:
    """By how much the explained quantity falls without each part, given its graph."""
    if not owner.numel():
        return torch.zeros(0)
    before = context.predict(context.store.batch())
    mean_size = float(context.store.sizes.double().mean())
    after = []
    for part in batches(torch.arange(owner.numel()), max(1, int(PASS_NODES / mean_size))):
        after.append(context.predict(without(context.store.batch(owner[part]), part)))
    kept, left = (
        _explained(context.task, output.double(), context.target[owner])
        for output in (before[owner], torch.cat(after))
    )
    fall = kept - left
    signed = fall if context.task.classification else fall.abs()
    return signed.sum(1).to(torch.get_default_dtype())


def _gradients(context: TargetContext, graphs: GraphBatch) -> Tensor:
    """Length of the gradient, gradient times input, gradient times embedding: ``[3, N]``."""
    columns = []
    for ids in batches(torch.arange(len(context.store)), 512):
        part = context.store.batch(ids)
        x = part.x.clone().requires_grad_()
        with torch.enable_grad():
            seen = context.adapter.trace(replace(part, x=x))
            explained = _explained(context.task, seen.output, context.target[ids]).sum()
            slopes = torch.autograd.grad(
                explained, [x, seen.nodes], allow_unused=True, materialize_grads=True
            )
        at_input, at_nodes = slopes
        products = [(at_input * x).sum(1), (at_nodes * seen.nodes).sum(1)]
        if not context.task.classification:
            products = [product.abs() for product in products]
        columns.append(torch.stack([at_input.norm(dim=1), *products]).detach())
    return torch.cat(columns, dim=1).to(torch.get_default_dtype())


def _explained(task: Task, output: Tensor, target: Tensor) -> Tensor:
    """Log odds of the predicted class, or all values; ``[B, K]``."""
    if not task.classification:
        return task.values(output)
    log_prob, column = task.log_prob(output), target.unsqueeze(1)
    others = log_prob.scatter(1, column, -torch.inf)
    return log_prob.gather(1, column) - others.logsumexp(dim=1, keepdim=True)
