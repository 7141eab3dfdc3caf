r"""The hard perturbation operator :math:`Q_\phi` (Eq. graph_pooling), and the nodes :math:`I^L` it keeps."""  # noqa: E501

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hpme.errors import InputError
from hpme.graphs import GraphBatch
from hpme.graphs.segment import rank_in_segment, ties_in_segment


@dataclass(frozen=True)
class PoolSize:
    r"""Number of preserved nodes :math:`m`: :math:`\lfloor r n \rfloor` of a graph, or ``k``."""

    ratio: float | None = None
    k: int | None = None

    def __post_init__(self) -> None:
        if (self.ratio is None) == (self.k is None):
            raise InputError("give the pooled size either as ratio=... or as k=..., not both")
        if self.ratio is not None and not 0 < self.ratio <= 1:
            raise InputError(f"ratio must lie in (0, 1], got {self.ratio}")

    def __call__(self, sizes: Tensor) -> Tensor:
        """Preserved nodes of graphs with the given numbers of nodes; two make the least edge."""
        m = (sizes * (self.ratio or 0) + 1e-4).floor().long() + (self.k or 0)
        return torch.minimum(m.clamp(min=2), sizes)


@dataclass(frozen=True)
class Selection:
    """Pooled nodes of a batch of graphs."""

    keep: Tensor  # boolean node mask, I^L
    order: Tensor  # rank of each in its graph: which takes the place of which

    def __getitem__(self, index: object) -> Selection:
        return Selection(self.keep[index], self.order[index])  # type: ignore[index]

    def at(self, places: Tensor) -> Selection:
        """Some of the nodes, counted through all selections of a stack."""
        return Selection(*(v.flatten().index_select(0, places) for v in (self.keep, self.order)))


def top_nodes(score: Tensor, graphs: GraphBatch, m: Tensor) -> Selection:
    """The :math:`m` nodes of highest score of every graph (Eq. graph_pooling), best first.

    Scores are ``[P, N]``, a row per selection. Anchors come first, whatever theirs: a graph is
    about them. The ``order`` ranks all nodes, also those that are not pooled.
    """
    if graphs.anchor_order is not None:
        first = torch.finfo(torch.float32).max / (1 + graphs.anchor_order)
        is_anchor = graphs.anchor_order < graphs.anchors_per_graph
        score = torch.where(is_anchor, first.to(score.dtype), score)
    stack = torch.arange(score.shape[0], device=score.device).unsqueeze(1)
    segment = (stack * graphs.num_graphs + graphs.batch).flatten()
    ptr = (stack * graphs.num_nodes + graphs.ptr).flatten()
    rank = rank_in_segment(score.flatten(), segment, ptr).view_as(score)
    return Selection(rank < m.index_select(0, graphs.batch), rank)


def tied(score: Tensor, selection: Selection, graphs: GraphBatch) -> Tensor:
    """Ranks of the first of several selections by score; equal scores share the lowest."""
    order = graphs.anchor_order
    anchors = None if order is None else order < graphs.anchors_per_graph
    row = score[0].detach()
    return ties_in_segment(row, selection.order[0], graphs.batch, graphs.ptr, anchors)


def by_boundary(keep: Tensor, graphs: GraphBatch, generator: torch.Generator | None) -> Selection:
    """Orders pooled nodes by the number of edges that leave the pooled subgraph, ties at random.

    Matching by node number would leak how a generator numbers its motifs. ``keep`` is ``[P, N]``;
    without a generator the first node comes first.
    """
    source, target = graphs.edge_index
    noise = torch.zeros(keep.shape)
    if generator is not None:
        noise = torch.rand(keep.shape, generator=generator)
    outside = (~keep).index_select(1, target).to(graphs.float_dtype)
    noise = noise.to(graphs.x.device, graphs.float_dtype)
    leaving = (0.5 * noise).index_add(1, source, outside)
    score = torch.where(keep, leaving, -1.0)
    return Selection(keep, top_nodes(score, graphs, graphs.sizes).order)


def propagate(h: Tensor, graphs: GraphBatch, keep: Tensor | None = None) -> Tensor:
    r"""GCN-normalised average ``[N, d]`` of rows over neighbours; only edges in ``keep`` count."""
    source, target = graphs.edge_index
    alive = torch.ones_like(source) if keep is None else keep[source] & keep[target]
    scale = h.new_ones(len(h)).index_add(0, target, alive.to(h.dtype)).rsqrt()
    edge_norm = (alive * scale[source] * scale[target]).unsqueeze(-1)
    return (h * (scale**2).unsqueeze(-1)).index_add(0, target, h[source] * edge_norm)


MAX_LAYERS = 64
"""More would leave nothing to pool."""


class Pool(nn.Module):
    r"""Scores nodes by :math:`\mathbf{z} = \mathrm{ReLU}(\mathrm{GCNConv}(\mathbf{H}))`,
    :math:`s = \mathbf{z} \cdot \mathbf{p} / \lVert \mathbf{p} \rVert` (Eq. graph_pooling), of which
    the :math:`m` best are preserved.

    With several layers, each preserves an equal share of the nodes left by the one before,
    multiplied by :math:`\tanh(s)` as in ``TopKPooling``.

    Args:
        channels: Width of the node embeddings.
        layers: Number of pooling layers :math:`L`.
        generator: Source of the initial weights.
    """

    def __init__(self, channels: int, layers: int = 1, *, generator: torch.Generator) -> None:
        super().__init__()
        if not 1 <= layers <= MAX_LAYERS:
            raise InputError(f"a pool has 1 to {MAX_LAYERS} layers, got {layers}")
        bound = (3 / channels) ** 0.5
        weight = torch.empty(layers, channels, channels)
        self.weight = nn.Parameter(weight.uniform_(-bound, bound, generator=generator))
        self.bias = nn.Parameter(torch.zeros(layers, channels))
        projection = torch.randn(layers, channels, generator=generator)
        self.projection = nn.Parameter(projection / channels**0.5)

    @property
    def layers(self) -> int:
        """Number of pooling layers :math:`L`."""
        return len(self.bias)

    def forward(self, features: Tensor, graphs: GraphBatch, m: Tensor) -> Tensor:
        r"""Scores ``[1, N]``; the ``m`` highest of every graph are its pooled nodes.

        Args:
            features: :func:`propagate` of the node embeddings, ``[N, d]``.
            graphs: The graphs.
            m: Preserved nodes of every graph.
        """
        score, z = self._layer(0, features)
        for layer in range(1, self.layers):
            # A node dropped by an earlier layer must rank below every node that goes on.
            share = (m / graphs.sizes.clamp(min=1)) ** (layer / self.layers)
            left = torch.maximum(m, (graphs.sizes * share).round().long())
            keep = top_nodes(score.unsqueeze(0), graphs, left).keep[0]
            gated = z * (score.tanh() * keep).unsqueeze(-1)
            next_score, z = self._layer(layer, propagate(gated, graphs, keep))
            dropped = score.detach() - score.detach().amax() + next_score.detach().amin() - 1
            score = torch.where(keep, next_score, dropped)
        return score.unsqueeze(0)

    def _layer(self, layer: int, average: Tensor) -> tuple[Tensor, Tensor]:
        z = (average @ self.weight[layer] + self.bias[layer]).relu()
        direction = self.projection[layer]
        return z @ (direction / direction.norm()), z
