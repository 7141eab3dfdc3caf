r"""The mask :math:`\mathbf{M}^{(mix)}` on the edges of a mixup graph."""

from __future__ import annotations

import torch
from torch import Tensor


def mix_mask(weight: Tensor, transplanted: Tensor, *, mixup: bool = True) -> Tensor:
    r""":math:`\mathbf{M}^{(mix)} = (1 - \mathbf{W}) \odot (\mathbf{A}' - \mathbf{S}'(\mathbf{A}')^*\mathbf{S}'^\top) + \mathbf{W} \odot (\mathbf{S}'\mathbf{A}^*\mathbf{S}'^\top)`.

    An edge of the inserted subgraph weighs :math:`\hat{w}_{ij}`, an edge of the host what that
    leaves.

    Args:
        weight: :math:`\hat{w}_{ij}` of every pair, or its expectation :math:`p_{ij}`.
        transplanted: Boolean pair mask :math:`\tilde{\mathbf{M}}` of the inserted subgraph.
        mixup: If false, edges outside the inserted subgraph weigh nothing (the paper's w/o Mix).
    """  # noqa: E501
    outside = 1 - weight if mixup else torch.zeros_like(weight)
    return torch.where(transplanted, weight, outside)
