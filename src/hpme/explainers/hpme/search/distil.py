"""Scores compared inside graphs, and the edge MLP that generalises a selection."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from hpme.explainers.hpme.method.objective import bce_loss
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.shared.parametric import EdgeMLP
from hpme.graphs import GraphBatch
from hpme.graphs.segment import standardise_in_segment

PAIRS = 20_000
"""Pairs of nodes the edge MLP learns from; more teach it little."""


def standardise(scores: Tensor, graphs: GraphBatch) -> Tensor:
    """Zero mean and unit variance inside every graph, for each row of ``[P, N]`` scores."""
    return standardise_in_segment(scores.T, graphs.batch, graphs.num_graphs).T


def fit_edge_mlp(
    mix: HardMix,
    keep: Tensor,
    *,
    epochs: int,
    lr: float,
    weight_decay: float,
    advance: Callable[[int], None],
) -> EdgeMLP:
    r"""Edge MLP that tells pairs inside the pooled subgraph from others (Eq. bce_loss).

    It learns from :data:`PAIRS` pairs of nodes at most, all of them in every step.

    Args:
        mix: The graphs.
        keep: Pooled nodes, boolean ``[N]`` over all nodes of the store.
        epochs: Steps.
        lr: Learning rate of Adam.
        weight_decay: Weight decay of Adam.
        advance: Called after every step.
    """
    pairs = mix.graphs.pairs.proper.index
    if pairs.shape[1] > PAIRS:
        order = torch.randperm(pairs.shape[1], generator=mix.generator)[:PAIRS]
        pairs = pairs[:, order.to(pairs.device)]
    inside = keep[pairs].all(0)
    nodes, pairs = torch.unique(pairs, return_inverse=True)
    h = mix.h[nodes]
    edge_mlp = EdgeMLP(h.shape[1], generator=mix.generator).to(h.device)
    optimiser = torch.optim.Adam(edge_mlp.parameters(), lr=lr, weight_decay=weight_decay)
    for _ in range(epochs if pairs.numel() else 0):
        optimiser.zero_grad()
        bce_loss(edge_mlp(h, pairs), inside).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        advance(1)
    return edge_mlp
