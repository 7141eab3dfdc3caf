"""Models for node-level tasks: the same layers, a head on every node."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from hpme.data.info import Level, TaskKind
from hpme.models.gnn import GAT, GCN, GIN, TargetGNN


class NodeLevel(TargetGNN):
    """Makes a model node-level: the outputs of all layers side by side, and a linear head."""

    level: ClassVar[Level] = "node"

    def __init__(
        self, in_channels: int, out_channels: int, task: TaskKind = "classification", **options: Any
    ) -> None:
        super().__init__(in_channels, out_channels, task, **options)
        self.out = nn.Linear(self.num_layers * self.hidden_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # type: ignore[override]
        r"""Predictions :math:`[N, C]`."""
        return self.head(self.node_embeddings(x, edge_index))

    def _join(self, layers: list[Tensor]) -> Tensor:
        return torch.cat(layers, dim=1)


class _EdgeWeighted(NodeLevel):
    def forward(  # type: ignore[override]
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None
    ) -> Tensor:
        return self.head(self.node_embeddings(x, edge_index, edge_weight))


class NodeGCN(_EdgeWeighted, GCN):  # type: ignore[misc]
    """Graph convolutional network with a prediction for every node."""


class NodeGIN(_EdgeWeighted, GIN):  # type: ignore[misc]
    """Graph isomorphism network with a prediction for every node."""


class NodeGAT(NodeLevel, GAT):
    """Graph attention network with a prediction for every node."""
