r"""How a pool is found: search the hard selection under the hard mix, then distil it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from hpme.explainers.hpme.criterion import criterion, joint_rank
from hpme.explainers.hpme.distil import fit_pools
from hpme.explainers.hpme.hardmix import HardMix
from hpme.explainers.hpme.pool import Pool
from hpme.explainers.hpme.saliency import saliency_labels
from hpme.explainers.hpme.subsets import search_subsets


@dataclass
class Candidates:
    """Pools that compete, and their criterion on shared draws."""

    mix: HardMix
    hosts: Tensor
    pools: list[Pool] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)

    def add(self, pools: Pool) -> None:
        """Enters every pool of a stack into the competition."""
        values = evaluate(self.mix, pools, self.hosts)
        self.pools += [pools.pick(torch.tensor([i])) for i in range(pools.count)]
        self.values += list(values)

    def best(self) -> Pool:
        """The pool with the lowest joint rank."""
        return self.pools[int(joint_rank(torch.stack(self.values)).argmin())]


def evaluate(mix: HardMix, pools: Pool, hosts: Tensor) -> Tensor:
    """Criterion ``[P, 2]`` of a stack of pools."""
    graphs = mix.context.store.batch()
    with torch.no_grad():
        selection = mix.select(mix.score(pools, graphs), graphs)
    return criterion(mix, selection, hosts)


@dataclass(frozen=True)
class SubsetSearch:
    r"""Procedure: evolve random pools, add pools fitted to saliency, search subsets, distil, choose.

    Args:
        random_pools: Random pools to begin with.
        generations: Generations of mutation and selection.
        survivors: Pools that survive a generation.
        children: Mutants of a generation.
        subsets: Proposed subsets per graph and round.
        draws: Draws of :math:`G'` per subset and generation.
        final_draws: Draws for the final choice.
        extra_rounds: Subset rounds from the incumbent, after those from the starts.
    """

    random_pools: int = 256
    generations: int = 20
    survivors: int = 8
    children: int = 16
    subsets: int = 32
    draws: int = 2
    final_draws: int = 3
    extra_rounds: int = 2
    saliency_starts: int = 2

    def steps(self) -> int:
        """Units of progress."""
        return self.generations + self.saliency_starts + 1 + self.extra_rounds

    def find(self, mix: HardMix, *, layers: int, advance: Callable[[int], None]) -> Candidates:
        """All candidates, evaluated; :meth:`Candidates.best` is the result."""
        candidates = Candidates(mix, mix.draw(self.final_draws))
        screening = mix.draw(self.draws)
        pools = Pool(mix.context.h.shape[1], self.random_pools, layers, generator=mix.generator)
        order = joint_rank(evaluate(mix, pools, screening[:1])).argsort()
        evolved = self._evolve(mix, pools.pick(order[: self.survivors]), screening, advance)
        candidates.add(evolved)
        starts = [candidates.best()]
        if self.saliency_starts:
            labels = saliency_labels(mix.context)
            salient = fit_pools(mix, labels, torch.ones(len(labels), len(mix.context.store)))
            table = evaluate(mix, salient, screening[:1])
            picks = list(dict.fromkeys(table.argsort(dim=0, stable=True).flatten().tolist()))
            chosen = salient.pick(torch.tensor(picks[: self.saliency_starts]))
            candidates.add(chosen)
            starts = candidates.pools[-chosen.count :] + starts
        for number in range(len(starts) + self.extra_rounds):
            start = starts[number] if number < len(starts) else candidates.best()
            self._round(mix, start, candidates)
            advance(1)
        return candidates

    def _evolve(
        self, mix: HardMix, parents: Pool, hosts: Tensor, advance: Callable[[int], None]
    ) -> Pool:
        step = 0.3
        values = evaluate(mix, parents, hosts)
        for _ in range(self.generations):
            index = torch.arange(self.children) % parents.count
            born = mutate(parents.pick(index), step, mix.generator)
            everyone, values = parents.merge(born), torch.cat([values, evaluate(mix, born, hosts)])
            order = joint_rank(values).argsort()[: self.survivors]
            step *= 1.05 if int((order >= parents.count).sum()) >= 2 else 0.85
            parents, values = everyone.pick(order), values[order]
            advance(1)
        return parents

    def _round(self, mix: HardMix, start: Pool, candidates: Candidates) -> None:
        graphs = mix.context.store.batch()
        with torch.no_grad():
            score = mix.score(start, graphs)[0]
        found = search_subsets(mix, score, subsets=self.subsets, draws=self.draws)
        labels = torch.stack([found.advantage, found.frequency])
        weights = found.gain.expand(2, -1)
        candidates.add(fit_pools(mix, labels, weights))
        candidates.add(fit_pools(mix, labels[:1], weights[:1], hops=(0, 1, 2)))


@torch.no_grad()
def mutate(pools: Pool, step: float, generator: torch.Generator) -> Pool:
    """Every parameter of every pool plus noise in proportion to its own spread."""
    values = []
    for parameter in pools.parameters():
        spread = parameter.flatten(1).std(dim=1)
        spread = torch.where(spread > 0, spread, 0.1).view(-1, *[1] * (parameter.dim() - 1))
        noise = torch.randn(parameter.shape, generator=generator)
        values.append(parameter + step * spread * noise)
    return pools._like(values)
