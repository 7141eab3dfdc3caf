r"""How a pool is found: search the hard selection itself under the hard mix, then distil it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from hpme.explainers.hpme.method.pool import Selection, by_boundary, top_nodes
from hpme.explainers.hpme.search.attributions import Attributions
from hpme.explainers.hpme.search.criterion import criterion, joint_rank
from hpme.explainers.hpme.search.distil import Distiller, LinearPool, side_by_side
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.search.subsets import search_subsets
from hpme.explainers.hpme.transplants import Transplants

SETTLED = 0.02
"""A chain whose pool disagrees less than this has nothing left to find."""
UNSETTLED = 0.1
"""A chain has further rounds as long as its pool disagrees more than this."""
PENALTIES = (0.3, 3.0, 30.0)
"""How strongly a distilled pool is smoothed; the criterion decides which is best."""
ATTRIBUTION_PENALTIES = (0.3, 10.0)
ATTRIBUTION, COMBINED = -1, -2
"""In place of a chain's number: a pool distilled from an attribution, a combination of pools."""
FEWEST, MOST = 6, 12
"""How many of the equally good pools are combined."""
KEPT = 4
"""The best pools that are averaged: the consensus, and where the evolution goes on."""
STEP = 0.7
"""Length of a step of the evolution, in units of the pools' distance from their middle."""
COMPARED = 10
"""Pools of the chains that are compared again at a smaller size."""
SLACK, SLACK_OF_LOSS = 0.02, 0.1
"""Pools are equally good if disagreement and loss differ by no more, the loss also by a share."""


@dataclass
class Candidates:
    """Pools that compete, and their criterion on shared draws.

    Args:
        mix: The graphs.
        hosts: The shared draws.
        inserted: How many nodes of every graph hosts are given, all pooled ones by default. Hosts
            always give up their whole pool.
        weights: Weights of the pools.
        chains: The chain each comes from, or :data:`ATTRIBUTION` or :data:`COMBINED`.
        values: The criterion of each.
    """

    mix: HardMix
    hosts: Tensor
    inserted: Tensor | None = None
    weights: list[Tensor] = field(default_factory=list)
    chains: list[int] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)

    def add(self, weights: Tensor, chain: int) -> None:
        """Enters pools, given by weights ``[P, D]``, into the competition."""
        scores = self.mix.scores(LinearPool(weights))
        pooled = self.mix.select(scores)
        given = pooled if self.inserted is None else self._prefix(scores, self.inserted)
        self.values += criterion(self.mix, given, self.hosts, pooled).unbind()
        self.weights += weights.unbind()
        self.chains += [chain] * len(weights)

    def _prefix(self, scores: Tensor, sizes: Tensor) -> Selection:
        keep = top_nodes(scores, self.mix.graphs, sizes).keep
        return by_boundary(keep, self.mix.graphs, self.mix.generator)

    def order(self, *chains: int) -> list[int]:
        """Numbers of the candidates of some chains, or of all, best first."""
        order: list[int] = joint_rank(torch.stack(self.values)).argsort().tolist()
        return [n for n in order if not chains or self.chains[n] in chains]

    def pool(self, number: int) -> LinearPool:
        """One of the candidates."""
        return LinearPool(self.weights[number].unsqueeze(0))

    def finished(self) -> list[int]:
        """The best candidate of every chain; no two of them share a start."""
        chains = sorted({chain for chain in self.chains if chain >= 0})
        return [self.order(chain)[0] for chain in chains]

    def equals(self) -> list[int]:
        """The candidates that are as good as the best one, best first."""
        order = self.order()
        good = [n for n in order if self._near(n, order[0])]
        return good[:MOST] if len(good) > FEWEST else order[:FEWEST]

    def _near(self, number: int, best: int) -> bool:
        (disagreement, loss), (least, lowest) = self.values[number], self.values[best]
        slack = SLACK + SLACK_OF_LOSS * lowest.abs()
        return bool(disagreement <= least + SLACK) and bool(loss <= lowest + slack)

    def chosen(self) -> int:
        """The consensus if it is as good as the best candidate, else the best candidate.

        The consensus is the last of the combinations. It never wins over a better attribution.
        """
        order = self.order()
        last = len(self.values) - 1
        if self.chains[last] != COMBINED:
            return order[0]
        given = self.order(ATTRIBUTION)
        behind = bool(given) and order.index(given[0]) < order.index(last)
        return last if self._near(last, order[0]) and not behind else order[0]

    def rival(self) -> int | None:
        """The best candidate of the second best chain, if there are two."""
        chains = sorted(self.finished(), key=self.order().index)
        return None if len(chains) < 2 else chains[1]


