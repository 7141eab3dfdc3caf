r"""How a pool is found: distilled attributions and searched subsets compete in hard mixes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from hpme.explainers.hpme.search.attributions import Attributions
from hpme.explainers.hpme.search.criterion import criterion, joint_rank
from hpme.explainers.hpme.search.distil import (
    Distiller,
    LinearPool,
    side_by_side,
    standardise,
)
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.search.subsets import search_subsets

PENALTIES = (0.3, 3.0, 30.0)
"""How strongly a distilled pool is smoothed; hard mixes decide which is best."""
START_PENALTIES = (3.0,)
STARTS = 5
"""Attributions, each distilled with these penalties."""
SETTLED = 0.02
"""A chain whose pool disagrees less than this has nothing left to find."""
DRAWS = 2
"""Hosts that every graph meets when pools are compared."""
ATTRIBUTION = -1
"""In place of a chain's number: a pool distilled from an attribution."""


@dataclass
class Candidates:
    """Pools that compete, and how well they do on shared draws.

    Args:
        mix: The graphs.
        hosts: The shared draws.
        weights: Weights of the pools.
        chains: The chain each comes from, or :data:`ATTRIBUTION`.
        occlusion: Weights ``[D]`` of distilled occlusion, if that is known.
        values: Disagreement, loss and minus the correlation with ``occlusion`` of each, low is
            good.
    """

    mix: HardMix
    hosts: Tensor
    occlusion: Tensor | None = None
    weights: list[Tensor] = field(default_factory=list)
    chains: list[int] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)

    def add(self, weights: Tensor, chain: int) -> None:
        """Enters pools, given by weights ``[P, D]``, into the competition.

        Hosts can be misled: a pool wins by what it takes out of them, or by the number of nodes
        that it brings. Occlusion asks the model about the graph alone, and is misled by other
        things; so a pool should please both.
        """
        mix, scores = self.mix, self.mix.scores(LinearPool(weights))
        values = criterion(mix, mix.select(scores), self.hosts)
        if self.occlusion is not None:
            wanted = mix.scores(LinearPool(self.occlusion.unsqueeze(0)))
            both = standardise(torch.cat([wanted, scores]), mix.graphs)
            values = torch.cat([values, -(both[1:] * both[:1]).mean(1, keepdim=True)], dim=1)
        self.values += values.unbind()
        self.weights += weights.unbind()
        self.chains += [chain] * len(weights)

    def order(self, *chains: int) -> list[int]:
        """Numbers of candidates of some chains, or of all, by the sum of ranks, best first."""
        values = torch.stack(self.values)
        order: list[int] = joint_rank(values).argsort().tolist()
        return [n for n in order if not chains or self.chains[n] in chains]

    def pool(self, number: int) -> LinearPool:
        """One of the candidates."""
        return LinearPool(self.weights[number].unsqueeze(0))

    def finished(self) -> list[int]:
        """The best candidate of every chain; no two of them share a start."""
        chains = sorted({chain for chain in self.chains if chain >= 0})
        return [self.order(chain)[0] for chain in chains]

    def chosen(self) -> int:
        """The best candidate."""
        return self.order()[0]

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
    meet again is evidence. Attributions, distilled, compete themselves.

    Args:
        chains: Chains; without any the best attribution is taken.
        rounds: Rounds of each, fewer where hard mixes keep all predictions.
        subsets: Proposed subsets per graph and round.
        draws: Hosts per subset, the worst of which counts.
    """

    chains: int = 2
    rounds: int = 4
    subsets: int = 16
    draws: int = 2

    def steps(self) -> int:
        """Rounds of all chains."""
        return self.chains * self.rounds

    def passes(self) -> int:
        """Forward passes over the graphs that it takes at most, without attributions."""
        pools = len(START_PENALTIES) * STARTS + len(PENALTIES) * self.steps()
        return pools * DRAWS + self.steps() * self.subsets * self.draws

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
            advance: Called after every round.
        """
        candidates = Candidates(mix, mix.draw(DRAWS))
        distiller = Distiller(side_by_side(mix.features), mix.graphs)
        if attributions is not None:
            labels, seen = attributions.occlusion(mix.graphs)
            if bool(seen.any()):
                candidates.occlusion = distiller.fit(labels, seen, START_PENALTIES)[0]
            for score, graphs in zip(attributions.scores, attributions.graphs, strict=True):
                weights = distiller.fit(score, graphs.to(score), START_PENALTIES)
                # One that says nothing about any node would be a pool of the first nodes.
                if bool(graphs.any() & weights.any()):
                    candidates.add(weights, ATTRIBUTION)
            if not candidates.weights and not self.chains:
                candidates.add(torch.zeros_like(weights), ATTRIBUTION)
        if known is not None:
            candidates.add(known, ATTRIBUTION)
        for chain in range(self.chains):
            score = torch.rand(mix.graphs.num_nodes, generator=mix.generator).to(mix.features)
            if chain == 0 and candidates.weights:
                score = mix.scores(candidates.pool(candidates.order()[0]))[0]
            for number in range(self.rounds):
                found = search_subsets(mix, score, subsets=self.subsets, draws=self.draws)
                candidates.add(distiller.fit(found.advantage, found.gain, PENALTIES), chain)
                best = candidates.order(chain)[0]
                score = mix.scores(candidates.pool(best))[0]
                if float(candidates.values[best][0]) < SETTLED:
                    advance(self.rounds - number)
                    break
                advance(1)
        return candidates
