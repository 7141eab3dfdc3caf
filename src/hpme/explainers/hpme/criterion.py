"""How good a pool is, without ground truth: does the hard mix keep the prediction?"""

from __future__ import annotations

import torch
from torch import Tensor

from hpme.explainers.hpme.hardmix import HardMix
from hpme.explainers.hpme.mixup import Selection


def criterion(mix: HardMix, selection: Selection, hosts: Tensor) -> Tensor:
    r"""Disagreement and loss ``[P, 2]`` of selections on the same draws of :math:`G'`; low is good.

    Disagreement is one minus the correlation of :math:`f(G^{(mix)})` with :math:`f(G)` over graphs
    and draws, loss is :math:`\mathcal{L}_{pred}` of the hard mix (all weights one). Each alone is
    misled on some dataset: the loss by a confident :math:`f`, the correlation by a pool that
    shifts all predictions alike.

    Args:
        mix: The graphs and how they are mixed.
        selection: Selections ``[P, N]``.
        hosts: Graph numbers ``[D, B]`` shared by all of them.
    """
    count, (draws, graphs) = selection.keep.shape[0], hosts.shape
    context = mix.context
    rows = torch.arange(count).repeat_interleave(draws)
    source = torch.arange(graphs).expand(count * draws, -1)
    output = mix.predict(source, selection[rows], hosts.repeat(count, 1), selection[rows])
    flat = output.flatten(0, 1)
    wanted = context.values.repeat(count * draws, 1).view(count, draws * graphs, -1)
    kept = context.task.values(flat).view_as(wanted)
    target = context.target.repeat(count * draws, *[1] * (context.target.dim() - 1))
    loss = context.task.loss(flat, target).view(count, -1).mean(1)
    return torch.stack([1 - correlation(kept, wanted), loss], dim=1)


def correlation(kept: Tensor, wanted: Tensor) -> Tensor:
    """Pearson correlation over all but the first dimension, columns centred apart."""
    kept = kept - kept.mean(1, keepdim=True)
    wanted = wanted - wanted.mean(1, keepdim=True)
    norm = kept.flatten(1).norm(dim=1) * wanted.flatten(1).norm(dim=1)
    result: Tensor = (kept * wanted).flatten(1).sum(1) / (norm + 1e-9)
    return result


def joint_rank(values: Tensor) -> Tensor:
    """Sum of the ranks by both parts, ties by disagreement; the lowest is the best."""
    ranks: Tensor = values.argsort(dim=0, stable=True).argsort(dim=0).sum(1)
    joint: Tensor = ranks + 1e-3 * values[:, 0]
    return joint
