r"""The pooling ratio :math:`r`, chosen from the graphs and the model alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hpme.explainers.hpme.method.pool import PoolSize, by_boundary
from hpme.explainers.hpme.search.attributions import Attributions
from hpme.explainers.hpme.search.chains import SubsetSearch
from hpme.explainers.hpme.search.criterion import criterion
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.transplants import Transplants

RATIOS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
"""Ratios that are tried."""
TOLERANCE = 0.08
"""How much of the random disagreement a smaller ratio may leave more than the best one."""
BY_CHANCE = 0.5
"""Random regions that disagree less keep predictions as well: a pool of this size says little."""
HOPELESS = 0.3
"""Two ratios in a row that leave as much more end the trials; short searches are noisy."""
TRIAL_GRAPHS = 80
"""Graphs the short searches see."""
HANDED_ON = 3
"""Pools that compete again with the next smaller ratio."""
RATIO_PASSES = len(RATIOS) * (HANDED_ON + 1) * 4
"""Forward passes that a curve takes at most, about."""


@dataclass(frozen=True)
class RatioPoint:
    """What a short search with one ratio came to.

    Args:
        ratio: The ratio.
        disagreement: Of the best pool found.
        random_disagreement: Of random selections of the same size.
        region_disagreement: Of random regions, as connected as the pool and in its places.
    """

    ratio: float
    disagreement: float
    random_disagreement: float
    region_disagreement: float = 1.0

    @property
    def left(self) -> float:
        """Share of the random disagreement that the pool leaves."""
        return self.disagreement / max(self.random_disagreement, 1e-6)


def choose_ratio(curve: list[RatioPoint]) -> float:
    """The smallest ratio whose pool leaves little more than the best one.

    A larger one never keeps the prediction worse, since it may hold the same nodes; so what counts
    is where the curve becomes flat. Where random regions keep predictions as well does not count,
    if there is anything else.
    """
    curve = _telling(curve) or curve[:1]
    best = min(point.left for point in curve)
    return min(point.ratio for point in curve if point.left <= best + TOLERANCE)


def ratio_curve(
    mix: HardMix, attributions: Attributions, *, advance: Callable[[int], None]
) -> list[RatioPoint]:
    """A short search with :data:`RATIOS`, on draws of :math:`G'` that all of them share.

    From the largest ratio down, each beginning with the best pools of the one before, until two in
    a row leave clearly more than the best: a still smaller pool cannot hold what these could not.

    Args:
        mix: The graphs; its pooled size is ignored.
        attributions: Where the first search begins.
        advance: Called with the number of ratios done.

    Returns:
        The points that were tried, the smallest ratio first.
    """
    search = SubsetSearch(chains=0)
    hosts = mix.draw(2)
    noise = torch.rand(1, mix.graphs.num_nodes, generator=mix.generator).to(mix.features)
    curve: list[RatioPoint] = []
    begin: Attributions | None = attributions
    known: Tensor | None = None
    for ratio in reversed(RATIOS):
        sized = replace(mix, size=PoolSize(ratio))
        candidates = search.find(sized, begin, known, advance=lambda _: None)
        begin, order = None, candidates.order()
        known = torch.stack([candidates.weights[number] for number in order[:HANDED_ON]])
        score = sized.scores(candidates.pool(order[0]))
        keep = sized.select(torch.cat([score, noise])).keep
        region = Transplants.among(sized, score, hosts).random_regions(keep[0], beside=False)[:1]
        chosen = by_boundary(torch.cat([keep, region]), sized.graphs, sized.generator)
        values = criterion(sized, chosen, hosts, chosen[torch.tensor([0, 1, 0])])[:, 0]
        curve.insert(0, RatioPoint(ratio, *values.tolist()))
        advance(1)
        limit = min((point.left for point in _telling(curve)), default=math.inf) + HOPELESS
        if len(_telling(curve)) > 2 and all(point.left > limit for point in curve[:2]):
            advance(len(RATIOS) - len(curve))
            break
    return curve


def _telling(curve: list[RatioPoint]) -> list[RatioPoint]:
    return [point for point in curve if point.region_disagreement >= BY_CHANCE]
