"""What a scorer sees of a node: what the model sees of it, at every depth."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hpme.explainers.hpme.method.pool import hop_features
from hpme.graphs import GraphBatch

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
    depth = hop_features(x.to(h), graphs)
    return (degree.log1p().unsqueeze(1), *depth, *layers, *hop_features(h, graphs))


def _principal(centred: Tensor, count: int) -> Tensor:
    """The ``count`` directions of largest variance, ``[width, count]``, or all there are."""
    covariance = centred.T.double() @ centred.double()
    directions: Tensor = torch.linalg.eigh(covariance).eigenvectors
    # Saved tensors come back contiguous, and products of others are rounded differently.
    return directions[:, -count:].to(centred).contiguous()
