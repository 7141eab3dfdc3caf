"""What a scorer sees of a node: what the model sees of it, at every depth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hpme.errors import ModelError
from hpme.explainers.hpme.method.pool import hop_features
from hpme.graphs import GraphBatch

HOPS = 2
"""Hops over which input features and embeddings are averaged."""
WIDEST = 64
"""Wider blocks are seen through as many of their principal directions."""
SUMMARY = 32
"""Principal directions of all blocks together that the edge MLP sees; it need not see more."""
SUMMARY_SCALE = 5.0
"""Blocks have unit variance in total; the edge MLP learns faster from larger numbers."""


class Representation(nn.Module):
    r"""Blocks of node features side by side, none louder than another.

    Blocks are the degree, the input features and :math:`\mathbf{H}`, each also averaged over one
    and two hops (:math:`\hat{\mathbf{A}}\mathbf{H}`, :math:`\hat{\mathbf{A}}^2\mathbf{H}`), and the
    output of every message-passing layer.
    After several rounds of message passing "is a nitrogen" is smeared over the neighbourhood, so
    :math:`\mathbf{H}` alone cannot express it. Each block is centred and divided by its total
    standard deviation; a penalty on weights then treats all depths alike, and inside a block
    channels keep their proportions, so that a rare one is not blown up.

    Args:
        widths: Width of every block.
        widest: Wider blocks are seen through as many of their principal directions.
    """

    def __init__(self, widths: Sequence[int], widest: int = WIDEST) -> None:
        super().__init__()
        self.widths, self.widest = tuple(widths), widest
        for number, width in enumerate(self.widths):
            self.register_buffer(f"mean_{number}", torch.zeros(width))
            self.register_buffer(f"map_{number}", torch.zeros(width, min(width, widest)))
        self.register_buffer("summary", torch.zeros(self.channels, min(self.channels, SUMMARY)))

    @classmethod
    def of(cls, blocks: Sequence[Tensor], widest: int = WIDEST) -> Representation:
        """Takes centres, scales and directions from the blocks ``[N, width]`` of some nodes."""
        representation = cls([block.shape[1] for block in blocks], widest)
        for number, block in enumerate(blocks):
            mean = block.mean(0)
            centred = block - mean
            total = centred.square().mean(0).sum().sqrt()
            basis = (
                _principal(centred, widest)
                if block.shape[1] > widest
                else torch.eye(len(mean), device=mean.device)
            )
            if float(total) > 1e-6 * float(block.abs().max().clamp(min=1e-30)):
                basis = basis.to(block) / total
            else:  # all nodes alike: rounding errors must not be scaled up
                basis = torch.zeros_like(basis)
            representation.register_buffer(f"mean_{number}", mean)
            representation.register_buffer(f"map_{number}", basis.to(mean))
        features = representation(blocks)
        summary = _principal(features - features.mean(0), SUMMARY)
        representation.register_buffer("summary", SUMMARY_SCALE * summary)
        return representation

    @property
    def channels(self) -> int:
        """Width of the whole."""
        return sum(min(width, self.widest) for width in self.widths)

    def forward(self, blocks: Sequence[Tensor]) -> Tensor:
        """Features ``[N, channels]`` of nodes."""
        parts = [
            (block - self.get_buffer(f"mean_{number}")) @ self.get_buffer(f"map_{number}")
            for number, block in enumerate(blocks)
        ]
        return torch.cat(parts, dim=1)

    def summarised(self, features: Tensor) -> Tensor:
        """The principal directions of features ``[N, channels]``."""
        summary: Tensor = features @ self.get_buffer("summary")
        return summary

    def reading(self, weights: Tensor) -> Reading:
        """``weights [channels, C]`` of features, to be read without the features themselves."""
        widths = [min(width, self.widest) for width in self.widths]
        rows = weights.split(widths)  # type: ignore[no-untyped-call]
        maps = [self.get_buffer(f"map_{number}") @ row for number, row in enumerate(rows)]
        means = [self.get_buffer(f"mean_{number}") for number in range(len(maps))]
        own, *hops = ((1 + hop, len(maps) - HOPS - 1 + hop) for hop in range(HOPS + 1))
        here = (0, *range(HOPS + 2, len(maps) - HOPS - 1), *own)
        away = torch.cat([torch.cat([maps[b] for b in hop]) for hop in hops[::-1]], dim=1)
        centre = torch.cat([means[number] for number in own])
        lost = torch.stack([means[number] @ maps[number] for hop in hops for number in hop]).sum(0)
        return Reading(
            centre=torch.cat([*(means[number] for number in here), centre.new_zeros(1)]),
            here=torch.cat([*(maps[number] for number in here), -lost.unsqueeze(0)]),
            away=torch.cat([away, (centre @ away).unsqueeze(0)]),
        )


@dataclass(frozen=True)
class Reading:
    r"""Weighted features of nodes, from what they are made of.

    Averages over hops are linear, so only what is wanted takes the way over the edges:
    :math:`\hat{\mathbf{A}}^2 \mathbf{H} \mathbf{W}_2 + \hat{\mathbf{A}} \mathbf{H} \mathbf{W}_1 =
    \hat{\mathbf{A}} (\hat{\mathbf{A}} \mathbf{H} \mathbf{W}_2 + \mathbf{H} \mathbf{W}_1)`.
    Numbers are centred before they are weighed, for the sake of their digits; a column of ones,
    the last, brings back what averages keep of the centre.

    Args:
        centre: Mean of degree, layers, input features, :math:`\mathbf{H}`; 0 for the ones.
        here: Weights of these, ``[K, C]``.
        away: Weights of the last of them two hops and one hop away, side by side, ``[k, 2 C]``.
    """

    centre: Tensor
    here: Tensor
    away: Tensor

    def __call__(
        self, x: Tensor, layers: Sequence[Tensor], h: Tensor, graphs: GraphBatch
    ) -> Tensor:
        """What is wanted of every node, ``[N, C]``; arguments are those of :func:`blocks_of`."""
        source, start = graphs.incoming
        count = start.diff().to(h).unsqueeze(1)
        seen = torch.cat([count.log1p(), *layers, x.to(h), h, torch.ones_like(count)], dim=1)
        if seen.shape[1] != len(self.centre):
            raise ModelError(
                f"the explainer was fitted to a model whose layers and features have "
                f"{len(self.centre) - 2} channels together, those of this one have "
                f"{seen.shape[1] - 2}; explain that model, or fit again"
            )
        seen = seen.sub_(self.centre)
        scale = (1 + count).rsqrt()
        far, near = (seen[:, -len(self.away) :] @ self.away).chunk(2, dim=1)
        far = _with_neighbours(far * scale, source, start)
        far = _with_neighbours((far * scale + near) * scale, source, start)
        return far.mul_(scale).addmm_(seen, self.here)


def _with_neighbours(rows: Tensor, source: Tensor, start: Tensor) -> Tensor:
    """Every row plus those of the nodes with an edge to it."""
    summed = F.embedding_bag(source, rows, start, mode="sum", include_last_offset=True)
    return summed.add_(rows)


def blocks_of(
    x: Tensor, layers: Sequence[Tensor], h: Tensor, graphs: GraphBatch
) -> tuple[Tensor, ...]:
    r"""The blocks of :class:`Representation`.

    Args:
        x: Input features.
        layers: Output of every message-passing layer.
        h: Node embeddings :math:`\mathbf{H}`.
        graphs: The graphs.
    """
    degree = torch.bincount(graphs.edge_index[1], minlength=graphs.num_nodes).to(h)
    depth = hop_features(x.to(h), graphs, HOPS)
    return (degree.log1p().unsqueeze(1), *depth, *layers, *hop_features(h, graphs, HOPS))


def _principal(centred: Tensor, count: int) -> Tensor:
    """The ``count`` directions of largest variance, ``[width, count]``, or all there are."""
    covariance = centred.T.double() @ centred.double()
    directions: Tensor = torch.linalg.eigh(covariance).eigenvectors
    # Saved tensors come back contiguous, and products of others are rounded differently.
    return directions[:, -count:].to(centred).contiguous()
