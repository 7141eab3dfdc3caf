"""How good the explanation of one graph is, without ground truth."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hpme.explainers.hpme.hardmix import HardMix
from hpme.explainers.hpme.mixup import Selection
from hpme.explainers.hpme.pool import Pool
from hpme.explainers.hpme.search import selection_of


@dataclass(frozen=True)
class Quality:
    """Three questions to an explanation; 1 is the best answer to each, 0 the worst.

    Args:
        kept: Does the pooled subgraph carry the prediction into graphs of other predictions? Mean
            probability of the explained class in these hard mixes; for regression one minus the
            error in units of the spread of predictions.
        lost: Does the rest lose it, once the pooled subgraph of such a graph takes its place?
            One minus the same mean.
        stable: Does another restart pool the same nodes? Share of common nodes; ``nan`` if there
            was one restart only.
    """

    kept: float
    lost: float
    stable: float

    def __str__(self) -> str:
        stable = "" if self.stable != self.stable else f", stable {self.stable:.2f}"
        return f"kept {self.kept:.2f}, lost {self.lost:.2f}{stable}"


@torch.no_grad()
def quality_of(
    mix: HardMix, count: int, pool: Pool, rival: Pool | None, *, draws: int = 3
) -> list[Quality]:
    """Quality for the first ``count`` graphs of a mix; the others are their hosts.

    Each graph meets the hosts whose predictions are farthest from its own, so the answer depends
    neither on chance nor on what else is asked about.
    """
    context = mix.context
    chosen = selection_of(mix, pool)
    distance = torch.cdist(context.values[:count].double(), context.values[count:].double())
    draws = min(draws, distance.shape[1])
    hosts = count + distance.topk(draws, dim=1).indices.T
    own = torch.arange(count).expand(draws, -1)
    rows = torch.zeros(draws, dtype=torch.long)
    everywhere = chosen[rows]
    target = context.target[:count]
    kept = _closeness(mix, mix.predict(own, everywhere, hosts, everywhere), target)
    rest = _closeness(mix, mix.predict(hosts, everywhere, own, everywhere), target)
    stable = _overlap(mix, chosen, rival)[:count]
    columns = (kept.tolist(), (1 - rest).tolist(), stable.tolist())
    return [Quality(*values) for values in zip(*columns, strict=True)]


def _closeness(mix: HardMix, output: Tensor, target: Tensor) -> Tensor:
    """Mean over draws of how near outputs ``[D, B, C]`` are to the explained predictions."""
    values = mix.context.task.values(output.flatten(0, 1)).view(*output.shape[:2], -1)
    if mix.context.task.classification:
        index = target.view(1, -1, 1).expand(values.shape[0], -1, 1)
        return values.gather(2, index).squeeze(2).mean(0)
    return (1 - (values - target).abs().mean(2)).clamp(min=0).mean(0)


def _overlap(mix: HardMix, chosen: Selection, rival: Pool | None) -> Tensor:
    graphs = mix.context.store.batch()
    if rival is None:
        return torch.full((graphs.num_graphs,), torch.nan)
    both = chosen.keep[0] & selection_of(mix, rival).keep[0]
    common = torch.bincount(graphs.batch[both], minlength=graphs.num_graphs)
    pooled = torch.bincount(graphs.batch[chosen.keep[0]], minlength=graphs.num_graphs)
    return common / pooled.clamp(min=1)


def spread_over(values: Tensor, count: int = 32) -> Tensor:
    """Numbers of at most ``count`` graphs whose predictions ``[B, C]`` cover those of all."""
    classes = values.shape[1] > 1
    order = (values.argmax(1) if classes else values[:, 0]).argsort(stable=True)
    place = torch.linspace(0, len(order) - 1, min(count, len(order))).round().long()
    return order[place]
