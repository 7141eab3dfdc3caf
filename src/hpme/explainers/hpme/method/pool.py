r"""The hard perturbation operator :math:`Q_\phi`: what it keeps of a graph (Eq. graph_pooling)."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hpme.errors import InputError
from hpme.explainers.hpme.method.selection import top_nodes
from hpme.graphs import GraphBatch


@dataclass(frozen=True)
class PoolSize:
    r"""Number of preserved nodes :math:`m`: a share of each graph's nodes, or a constant.

    Args:
        ratio: :math:`r`, so that :math:`m = \lfloor r n \rfloor`.
        k: :math:`m` itself.
    """

    ratio: float | None = None
    k: int | None = None

    def __post_init__(self) -> None:
        if (self.ratio is None) == (self.k is None):
            raise InputError("give the pooled size either as ratio=... or as k=..., not both")
        if self.ratio is not None and not 0 < self.ratio <= 1:
            raise InputError(f"ratio must lie in (0, 1], got {self.ratio}")
        for name, value in (("ratio", self.ratio), ("k", self.k)):
            if isinstance(value, bool):
                raise InputError(f"{name} must be a number, got {value}")
        if self.k is not None and self.k != int(self.k):
            raise InputError(f"k must be a whole number, got {self.k}")
        if self.k is not None and self.k < 1:
            raise InputError(f"k must be at least 1, got {self.k}")

    def __call__(self, sizes: Tensor) -> Tensor:
        """Preserved nodes of graphs with the given numbers of nodes; two make the least edge."""
        if self.k is not None:
            m = torch.full_like(sizes, self.k)
        else:
            assert self.ratio is not None
            m = (sizes * self.ratio + 1e-4).floor().long()
        return torch.minimum(m.clamp(min=2), sizes)


def propagate(h: Tensor, graphs: GraphBatch, keep: Tensor) -> Tensor:
    r"""GCN-normalised neighbourhood average inside what is left of the graphs.

    Args:
        h: Node rows ``[P, N, d]``.
        graphs: The graphs.
        keep: Boolean ``[P, N]``; only edges between kept nodes count.
    """
    source, target = graphs.edge_index
    alive = (keep[:, source] & keep[:, target]).to(h.dtype)
    degree = torch.ones_like(keep, dtype=h.dtype).index_add(1, target, alive)
    scale = degree.rsqrt()
    edge_norm = (alive * scale[:, source] * scale[:, target]).unsqueeze(-1)
    return (h * (scale**2).unsqueeze(-1)).index_add(1, target, h[:, source] * edge_norm)


MAX_LAYERS = 64
"""More would leave nothing to pool."""


class Pool(nn.Module):
    r"""A stack of :math:`P` pooling operators, evaluated together.

    Each scores nodes by :math:`\mathbf{z} = \mathrm{ReLU}(\mathrm{GCNConv}(\mathbf{H}))`,
    :math:`s = \mathbf{z} \cdot \mathbf{p} / \lVert \mathbf{p} \rVert` (Eq. graph_pooling) and
    preserves the :math:`m` best. Since :math:`\hat{\mathbf{A}}(\mathbf{H}\mathbf{W}) =
    (\hat{\mathbf{A}}\mathbf{H})\mathbf{W}`, the neighbourhood average is computed once for all
    operators. With several layers, each preserves an equal share of the nodes left by the one
    before, multiplied by :math:`\tanh(s)` as in ``TopKPooling``.

    Args:
        channels: Width of the node embeddings.
        count: Number of operators :math:`P`.
        layers: Number of pooling layers :math:`L`.
        hops: Powers of :math:`\hat{\mathbf{A}}` whose :math:`\hat{\mathbf{A}}^k\mathbf{H}` the
            first layer sees side by side; ``(1,)`` is the paper's GCN layer.
        generator: Source of the initial weights.
    """

    def __init__(
        self,
        channels: int,
        count: int = 1,
        layers: int = 1,
        hops: tuple[int, ...] = (1,),
        *,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        if not 1 <= layers <= MAX_LAYERS:
            raise InputError(f"a pool has 1 to {MAX_LAYERS} layers, got {layers}")
        self.hops = hops

        def glorot(rows: int) -> Tensor:
            bound = (6 / (rows + channels)) ** 0.5
            return torch.empty(count, rows, channels).uniform_(-bound, bound, generator=generator)

        widths = [len(hops) * channels] + [channels] * (layers - 1)
        self.weights = nn.ParameterList([glorot(width) for width in widths])
        self.bias = nn.Parameter(torch.zeros(count, layers, channels))
        projection = torch.randn(count, layers, channels, generator=generator)
        self.projection = nn.Parameter(projection / channels**0.5)

    @property
    def count(self) -> int:
        """Number of operators :math:`P`."""
        return int(self.bias.shape[0])

    @property
    def layers(self) -> int:
        """Number of pooling layers :math:`L`."""
        return int(self.bias.shape[1])

    def pick(self, index: Tensor) -> Pool:
        """The operators with the given numbers, as a stack of their own."""
        return self._like([parameter.detach()[index] for parameter in self.parameters()])

    def merge(self, *others: Pool) -> Pool:
        """This stack followed by others of the same form."""
        columns = zip(*(pool.parameters() for pool in (self, *others)), strict=True)
        return self._like([torch.cat([p.detach() for p in column]) for column in columns])

    def _like(self, values: list[Tensor]) -> Pool:
        clone = copy.deepcopy(self)
        for (name, parameter), value in zip(list(clone.named_parameters()), values, strict=True):
            owner, _, leaf = name.rpartition(".")
            new = nn.Parameter(value.clone(), requires_grad=parameter.requires_grad)
            setattr(clone.get_submodule(owner), leaf, new)
        return clone

    def forward(self, features: Tensor, graphs: GraphBatch, m: Tensor) -> Tensor:
        r"""Scores ``[P, N]``; the ``m`` highest of every graph are its pooled nodes.

        Args:
            features: :func:`hop_features` of the node embeddings.
            graphs: The graphs.
            m: Preserved nodes of every graph.
        """
        seen = torch.cat([features[hop] for hop in self.hops], dim=1)
        score, z = self._layer(0, seen.expand(self.count, -1, -1))
        for layer in range(1, self.layers):
            # A node dropped by an earlier layer must rank below every node that goes on.
            share = (m / graphs.sizes.clamp(min=1)) ** (layer / self.layers)
            left = torch.maximum(m, (graphs.sizes * share).round().long())
            keep = top_nodes(score, graphs, left).keep
            gated = z * (score.tanh() * keep).unsqueeze(-1)
            next_score, z = self._layer(layer, propagate(gated, graphs, keep))
            dropped = score.detach() - score.detach().amax() + next_score.detach().amin() - 1
            score = torch.where(keep, next_score, dropped)
        return score

    def _layer(self, layer: int, average: Tensor) -> tuple[Tensor, Tensor]:
        z = (average @ self.weights[layer] + self.bias[:, layer].unsqueeze(1)).relu()
        direction = self.projection[:, layer]
        direction = direction / direction.norm(dim=1, keepdim=True)
        return (z @ direction.unsqueeze(-1)).squeeze(-1), z


def hop_features(h: Tensor, graphs: GraphBatch, hops: int = 2) -> Tensor:
    r""":math:`\hat{\mathbf{A}}^k \mathbf{H}` for :math:`k = 0 .. hops`, as ``[hops + 1, N, d]``."""
    source, target = graphs.edge_index
    degree = 1 + torch.bincount(target, minlength=graphs.num_nodes).to(h.dtype)
    scale = degree.rsqrt().unsqueeze(-1)
    edge_norm, self_norm = scale[source] * scale[target], scale**2
    features = [h]
    for _ in range(hops):
        message = features[-1].index_select(0, source) * edge_norm
        features.append((features[-1] * self_norm).index_add(0, target, message))
    return torch.stack(features)
