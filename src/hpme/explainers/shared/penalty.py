"""What soft masks are charged for: their size and their indecision."""

from __future__ import annotations

from torch import Tensor

from hpme.graphs.segment import segment_mean, segment_sum


def mask_penalty(
    mask: Tensor, segment: Tensor, num_segments: int, *, size: float, entropy: float
) -> Tensor:
    r"""Penalty :math:`c_s \sum_e w_e + c_e \, \mathrm{mean}_e H(w_e)` of every graph.

    Reduced graph by graph, because a sum over a whole batch would shift the balance between
    prediction, size and entropy with the number of graphs in it.

    Args:
        mask: Edge weights :math:`w` in :math:`[0, 1]`.
        segment: Graph number of every edge.
        num_segments: Number of graphs.
        size: :math:`c_s`.
        entropy: :math:`c_e`.
    """
    safe = mask.clamp(1e-6, 1 - 1e-6)  # the slope of the entropy is infinite at 0 and 1
    binary_entropy = -safe * safe.log() - (1 - safe) * (1 - safe).log()
    return size * segment_sum(mask, segment, num_segments) + entropy * segment_mean(
        binary_entropy, segment, num_segments
    )
