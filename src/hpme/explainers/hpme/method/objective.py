r"""The losses of the paper (Eqs. bce_loss and finall_loss)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from hpme.explainers.shared.context import Context


def prediction_loss(context: Context, output: Tensor, ids: Tensor) -> Tensor:
    r""":math:`\mathcal{L}_{pred}(f(G), f(G^{(mix)}))` of every graph: cross entropy, or MSE.

    Args:
        context: The frozen target on the graphs.
        output: :math:`f(G^{(mix)})`, one row for each of ``ids``.
        ids: Graph numbers of :math:`G`.
    """
    return context.task.loss(output, context.prediction[ids])


def bce_loss(logits: Tensor, inside: Tensor) -> Tensor:
    r""":math:`\mathcal{L}_{BCE}` (Eq. bce_loss), as a mean over edges in place of the sum.

    Args:
        logits: :math:`w_{ij}`, so that :math:`p_{ij} = \sigma(w_{ij})`.
        inside: Boolean labels :math:`\tilde{\mathbf{M}}`, true inside the pooled subgraph.
    """
    return F.binary_cross_entropy_with_logits(logits, inside.to(logits.dtype))


def summed_bce_loss(logits: Tensor, inside: Tensor, num_graphs: int) -> Tensor:
    r""":math:`\mathcal{L}_{BCE}` (Eq. bce_loss), the sum over the edges of a graph as printed.

    Args:
        logits: :math:`w_{ij}` of every edge of a batch, both directions.
        inside: As in :func:`bce_loss`.
        num_graphs: Number of graphs in the batch; the result is the mean of their sums.
    """
    total = F.binary_cross_entropy_with_logits(logits, inside.to(logits.dtype), reduction="sum")
    return total / num_graphs


def final_loss(prediction: Tensor, bce: Tensor, beta: float) -> Tensor:
    r""":math:`\mathcal{L} = \mathcal{L}_{pred} + \beta \mathcal{L}_{BCE}` (Eq. finall_loss).

    Args:
        prediction: :func:`prediction_loss` of every graph.
        bce: :func:`bce_loss` or :func:`summed_bce_loss`.
        beta: :math:`\beta`; 0 is the paper's w/o BCE.
    """
    loss = prediction.mean()
    return loss + beta * bce if beta else loss
