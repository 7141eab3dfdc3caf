"""How good the explanation of one graph is, without ground truth."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hpme.explainers.hpme.method.selection import Selection
from hpme.explainers.hpme.search.criterion import closeness
from hpme.explainers.hpme.search.hardmix import HardMix


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
    mix: HardMix, count: int, pool: nn.Module, rival: nn.Module | None, *, draws: int = 3
) -> list[Quality]:
    """Quality for the first ``count`` graphs of a mix; the others are their hosts.

    Each graph meets the hosts whose predictions are farthest from its own, so the answer depends
    neither on chance nor on what else is asked about.
    """
    context = mix.context
    chosen = mix.select(mix.scores(pool))
    distance = torch.cdist(context.values[:count].double(), context.values[count:].double())
    draws = min(draws, distance.shape[1])
    hosts = count + distance.topk(draws, dim=1).indices.T
    own = torch.arange(count).expand(draws, -1)
    pooled = chosen[torch.zeros(draws, dtype=torch.long)]
    kept = closeness(context, mix.predict(own, pooled, hosts, pooled), own).mean(0)
    rest = closeness(context, mix.predict(hosts, pooled, own, pooled), own).mean(0)
    stable = _common(mix, chosen, rival)[:count]
    columns = (kept.tolist(), (1 - rest).tolist(), stable.tolist())
    return [Quality(*values) for values in zip(*columns, strict=True)]


def _common(mix: HardMix, chosen: Selection, rival: nn.Module | None) -> Tensor:
    """Share of the pooled nodes of every graph that a rival pools, too."""
    graphs = mix.graphs
    if rival is None:
        return torch.full((graphs.num_graphs,), torch.nan)
    both = chosen.keep[0] & mix.select(mix.scores(rival)).keep[0]
    common = torch.bincount(graphs.batch[both], minlength=graphs.num_graphs)
    pooled = torch.bincount(graphs.batch[chosen.keep[0]], minlength=graphs.num_graphs)
    return common / pooled.clamp(min=1)


def spread_over(values: Tensor, count: int = 32) -> Tensor:
    """Numbers of at most ``count`` graphs whose predictions ``[B, C]`` cover those of all."""
    classes = values.shape[1] > 1
    order = (values.argmax(1) if classes else values[:, 0]).argsort(stable=True)
    place = torch.linspace(0, len(order) - 1, min(count, len(order))).round().long()
    return order[place]
