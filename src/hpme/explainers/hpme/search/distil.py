"""Scores compared inside graphs, and the edge MLP that generalises a selection."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from hpme.explainers.hpme.method.objective import bce_loss
from hpme.explainers.hpme.method.training import train_epoch
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.shared.edge_mlp import EdgeMLP
from hpme.graphs import GraphBatch
from hpme.graphs.segment import standardise_in_segment


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
    store, h = mix.context.store, mix.h
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
