"""How good the explanation of one graph is, without ground truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from hpme.explainers.hpme.method.selection import top_nodes
from hpme.explainers.hpme.search.sufficient import Trials

Verdict = Literal["carried", "several", "absence", "unclear"]
CARRIES = 0.5
"""A subgraph that keeps less than this of a prediction does not carry it."""
BEYOND_CHANCE = 0.25
"""By how much more than random nodes a subgraph must keep of a prediction to carry it."""


@dataclass(frozen=True)
class Quality:
    """What interventions on real graphs say about an explanation; 1 is best, 0 worst.

    How near an output is to the explained prediction is the probability of the explained class, or
    for regression one minus the error in units of the spread of predictions.

    Args:
        kept: Does the pooled subgraph carry the prediction into graphs of other predictions? How
            near these hard mixes come to it, beyond what as many random nodes of the graph do.
        lost: Does the prediction go where neutral nodes of such graphs take the place of the pooled
            ones? How far from it the graph is then.
        stable: Does another chain of the search pool the same nodes? Share of common nodes beyond
            chance; ``nan`` if there was one chain only.
        chance: How near as many random nodes of the graph bring the hosts to its prediction.
        verdict: ``"carried"``: the pooled subgraph carries the prediction and random nodes do not.
            ``"several"``: it does, but so does the rest without it. ``"absence"``: any nodes of the
            graph keep it, for it rests on something that is missing; then ``kept``, ``lost`` and
            ``stable`` are 0, since there is nothing to be kept. ``"unclear"``: none of these.
    """

    kept: float
    lost: float
    stable: float
    chance: float
    verdict: Verdict

    def __str__(self) -> str:
        stable = "" if self.stable != self.stable else f", stable {self.stable:.2f}"
        return f"{self.verdict} (kept {self.kept:.2f}, lost {self.lost:.2f}{stable})"


@torch.no_grad()
def quality_of(trials: Trials, rival: nn.Module | None) -> list[Quality]:
    """Quality for the graphs of the trials.

    Args:
        trials: The graphs and their hosts.
        rival: The pool of another chain.
    """
    keep = trials.pooled
    near, chance = trials.inserted(keep), trials.inserted(trials.random(keep))
    rest = trials.without(keep)
    verdicts = [verdict(*row) for row in torch.stack([near, chance, rest], dim=1).tolist()]
    there = torch.tensor([verdict != "absence" for verdict in verdicts]).to(near)
    kept = (near - chance).clamp(min=0) * there
    lost = (1 - rest) * there
    stable = _stable(trials, rival).to(near) * there
    columns = (kept.tolist(), lost.tolist(), stable.tolist(), chance.tolist(), verdicts)
    return [Quality(*values) for values in zip(*columns, strict=True)]


def verdict(near: float, chance: float, rest: float) -> Verdict:
    """What the prediction of a graph rests on.

    Args:
        near: How near the pooled subgraph brings hosts to the prediction.
        chance: How near as many random nodes do.
        rest: How near the graph stays without the pooled subgraph.
    """
    beyond = near - chance
    if beyond >= BEYOND_CHANCE and near >= CARRIES:
        return "several" if rest - chance >= beyond / 2 else "carried"
    return "absence" if chance >= CARRIES else "unclear"


def _stable(trials: Trials, rival: nn.Module | None) -> Tensor:
    """Share of the pooled nodes of every graph that a rival pools, too, beyond chance."""
    graphs, m = trials.mix.graphs, trials.mix.m
    if rival is None:
        return trials.score.new_full((trials.count,), torch.nan)
    other = top_nodes(trials.mix.scores(rival), graphs, m).keep[0]
    both = trials.bound().keep[0] & other
    share = torch.bincount(graphs.batch[both], minlength=graphs.num_graphs) / m.clamp(min=1)
    chance = m / graphs.sizes
    beyond = (share - chance) / (1 - chance).clamp(min=1e-6)
    return torch.where(m < graphs.sizes, beyond, 1.0).clamp(min=0)[: trials.count]


def spread_over(values: Tensor, count: int = 32) -> Tensor:
    """Numbers of at most ``count`` graphs whose predictions ``[B, C]`` cover those of all."""
    classes = values.shape[1] > 1
    order = (values.argmax(1) if classes else values[:, 0]).argsort(stable=True)
    place = torch.linspace(0, len(order) - 1, min(count, len(order))).round().long()
    return order[place]
