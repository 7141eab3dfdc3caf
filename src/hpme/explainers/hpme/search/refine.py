r"""Improves a pool under the criterion itself, by an evolution strategy over scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from hpme.explainers.hpme.method.pool import Pool
from hpme.explainers.hpme.search.criterion import criterion
from hpme.explainers.hpme.search.distil import fit_pools, standardise
from hpme.explainers.hpme.search.hardmix import HardMix


@dataclass(frozen=True)
class Refinement:
    r"""Moves the scores of a pool towards those that keep the prediction better.

    A round of the subset search asks what :math:`G` must give while the region :math:`G'` gives up
    stays as it is. Where many nodes contribute a little, the best answer then makes up for what
    was left in :math:`G'` and is wrong as a region. Here both sides change together: scores are
    moved along random directions and back, every selection that results is judged by
    :func:`~hpme.explainers.hpme.search.criterion.criterion`, and the step is the average of the
    directions, weighted by how much better the one side was than the other. Directions are the
    scores of pools with random weights, so whatever is found can be distilled into one pool again.

    Args:
        steps: Steps; a pool is distilled after every third.
        pairs: Random directions of a step, each tried both ways.
        width: Length of the first step, in standard deviations of the scores inside a graph.
        decay: Factor by which steps become shorter.
        draws: Draws of :math:`G'` a selection is judged on.
        hops: What a pool sees, see :class:`Pool`.
    """

    steps: int = 12
    pairs: int = 16
    width: float = 0.5
    decay: float = 0.85
    draws: int = 1
    hops: tuple[int, ...] = (0, 1, 2)

    def find(self, mix: HardMix, pool: Pool, *, advance: Callable[[int], None]) -> Iterator[Pool]:
        """The pool after every third step, and the last."""
        alike = torch.ones(1, mix.graphs.num_graphs, device=mix.context.device)
        score = standardise(mix.scores(pool), mix.graphs)
        for step in range(self.steps):
            score = self._step(mix, score, self.width * self.decay**step)
            advance(1)
            if (step + 1) % 3 == 0 or step + 1 == self.steps:
                yield fit_pools(mix, score, alike, hops=self.hops)

    @torch.no_grad()
    def _step(self, mix: HardMix, score: Tensor, width: float) -> Tensor:
        random = Pool(mix.context.h.shape[1], self.pairs, hops=self.hops, generator=mix.generator)
        random.to(mix.context.device)
        direction = standardise(mix.scores(random), mix.graphs)
        tried = torch.cat([score + width * direction, score - width * direction])
        values = criterion(mix, mix.select(tried), mix.draw(self.draws))
        # Both parts of the criterion count alike, whatever their scales.
        cost = ((values - values.mean(0)) / (values.std(0) + 1e-9)).mean(1)
        there, back = cost.view(2, -1)
        gain = back - there
        gain = gain / (gain.norm() + 1e-9)
        return standardise(score + width * (gain.unsqueeze(1) * direction).sum(0), mix.graphs)
