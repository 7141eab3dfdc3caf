r"""How a pool is found: search the hard selection itself under the hard mix, then distil it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from hpme.explainers.hpme.method.pool import Pool
from hpme.explainers.hpme.search.criterion import criterion, joint_rank
from hpme.explainers.hpme.search.distil import fit_pools
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.search.refine import Refinement
from hpme.explainers.hpme.search.subsets import search_subsets

SETTLED = 0.05
"""Where the best pool disagrees less than this, there is nothing left to refine."""


@dataclass
class Candidates:
    """Pools that compete, and their criterion on shared draws.

    Args:
        mix: The graphs.
        hosts: The shared draws.
        pools: The pools.
        chains: The restart each pool comes from.
        values: The criterion of each.
        finalists: The restarts that ran to the end.
    """

    mix: HardMix
    hosts: Tensor
    pools: list[Pool] = field(default_factory=list)
    chains: list[int] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)
    finalists: list[int] = field(default_factory=list)

    def add(self, pool: Pool, chain: int) -> None:
        """Enters a pool into the competition."""
        self.values.append(
            criterion(self.mix, self.mix.select(self.mix.scores(pool)), self.hosts)[0]
        )
        self.pools.append(pool)
        self.chains.append(chain)

    def order(self) -> list[int]:
        """Numbers of all candidates, best first."""
        order: list[int] = joint_rank(torch.stack(self.values)).argsort().tolist()
        return order

    def best_chains(self) -> list[int]:
        """Restarts, best first."""
        return list(dict.fromkeys(self.chains[number] for number in self.order()))

    def best(self, chain: int | None = None) -> Pool:
        """The best pool, of all or of one restart."""
        return self.pools[next(n for n in self.order() if chain in (None, self.chains[n]))]

    def rival(self) -> Pool | None:
        """The best pool of the second best restart, if there are two."""
        chains = self.best_chains()
        return None if len(chains) < 2 else self.best(chains[1])

    def settled(self) -> bool:
        """Whether the mix of the best pool keeps predictions as they are."""
        return float(self.values[self.order()[0]][0]) < SETTLED


@dataclass(frozen=True)
class SubsetSearch:
    r"""Alternates between searching subsets of every graph and distilling them into one pool.

    A round proposes subsets of every graph, tries them in hard mixes where the current pool tells
    which nodes of the other graph make room, and fits a new pool to the best ones. The first round
    of a chain begins with random scores, so chains are independent: that they meet again is
    evidence. If even the best pool does not keep the predictions, the chains that are left go on
    with a :class:`Refinement`. The pool with the best criterion of all is the result.

    Args:
        chains: Independent restarts.
        rounds: Rounds of each; after half of them only the better half of the chains goes on, but
            at least two.
        subsets: Proposed subsets per graph and round.
        refine: Steps of the refinement.
        draws: Hosts per subset.
        final_draws: Shared draws of :math:`G'` on which pools are compared.
        hops: What a pool sees, see :class:`Pool`.
    """

    chains: int = 4
    rounds: int = 4
    subsets: int = 16
    refine: int = 12
    draws: int = 2
    final_draws: int = 3
    hops: tuple[int, ...] = (0, 1, 2)

    def steps(self) -> int:
        """Rounds and steps of all chains together."""
        early = max(1, self.rounds // 2)
        return self.chains * early + self._survivors() * (self.rounds - early + self.refine)

    def find(self, mix: HardMix, *, advance: Callable[[int], None]) -> Candidates:
        """All candidates of all chains."""
        candidates = Candidates(mix, mix.draw(self.final_draws))
        nodes = mix.context.h.shape[0]
        scores = torch.rand(self.chains, nodes, generator=mix.generator).to(mix.features)
        candidates.finalists = list(range(self.chains))
        for number in range(self.rounds):
            if number == max(1, self.rounds // 2):
                candidates.finalists = candidates.best_chains()[: self._survivors()]
            for chain in candidates.finalists:
                found = search_subsets(mix, scores[chain], subsets=self.subsets, draws=self.draws)
                pool = fit_pools(mix, found.advantage[None], found.gain[None], hops=self.hops)
                candidates.add(pool, chain)
                scores[chain] = mix.scores(pool)[0]
                advance(1)
        if candidates.settled():
            advance(len(candidates.finalists) * self.refine)
            return candidates
        refinement = Refinement(self.refine, hops=self.hops)
        for chain in candidates.finalists:
            for pool in refinement.find(mix, candidates.best(chain), advance=advance):
                candidates.add(pool, chain)
        return candidates

    def _survivors(self) -> int:
        return min(self.chains, max(2, -(-self.chains // 2)))
