r"""The pooling ratio :math:`r`, chosen from the graphs and the model alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hpme.explainers.hpme.method.pool import PoolSize, by_boundary
from hpme.explainers.hpme.search.criterion import BY_CHANCE, criterion, joint_rank
from hpme.explainers.hpme.search.distil import LinearPool
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.transplants import Transplants

RATIOS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
"""Ratios that are tried, with pools that a search with the middle one finds."""
LEAST = 0.3
"""The least that a pool is searched with: where few nodes carry much of a sum, subsets of so few
say little about the others."""
TOLERANCE = 0.08
"""How much of the random disagreement a smaller ratio may leave more than the best one."""


@dataclass(frozen=True)
class RatioPoint:
    """What pools of one ratio come to."""

    ratio: float
    disagreement: float  # of the best pool
    random_disagreement: float  # of random selections of the same size
    region_disagreement: float = 1.0  # of random regions, as connected and in the pool's places

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
    telling = [point for point in curve if point.region_disagreement >= BY_CHANCE]
    curve = telling or curve[:1]
    best = min(point.left for point in curve)
    return min(point.ratio for point in curve if point.left <= best + TOLERANCE)


def ratio_curve(
    mix: HardMix, weights: Tensor, ratios: Sequence[float], *, advance: Callable[[int], None]
) -> list[RatioPoint]:
    """The best of pools with weights ``[P, D]`` for each ratio, on draws of G' that all share."""
    hosts, curve = mix.draw(2), []
    scores = mix.scores(LinearPool(weights))
    noise = torch.rand(1, mix.graphs.num_nodes, generator=mix.generator).to(scores)
    for ratio in ratios:
        sized = replace(mix, size=PoolSize(ratio))
        values = criterion(sized, sized.select(scores), hosts)
        best = int(joint_rank(values).argmin())
        keep = sized.select(torch.cat([scores[best : best + 1], noise])).keep
        parts = Transplants.among(sized, scores[best : best + 1], hosts)
        region = parts.random_regions(keep[0], beside=False)[:1]
        chosen = by_boundary(torch.cat([keep, region]), sized.graphs, sized.generator)
        random = criterion(sized, chosen[1:], hosts, chosen[torch.tensor([1, 0])])[:, 0]
        curve.append(RatioPoint(ratio, float(values[best, 0]), *random.tolist()))
        advance(1)
    return curve
