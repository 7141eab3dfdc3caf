"""Scorers that generalise over graphs what was found graph by graph."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from hpme.explainers.hpme.method.objective import bce_loss
from hpme.explainers.hpme.method.pool import Pool
from hpme.explainers.hpme.method.training import train_epoch
from hpme.explainers.hpme.search.hardmix import HardMix
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
    graphs = mix.graphs
    pool = Pool(mix.context.h.shape[1], labels.shape[0], hops=hops, generator=mix.generator)
    pool.to(mix.context.device)
    wanted = standardise(labels, graphs)
    weight = (weights / weights.mean(1, keepdim=True))[:, graphs.batch]
    if graphs.anchors is not None:  # all subsets hold them, so their labels say nothing
        weight[:, graphs.anchors.flatten()] = 0

    def loss() -> Tensor:
        error = (standardise(mix.score(pool, graphs), graphs) - wanted) ** 2
        # Summed over pools: they share no parameter, so each is fitted as if alone.
        return (weight * error).mean(1).sum()

    optimiser = torch.optim.Adam(pool.parameters(), lr=lr)
    for _ in range(steps):
        optimiser.zero_grad()
        loss().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
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
    edge_mlp = EdgeMLP(h.shape[1], generator=mix.generator).to(h.device)
    optimiser = torch.optim.Adam(edge_mlp.parameters(), lr=lr, weight_decay=weight_decay)

    def loss(ids: Tensor) -> Tensor:
        graphs = store.batch(ids)
        inside = keep[graphs.node_ids][graphs.edge_index].all(0)
        return bce_loss(edge_mlp(h[graphs.node_ids], graphs.edge_index), inside)

    for _ in range(epochs):
        train_epoch(optimiser, loss, len(store), batch_size, mix.generator)
        advance(1)
    return edge_mlp
