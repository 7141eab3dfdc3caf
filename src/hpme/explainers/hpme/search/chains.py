r"""How a pool is found: distilled occlusion and searched subsets compete in hard mixes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from hpme.explainers.hpme.search.criterion import BY_CHANCE, criterion, joint_rank
from hpme.explainers.hpme.search.distil import PENALTIES, Distiller, LinearPool, standardise
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.search.subsets import random_subset, search_subsets

BETTER = 0.75
"""What a pool may leave of the disagreement of random regions, so that hosts tell it from them."""
ROUND_GRAPHS = 64
"""Graphs of one round, and half of those that ratios are tried on. Each round takes others, so that
the chain sees all of them."""
DRAWS = 2
"""Hosts that every graph meets when pools are compared."""
BLENDS, OBJECTION = (0.25, 0.5, 1.0), 0.04
"""How much distilled occlusion may count beside the best pool, and how much disagreement that may
cost."""


@dataclass
class Candidates:
    """Pools that compete, and how well they do on shared draws."""

    mix: HardMix
    hosts: Tensor  # the shared draws
    occlusion: Tensor | None = None  # weights [D] of distilled occlusion, if that is known
    chance: float = 1.0  # disagreement of random regions
    weights: list[Tensor] = field(default_factory=list)
    chains: list[int | None] = field(default_factory=list)  # that found each, if one did
    values: list[Tensor] = field(default_factory=list)
    """Disagreement, loss and minus the correlation with ``occlusion`` of each; low is good."""

    def add(self, weights: Tensor, chain: int | None = None) -> None:
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

    @property
    def telling(self) -> bool:
        """Whether random regions of the pooled size do not keep predictions as well."""
        return self.chance >= BY_CHANCE

    @property
    def unsure(self) -> bool:
        """Whether hosts say little: random regions keep predictions, or no pool is better."""
        best = min(float(value[0]) for value in self.values)
        return not self.telling or best > BETTER * self.chance

    def order(self, *chains: int | None) -> list[int]:
        """Numbers of candidates of some chains, or of all, by the sum of ranks, best first.

        Where hosts say little, a pool and its opposite do equally well. Then pools that occlusion
        does not confirm come last, and so does occlusion, which counts in any case.
        """
        values = torch.stack(self.values)
        rank = joint_rank(values)
        if self.occlusion is not None and self.unsure:
            confirmed = values[:, 2] < -0.5
            rank[0] = rank.max()
            rank += 3 * len(rank) * ~confirmed
        return [n for n in rank.argsort().tolist() if not chains or self.chains[n] in chains]

    def pool(self, number: int) -> LinearPool:
        """One of the candidates."""
        return LinearPool(self.weights[number].unsqueeze(0))

    def finished(self) -> list[int]:
        """The best candidate of every chain, no two of which share a start; best first."""
        chains = {chain for chain in self.chains if chain is not None}
        return sorted((self.order(chain)[0] for chain in chains), key=self.order().index)

    def chosen(self) -> int:
        """The best candidate."""
        return self.order()[0]

    def blended(self) -> LinearPool:
        """The best candidate with as much of distilled occlusion as hosts do not object to.

        What carries a prediction elsewhere and what the graph cannot do without are two views of
        the same reason; where one of them is misled, hosts tell, if it is not their own.
        """
        if self.occlusion is None:
            return self.pool(self.chosen())
        number = self.chosen()
        both = torch.stack([self.weights[number], self.occlusion])
        spread = self.mix.scores(LinearPool(both)).std(1, keepdim=True, unbiased=False)
        best, occlusion = both / spread.clamp(min=1e-12)
        rows = torch.stack([best, *(best + share * occlusion for share in BLENDS)])
        scores = self.mix.scores(LinearPool(rows[1:]))
        values = criterion(self.mix, self.mix.select(scores), self.hosts)[:, 0]
        fine = ((values <= self.values[number][0] + OBJECTION) | self.unsure).nonzero()
        return LinearPool(rows[1 + int(fine[-1]) if len(fine) else 0].unsqueeze(0))

    def rival(self) -> int | None:
        """The best candidate of the second best chain, if there are two."""
        return next(iter(self.finished()[1:]), None)


@dataclass(frozen=True)
class SubsetSearch:
    r"""Alternates between searching subsets of every graph and distilling them into one pool.

    A round proposes subsets of every graph, tries them in hard mixes where the current pool tells
    which nodes of the other graph make room, and distils the best ones. The first chain begins
    where occlusion points, the others at random, so no two share a start: that they meet again is
    evidence. Distilled occlusion competes itself.
    """

    chains: int = 2
    rounds: int = 2  # of each
    subsets: int = 16  # proposed per graph and round

    def steps(self) -> int:
        """Rounds of all chains."""
        return self.chains * self.rounds

    def passes(self) -> int:
        """Forward passes over the graphs that it takes at most, without attributions."""
        compared = 2 + len(PENALTIES) * self.steps() + len(BLENDS)
        return compared * DRAWS + self.steps() * self.subsets

    def find(self, mix: HardMix, advance: Callable[[int], None] = lambda _: None) -> Candidates:
        """All candidates of all chains; where nothing is ``known`` all begin at random."""
        candidates, graphs = Candidates(mix, mix.draw(DRAWS)), mix.graphs.num_graphs
        if mix.known is not None:
            weights = Distiller(mix.features, mix.graphs).fit(*mix.known)
            if bool(weights.any()):  # else it would be a pool of the first nodes
                candidates.occlusion = weights[0]
                random = criterion(mix, random_subset(mix), candidates.hosts)
                candidates.chance = float(random[0, 0])
                candidates.add(weights)
        for chain in range(self.chains):
            start = chain == 0 and candidates.weights
            pool = candidates.pool(candidates.chosen()) if start else None
            for _ in range(self.rounds):
                ids = torch.randperm(graphs, generator=mix.generator)[:ROUND_GRAPHS]
                part = mix.subset(ids.to(mix.context.device))
                score = torch.rand(part.graphs.num_nodes, generator=mix.generator).to(mix.features)
                if pool is not None:
                    score = part.scores(pool)[0]
                labels, gain = search_subsets(part, score, self.subsets)
                newest = len(candidates.weights)
                distiller = Distiller(part.features, part.graphs)
                candidates.add(distiller.fit(labels, gain, PENALTIES), chain)
                best = next(n for n in candidates.order() if n >= newest)
                pool = candidates.pool(best)
                advance(1)
        return candidates