@dataclass(frozen=True)
class SubsetSearch:
    r"""Alternates between searching subsets of every graph and distilling them into one pool.

    A round proposes subsets of every graph, tries them in hard mixes where the current pool tells
    which nodes of the other graph make room, and distils the best ones. The first chain begins
    where the best attribution points, the others at random, so no two share a start: that they
    meet again is evidence. Attributions, distilled, compete themselves. In the end the best pools
    are combined. The criterion alone decides.

    Args:
        chains: Chains.
        rounds: Rounds of each, fewer where the criterion has settled.
        subsets: Proposed subsets per graph and round.
        refine: Steps that combine the best pools.
        draws: Hosts per subset.
        final_draws: Shared draws of :math:`G'` on which pools are compared.
        combinations: Combinations per step.
        more: Further rounds of a chain whose pool goes on to disagree.
        evolve: Steps in the span of the best pools where these go on to disagree, if any are
            combined.
        hasty: Whether no chain is started where an attribution has settled.
    """

    chains: int = 3
    rounds: int = 2
    subsets: int = 16
    refine: int = 2
    draws: int = 2
    final_draws: int = 2
    combinations: int = 8
    more: int = 2
    evolve: int = 6
    hasty: bool = False

    def steps(self) -> int:
        """Rounds and steps together."""
        combining = self.evolve + self.refine if self.refine else 0
        return self.chains * (self.rounds + self.more) + combining

    def find(
        self,
        mix: HardMix,
        attributions: Attributions | None,
        known: Tensor | None = None,
        *,
        advance: Callable[[int], None],
    ) -> Candidates:
        """All candidates of all chains.

        Args:
            mix: The graphs.
            attributions: Where some pools and the first chain begin; if ``None``, all begin at
                random.
            known: Weights ``[P, D]`` of other pools to begin with.
            advance: Called after every round and step.
        """
        candidates = Candidates(mix, mix.draw(self.final_draws))
        distiller = Distiller(side_by_side(mix.features), mix.graphs)
        starts = torch.rand(self.chains, mix.graphs.num_nodes, generator=mix.generator)
        starts = starts.to(mix.features)
        if attributions is not None:
            add_attributions(candidates, distiller, attributions)
        if known is not None:
            candidates.add(known, ATTRIBUTION)
        if candidates.weights:
            best = candidates.order(ATTRIBUTION)[0]
            starts[0] = mix.scores(candidates.pool(best))[0]
            if self.hasty and float(candidates.values[best][0]) < SETTLED:
                return candidates
        for chain in range(self.chains):
            score = starts[chain]
            for number in range(self.rounds + self.more):
                self._round(candidates, distiller, score, chain)
                advance(1)
                best = candidates.order(chain)[0]
                score = mix.scores(candidates.pool(best))[0]
                enough = SETTLED if number < self.rounds - 1 else UNSETTLED
                if float(candidates.values[best][0]) < enough:
                    advance(self.rounds + self.more - number - 1)
                    break
        if self.refine:
            self._evolve(candidates, distiller, advance)
            candidates = compared_again(candidates)
            self._combine(candidates, distiller, advance)
        return candidates

    def _round(
        self, candidates: Candidates, distiller: Distiller, score: Tensor, chain: int
    ) -> None:
        found = search_subsets(candidates.mix, score, subsets=self.subsets, draws=self.draws)
        candidates.add(distiller.fit(found.advantage, found.gain, PENALTIES), chain)

    def _evolve(
        self, candidates: Candidates, distiller: Distiller, advance: Callable[[int], None]
    ) -> None:
        """Moves about in the span of the best pools, as long as predictions are not kept.

        A round holds fixed what other graphs give up, so chains can end where the criterion would
        go on: both have to change together.
        """
        for number in range(self.evolve):
            if float(candidates.values[candidates.order()[0]][0]) < UNSETTLED:
                advance(self.evolve - number)
                return
            best = _unit(candidates, distiller, candidates.order()[:MOST])
            middle = best[:KEPT].mean(0)
            step = torch.randn(self.combinations, len(best), generator=candidates.mix.generator).to(
                best
            )
            moved = STEP / len(best) ** 0.5 * step @ (best - middle)
            candidates.add(middle + moved, COMBINED)
            advance(1)

    def _combine(
        self, candidates: Candidates, distiller: Distiller, advance: Callable[[int], None]
    ) -> None:
        """Random averages of the best pools; the average of the best averages is the consensus."""
        generator = candidates.mix.generator
        for _ in range(self.refine):
            best = _unit(candidates, distiller, candidates.equals())
            share = -torch.rand(self.combinations, len(best), generator=generator).log()
            share[0] = 1.0
            share = (share / share.sum(1, keepdim=True)).to(best)
            candidates.add(share @ best, COMBINED)
            advance(1)
        kept = torch.stack([candidates.weights[n] for n in candidates.order(COMBINED)[:KEPT]])
        candidates.add(kept.mean(0, keepdim=True), COMBINED)


