"""The explanation network shared by all parametric explainers, and its relaxed samples."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hpme.graphs import GraphBatch

CHUNK = 1024
"""Edges at a time without gradients: small temporaries are reused, large ones are paged in anew."""
NARROW = 32
"""Where embeddings are no wider, learning from what edges see costs less than from nodes."""


class EdgeMLP(nn.Module):
    r"""Edge logits :math:`w_{ij}` from node embeddings :math:`[\mathbf{h}_i; \mathbf{h}_j]`.

    A two-layer MLP, averaged over both directions: a pair of nodes has one logit.

    Args:
        channels: Width of the node embeddings.
        hidden: Width of the hidden layer.
        generator: Source of the initial weights.
    """

    def __init__(self, channels: int, hidden: int = 64, *, generator: torch.Generator) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.empty(2 * channels, hidden))
        self.first_bias = nn.Parameter(torch.empty(hidden))
        self.second = nn.Parameter(torch.empty(hidden))
        self.second_bias = nn.Parameter(torch.empty(()))
        bounds = ((2 * channels) ** -0.5, hidden**-0.5)  # as torch.nn.Linear
        with torch.no_grad():
            for parameter, bound in zip(self.parameters(), [bounds[0]] * 2 + [bounds[1]] * 2,
                                        strict=True):  # fmt: skip
                parameter.uniform_(-bound, bound, generator=generator)

    @property
    def channels(self) -> int:
        """Width of the node embeddings."""
        return int(self.first.shape[0]) // 2

    def forward(self, h: Tensor, edge_index: Tensor) -> Tensor:
        """One logit per column of ``edge_index``, equal for ``(i, j)`` and ``(j, i)``."""
        width = self.channels
        if torch.is_grad_enabled() and width <= NARROW:
            # Gradients of the hidden layer then need not be gathered at the nodes.
            i, j = h.index_select(0, edge_index[0]), h.index_select(0, edge_index[1])
            ways = torch.cat([i, j], dim=1), torch.cat([j, i], dim=1)
            return self._last(*(torch.addmm(self.first_bias, way, self.first) for way in ways))
        # The first layer is a sum over both ends, so it is computed once per node, not per edge.
        near, far = torch.addmm(self.first_bias, h, self.first[:width]), h @ self.first[width:]
        if torch.is_grad_enabled() or edge_index.shape[1] <= CHUNK:
            return self._logits(near, far, edge_index)
        parts = edge_index.split(CHUNK, dim=1)  # type: ignore[no-untyped-call]
        return torch.cat([self._logits(near, far, part) for part in parts])

    def at_edges(self, h: Tensor, graphs: GraphBatch) -> Tensor:
        """One logit per edge of graphs; the two directions between nodes are asked about once."""
        (source, target), reverse = graphs.edge_index, graphs.reverse
        own = torch.arange(graphs.num_edges, device=h.device)
        asked = torch.where((source <= target) | (reverse == own), own, reverse)
        once = (asked == own).nonzero().view(-1)
        logits: Tensor = self(h, graphs.edge_index.index_select(1, once))
        return logits.new_empty(len(own)).scatter_(0, once, logits).index_select(0, asked)

    def _logits(self, near: Tensor, far: Tensor, edge_index: Tensor) -> Tensor:
        i, j = edge_index
        there = near.index_select(0, i).add_(far.index_select(0, j))
        return self._last(there, near.index_select(0, j).add_(far.index_select(0, i)))

    def _last(self, there: Tensor, back: Tensor) -> Tensor:
        """Logits from what enters the hidden layer in both directions, which is overwritten."""
        return (there.relu_() + back.relu_()) @ (self.second / 2) + self.second_bias


def binary_concrete(logits: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    r"""Relaxed Bernoulli sample :math:`\sigma((\log\epsilon - \log(1-\epsilon) + w) / \tau)`."""
    epsilon = torch.rand(logits.shape, generator=generator).to(logits).clamp(1e-4, 1 - 1e-4)
    return ((epsilon.logit() + logits) / temperature).sigmoid()
