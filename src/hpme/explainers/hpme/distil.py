"""Scorers that generalise over graphs what was found graph by graph."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hpme.explainers.hpme.hardmix import HardMix
from hpme.explainers.hpme.pool import Pool
from hpme.explainers.shared.edge_mlp import EdgeMLP
from hpme.graphs import GraphBatch
from hpme.graphs.segment import standardise_in_segment


def standardise(scores: Tensor, graphs: GraphBatch) -> Tensor:
    """Zero mean and unit variance inside every graph, for each row of ``[P, N]`` scores."""
    return standardise_in_segment(scores.T, graphs.batch, graphs.num_graphs).T


def fit_pools(
    mix: HardMix,
    labels: Tensor,
    weights: Tensor,
    *,
    hops: tuple[int, ...] = (1,),
    steps: int = 60,
    lr: float = 0.03,
) -> Pool:
    """One pool per row of ``labels``, by weighted regression on standardised scores.

    A single scorer for all graphs averages out the noise of what each graph's search found.

    Args:
        mix: The graphs.
        labels: Node labels ``[P, N]``; only their order and spread inside a graph count.
        weights: Weight of every graph, ``[P, B]``.
        hops: See :class:`Pool`.
        steps: Steps of Adam.
        lr: Its learning rate.
    """
    graphs = mix.context.store.batch()
    pool = Pool(mix.context.h.shape[1], labels.shape[0], hops=hops, generator=mix.generator)
    wanted = standardise(labels, graphs)
    weight = (weights / weights.mean(1, keepdim=True))[:, graphs.batch]
    if graphs.anchors is not None:  # all subsets hold them, so their labels say nothing
        weight[:, graphs.anchors.flatten()] = 0

    def loss() -> Tensor:
        error = (standardise(mix.score(pool, graphs), graphs) - wanted) ** 2
        # Summed over pools: they share no parameter, so each is fitted as if alone.
        return (weight * error).mean(1).sum()

    minimise(pool, loss, steps, lr)
    return pool


def fit_edge_mlp(
    mix: HardMix,
    keep: Tensor,
    *,
    epochs: int,
    lr: float,
    weight_decay: float,
    batch_size: int,
    advance: Callable[[int], None],
) -> EdgeMLP:
    r"""Edge MLP that tells pairs inside the pooled subgraph from others (Eq. bce_loss).

    Args:
        mix: The graphs.
        keep: Pooled nodes, boolean ``[N]`` over all nodes of the store.
        epochs: Passes over the graphs.
        lr: Learning rate of Adam.
        weight_decay: Weight decay of Adam.
        batch_size: Graphs per step.
        advance: Called after every epoch.
    """
    store, h = mix.context.store, mix.context.h
    edge_mlp = EdgeMLP(h.shape[1], generator=mix.generator)
    optimiser = torch.optim.Adam(edge_mlp.parameters(), lr=lr, weight_decay=weight_decay)
    for _ in range(epochs):
        order = torch.randperm(len(store), generator=mix.generator)
        for ids in order.split(batch_size):  # type: ignore[no-untyped-call]
            graphs = store.batch(ids)
            inside = keep[graphs.node_ids][graphs.edge_index].all(0)
            optimiser.zero_grad()
            logits = edge_mlp(h[graphs.node_ids], graphs.edge_index)
            loss = F.binary_cross_entropy_with_logits(logits, inside.to(h.dtype))
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        advance(1)
    return edge_mlp


def minimise(module: nn.Module, loss: Callable[[], Tensor], steps: int, lr: float) -> None:
    """Plain Adam on the parameters of a module."""
    optimiser = torch.optim.Adam(module.parameters(), lr=lr)
    for _ in range(steps):
        optimiser.zero_grad()
        loss().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
