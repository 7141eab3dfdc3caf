"""What a pool does on graphs that its search did not see, beside random regions; by resampling."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from hpme.explainers.hpme.evidence import CONFIDENCE, NEAR_ZERO, NOWHERE
from hpme.explainers.hpme.method.pool import by_boundary, top_nodes
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.transplants import Transplants

DRAWS = 4
"""Hosts per graph, and random regions."""
RESAMPLES = 1999
"""Random signs for a p-value, and samples of the graphs for an interval."""


@dataclass(frozen=True)
class Measured:
    """Hard mixes of graphs, all with room for the pool; see :meth:`~hpme.models.task.Task.values`.

    Args:
        kept: Values ``[3, D, B, C]`` of hosts with the pool, with a random region as large and as
            connected, and with the nodes that the pool ranks lowest.
        hosts: Values of the hosts as they are ``[D, B, C]``.
        wanted: Values of the graphs ``[B, C]``.
        classes: Predicted classes ``[B]``; ``None`` for regression.
    """

    kept: Tensor
    hosts: Tensor
    wanted: Tensor
    classes: Tensor | None

    @classmethod
    @torch.no_grad()
    def on(cls, mix: HardMix, pool: nn.Module) -> Measured:
        """A pool on all graphs of a mix, which host one another."""
        mix = replace(mix, alone=False)
        context, graphs = mix.context, mix.graphs
        score, hosts = mix.scores(pool), mix.draw(DRAWS)
        keep = top_nodes(torch.cat([score, -score]), graphs, mix.m).keep
        regions = Transplants.among(mix, score, hosts).random_regions(keep[0], beside=False)
        rows = [keep[:1].expand(DRAWS, -1), regions, keep[1:].expand(DRAWS, -1)]
        chosen = by_boundary(torch.cat(rows), graphs, mix.generator)
        gaps = chosen[torch.arange(DRAWS).repeat(3)]
        own = torch.arange(graphs.num_graphs, device=hosts.device).expand(3 * DRAWS, -1)
        output = mix.predict(own, chosen, hosts.repeat(3, 1), gaps)
        values = context.task.values(output.flatten(0, 1))
        return cls(
            kept=values.view(3, *hosts.shape, -1).double().cpu(),
            hosts=context.values[hosts].double().cpu(),
            wanted=context.values.double().cpu(),
            classes=context.prediction.cpu() if context.task.classification else None,
        )

    def joined(self, other: Measured) -> Measured:
        """These graphs and others, measured with another pool."""
        classes = None
        if self.classes is not None and other.classes is not None:
            classes = torch.cat([self.classes, other.classes])
        return Measured(
            torch.cat([self.kept, other.kept], 2),
            torch.cat([self.hosts, other.hosts], 1),
            torch.cat([self.wanted, other.wanted]),
            classes,
        )

    @property
    def disagreement(self) -> list[float]:
        """One minus the correlation of the values of mixes and graphs, for the three."""
        found: list[float] = _disagreement(self._sums.mean(1)).tolist()
        return found

    def left(self, generator: torch.Generator) -> tuple[float, float]:
        """Interval of the share of the random disagreement that the pool leaves, over graphs."""
        pool, random, _ = _disagreement(_resampled(len(self.wanted), generator) @ self._sums)
        low, high = _ends(pool / random.clamp(min=1e-6))
        return low, high

    def p_value(self, generator: torch.Generator) -> float:
        """Chance of so low a disagreement or a lower one if pools were random regions.

        In every graph the two change places or not, as a coin says.
        """
        pool, random, _ = self._sums
        swap = torch.rand(1 + RESAMPLES, len(pool), generator=generator).round().double()
        swap[0] = 0
        ours, theirs = (
            _disagreement((side @ random + (1 - side) @ pool) / len(pool))
            for side in (swap, 1 - swap)
        )
        return _chance(theirs - ours)

    def effect(self, chosen: Tensor, generator: torch.Generator) -> tuple[float, ...]:
        """Effect of the pool in some graphs, the ends of its interval, and its p-value.

        The share of the way from hosts with random regions to the graph's own output that pools
        bring hosts further; of the way from hosts as they are where random regions are nearly
        there.
        """
        near = [self._near(values)[chosen] for values in (*self.kept[:2], self.hosts)]
        own = self._near(self.wanted.unsqueeze(0))[chosen]
        gain, rest, way = near[0] - near[1], own - near[1], own - near[2]
        way = rest if rest.mean() >= NEAR_ZERO * way.mean() else way
        if not float(way.mean()) > 1e-9:
            return 0.0, 0.0, 0.0, 1.0
        sign = torch.rand(1 + RESAMPLES, len(gain), generator=generator).round().double() * 2 - 1
        sign[0] = 1
        weights = _resampled(len(gain), generator)
        share = (weights @ gain) / (weights @ way).clamp(min=1e-9)
        effect = float(gain.mean() / way.mean())
        return effect, *_ends(share), _chance((sign * gain).mean(1))

    @property
    def _sums(self) -> Tensor:
        """Per graph all that a correlation is computed from ``[3, B, 2 C + 3]``."""
        middle, scale = self.wanted.mean(0), self.wanted.abs().max()
        kept, wanted = (values - middle for values in (self.kept, self.wanted.expand_as(self.kept)))
        kept, wanted = (torch.where(v.abs() > NOWHERE * scale, v, 0.0) for v in (kept, wanted))
        return torch.cat([kept, wanted, _products(kept, wanted)], -1).mean(1)

    def _near(self, values: Tensor) -> Tensor:
        """How near values ``[D, B, C]`` are to predictions ``[B]``, up to 1."""
        if self.classes is None:
            return (1 - (values - self.wanted).abs().mean(2)).clamp(min=0).mean(0)
        return values.mean(0).gather(1, self.classes.unsqueeze(1)).squeeze(1)


def _disagreement(sums: Tensor) -> Tensor:
    """From means of :attr:`Measured._sums`; 1 where nothing varies."""
    width = (sums.shape[-1] - 3) // 2
    kept, wanted = sums[..., :width], sums[..., width : 2 * width]
    kk, kw, ww = (sums[..., -3:] - _products(kept, wanted)).unbind(-1)
    norm = (kk.clamp(min=0) * ww.clamp(min=0)).sqrt()
    # What is left of equal numbers is rounding.
    varies = norm > 1e-9 * (sums[..., -3] * sums[..., -1]).sqrt()
    return 1 - torch.where(varies, kw / norm, 0.0)


def _products(kept: Tensor, wanted: Tensor) -> Tensor:
    pairs = ((kept, kept), (kept, wanted), (wanted, wanted))
    return torch.stack([(one * other).sum(-1) for one, other in pairs], -1)


def _resampled(count: int, generator: torch.Generator) -> Tensor:
    """Shares of the graphs in samples with replacement ``[R, B]``."""
    drawn = torch.randint(count, (RESAMPLES, count), generator=generator)
    none = torch.zeros(RESAMPLES, count, dtype=torch.double)
    return none.scatter_add(1, drawn, torch.full(drawn.shape, 1 / count, dtype=torch.double))


def _ends(samples: Tensor) -> tuple[float, float]:
    tail = (1 - CONFIDENCE) / 2
    low, high = samples.quantile(torch.tensor([tail, 1 - tail], dtype=torch.double)).tolist()
    return low, high


def _chance(samples: Tensor) -> float:
    """Share of samples that are as high as the first, which is the observation."""
    return float((samples >= samples[0] - 1e-12 * samples.abs().max()).double().mean())