def _unit(candidates: Candidates, distiller: Distiller, numbers: list[int]) -> Tensor:
    """Weights of some candidates whose scores have unit variance inside graphs."""
    weights = torch.stack([candidates.weights[n] for n in numbers])
    spread = (distiller.centred @ weights.T).square().mean(0).sqrt().clamp(min=1e-12)
    return weights / spread.unsqueeze(1)


def add_attributions(
    candidates: Candidates, distiller: Distiller, attributions: Attributions
) -> None:
    """Lets attributions compete, distilled into pools."""
    rows = zip(attributions.scores, attributions.graphs, strict=True)
    for score, graphs in rows:
        if bool(graphs.any()):
            weights = distiller.fit(score, graphs.to(score), ATTRIBUTION_PENALTIES)
            candidates.add(weights, ATTRIBUTION)


def compared_again(candidates: Candidates) -> Candidates:
    """The best candidates and all attributions, compared where fewer nodes are inserted.

    Where the pool is larger than it need be, many pools keep the prediction. So hosts are given
    only as many nodes of each graph as the best pool needs there. They give up their whole pool: a
    host must lose all that speaks for its own prediction, also what is redundant.
    """
    mix, hosts = candidates.mix, candidates.hosts
    score = mix.scores(candidates.pool(candidates.order()[0]))
    needed = Transplants.among(mix, score, hosts).smallest_prefix()
    sizes = torch.bincount(mix.graphs.batch[needed], minlength=mix.graphs.num_graphs)
    again = Candidates(mix, hosts, inserted=sizes)
    chains = sorted({chain for chain in candidates.chains if chain >= 0})
    best = candidates.order(*chains, COMBINED)[:COMPARED] if chains else []
    for chain in (ATTRIBUTION, *chains, COMBINED):
        order = candidates.order(chain)
        pick = [n for n in order if chain == ATTRIBUTION or n in best]
        pick = pick or (order[:1] if chain >= 0 else [])
        if pick:
            again.add(torch.stack([candidates.weights[n] for n in pick]), chain)
    return again
