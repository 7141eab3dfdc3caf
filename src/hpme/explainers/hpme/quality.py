"""How good the explanation of a graph is, and what else carries its prediction; no labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hpme.explainers.hpme.method.pool import top_nodes
from hpme.explainers.hpme.transplants import Transplants
from hpme.graphs import GraphBatch

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
def quality_of(transplants: Transplants, rival: nn.Module | None) -> list[Quality]:
    """Quality for the graphs of the transplants.

    Args:
        transplants: The graphs and their hosts.
        rival: The pool of another chain.
    """
    keep = transplants.pooled
    near, chance = transplants.inserted(keep), transplants.inserted(transplants.random(keep))
    rest = transplants.without(keep)
    verdicts = [verdict(*row) for row in torch.stack([near, chance, rest], dim=1).tolist()]
    there = torch.tensor([verdict != "absence" for verdict in verdicts]).to(near)
    kept = (near - chance).clamp(min=0) * there
    lost = (1 - rest) * there
    stable = _stable(transplants, rival).to(near) * there
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


def _stable(transplants: Transplants, rival: nn.Module | None) -> Tensor:
    """Share of the pooled nodes of every graph that a rival pools, too, beyond chance."""
    graphs, m = transplants.graphs, transplants.mix.m
    if rival is None:
        return transplants.score.new_full((transplants.count,), torch.nan)
    other = top_nodes(transplants.mix.scores(rival), graphs, m).keep[0]
    both = transplants.pool & other
    share = transplants.sizes(both) / m.clamp(min=1)
    chance = m / graphs.sizes
    beyond = (share - chance) / (1 - chance).clamp(min=1e-6)
    return torch.where(m < graphs.sizes, beyond, 1.0).clamp(min=0)[: transplants.count]


@dataclass(frozen=True)
class Alternative:
    """A subgraph that carries the prediction of its graph.

    Args:
        nodes: Boolean mask of the graph's nodes; where these have types, one mask for each type.
        kept: How near it brings graphs of other predictions to the explained one, see
            :class:`~hpme.explainers.hpme.quality.Quality`.
        chance: How near as many random nodes of the graph do.
    """

    nodes: Any
    kept: float
    chance: float


@torch.no_grad()
def alternatives_of(transplants: Transplants, count: int) -> list[list[Alternative]]:
    """At most ``count`` subgraphs of every graph, the first as in its explanation.

    The next are the smallest sufficient prefixes of the ranking without the nodes of those before,
    as long as there are any. Then each goes without every other node of the first, so that what
    else could take part in the reason is seen; such a one shares at most half of its nodes with
    one before. None if nothing in the graph carries the prediction.
    """
    found = _Found(transplants, count)
    everything = torch.ones_like(transplants.pooled)
    if not found.add(transplants.pooled):
        return found.lists
    for _ in range(count - 1):
        if not found.add(_prefix(transplants, everything & ~found.used)):
            break
    rank = top_nodes(transplants.score, transplants.graphs, transplants.mix.m).order[0]
    for odd in (0, 1):
        left_out = transplants.pooled & (rank % 2 == odd)
        found.add(_prefix(transplants, ~left_out))
    return found.lists


def _prefix(transplants: Transplants, allowed: Tensor) -> Tensor:
    """The smallest sufficient prefix of allowed nodes; anchors are always there."""
    keep = transplants.smallest_prefix(allowed)
    return keep if transplants.graphs.anchors is not None else keep & allowed


class _Found:
    """Alternatives of all graphs, as they are found.

    Args:
        transplants: The graphs.
        count: At most as many per graph.
    """

    def __init__(self, transplants: Transplants, count: int) -> None:
        self.transplants, self.count = transplants, count
        self.lists: list[list[Alternative]] = [[] for _ in range(transplants.count)]
        self.rows: list[Tensor] = []
        self.used = torch.zeros_like(transplants.pooled)

    def add(self, keep: Tensor) -> bool:
        """Takes the subgraphs that carry their predictions and are new; false if there is none."""
        transplants, graphs = self.transplants, self.transplants.graphs
        near, chance = transplants.inserted(keep), transplants.inserted(transplants.random(keep))
        good = (near >= CARRIES) & (near - chance >= BEYOND_CHANCE)
        own = transplants.sizes(keep)
        for before in self.rows:
            good &= (2 * transplants.sizes(keep & before) <= own)[: transplants.count]
        full = torch.tensor([len(some) >= self.count for some in self.lists])
        good &= ~full.to(good.device)
        taken = keep & torch.cat([good, good.new_zeros(len(own) - len(good))])[graphs.batch]
        self.rows.append(taken)
        self.used |= taken
        sizes = graphs.sizes[: transplants.count].tolist()
        parts = keep[: sum(sizes)].split(sizes)  # type: ignore[no-untyped-call]
        for number in good.nonzero().view(-1).tolist():
            values = (float(near[number]), float(chance[number]))
            nodes = _by_type(parts[number], graphs, number)
            self.lists[number].append(Alternative(nodes, *values))
        return bool(good.any())


def _by_type(nodes: Tensor, graphs: GraphBatch, number: int) -> Tensor | dict[str, Tensor]:
    """A mask of the nodes of a graph as users see them."""
    if graphs.schema is None or graphs.node_type is None:
        return nodes
    kind = graphs.node_type[graphs.batch == number]
    return {name: nodes[kind == i] for i, name in enumerate(graphs.schema.node_types)}
