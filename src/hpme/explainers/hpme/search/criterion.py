"""How far outputs on hard mixes are from the predictions they should keep; no ground truth needed.

A pool is judged by :func:`criterion`, a single subset by :func:`bounded_loss`, a single explanation
by :func:`closeness`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hpme.explainers.hpme.method.pool import Selection
from hpme.explainers.hpme.method.training import prediction_loss
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.shared.context import Context

BY_CHANCE = 0.5
"""Random regions that disagree less keep predictions as well: a pool of this size says little."""


def criterion(
    mix: HardMix, selection: Selection, hosts: Tensor, removed: Selection | None = None
) -> Tensor:
    r"""Disagreement and loss ``[P, 2]`` of selections on the same draws of :math:`G'`; low is good.

    Disagreement is one minus the correlation of :math:`f(G^{(mix)})` with :math:`f(G)` over graphs
    and draws, loss is :math:`\mathcal{L}_{pred}` of the hard mix (all weights one). Each alone is
    misled on some dataset: the loss by a confident :math:`f`, the correlation by a pool that
    shifts all predictions alike. What is ``removed`` makes room in the hosts ``[D, B]``; by default
    the same selections.
    """
    removed = selection if removed is None else removed
    count, (draws, graphs) = selection.keep.shape[0], hosts.shape
    context = mix.context
    rows = torch.arange(count, device=hosts.device).repeat_interleave(draws)
    source = torch.arange(graphs, device=hosts.device).expand(count * draws, -1)
    output = mix.predict(source, selection[rows], hosts.repeat(count, 1), removed[rows])
    flat, ids = output.flatten(0, 1), source.flatten()
    wanted = context.values[ids].view(count, draws * graphs, -1)
    kept = context.task.values(flat).view_as(wanted)
    loss = prediction_loss(context, flat, ids).view(count, -1).mean(1)
    kept, wanted = ((part - part.mean(1, keepdim=True)).flatten(1) for part in (kept, wanted))
    correlation = (kept * wanted).sum(1) / (kept.norm(dim=1) * wanted.norm(dim=1) + 1e-9)
    return torch.stack([1 - correlation, loss], dim=1)


def joint_rank(values: Tensor) -> Tensor:
    """Sum of the ranks by all columns, ties by the first; the lowest is the best."""
    ranks: Tensor = values.argsort(dim=0, stable=True).argsort(dim=0).sum(1)
    joint: Tensor = ranks + 1e-3 * values[:, 0]
    return joint


def closeness(context: Context, output: Tensor, wanted: Tensor) -> Tensor:
    """How near outputs ``[R, B, C]`` are to predictions of graphs ``[R, B]``, from 0 to 1.

    The probability of the predicted class, or one minus the error in units of the spread of
    predictions.
    """
    values = context.task.values(output.flatten(0, 1)).view(*wanted.shape, -1)
    predicted = context.prediction[wanted]
    if context.task.classification:
        return values.gather(2, predicted.unsqueeze(2)).squeeze(2)
    return (1 - (values - predicted).abs().mean(2)).clamp(min=0)


def outcome(context: Context, output: Tensor, ids: Tensor) -> Tensor:
    """The explained number ``[R, B]`` of outputs ``[R, B, C]``; as :func:`value_of`."""
    values = context.task.values(output.flatten(0, 1)).view(*output.shape[:2], -1)
    return value_of(context, values, ids)


def value_of(context: Context, values: Tensor, ids: Tensor) -> Tensor:
    """The explained number ``[R, B]``: probability of the explained class, or value in its unit.

    Of ``Task.values`` ``[R, B, C]``. The predicted classes of the graphs ``ids`` ``[B]`` count,
    unless a class was asked for.
    """
    if not context.task.classification:
        return values.mean(2) * context.task.scale
    chosen = torch.ones_like(ids) if context.adapter.view.asked else context.prediction[ids]
    return values.gather(2, chosen.view(1, -1, 1).expand(len(values), -1, 1)).squeeze(2)


def bounded_loss(context: Context, output: Tensor, wanted: Tensor) -> Tensor:
    r""":math:`\mathcal{L}_{pred}`, at most 1 for classes and 4 for values; as :func:`closeness`.

    A confident model makes unbounded losses depend on a few graphs.
    """
    if context.task.classification:
        return 1 - closeness(context, output, wanted)
    values = context.task.values(output.flatten(0, 1)).view(*wanted.shape, -1)
    return ((values - context.prediction[wanted]) ** 2).mean(2).clamp(max=4)
