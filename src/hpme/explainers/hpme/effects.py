"""What pooled regions and nodes do to outputs: of single graphs, and of a pool on many graphs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from hpme.explainers.hpme.evidence import CONFIDENCE, NEAR_ZERO, NOWHERE, interval
from hpme.explainers.hpme.method.pool import by_boundary
from hpme.explainers.hpme.search.criterion import outcome, value_of
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.transplants import Transplants
from hpme.graphs.segment import exclusive_cumsum

SIZE_GROUPS = 4
"""Graphs of like size are asked about together; a sweep is as long as the largest of them."""


@dataclass(frozen=True)
class Effect:
    """How much higher the output is than with something else in its place.

    The pooled region of :math:`G` gives way to that of another graph, which is a hard mix with
    :math:`G` as the host: the effect is :math:`f(G) - f(G^{(mix)})`, the mean over hosts. The
    effect of a node is the same for one node, of its own type, in place of the region. In
    molecules, where it is known how the model reads them, neutral groups take the place of what
    chemistry can exchange: an atom goes with what it cannot be cut off from. The output is the
    probability of the explained class, or the value in its own unit.

    Args:
        mean: Mean change; positive if the region raises the output.
        low, high: Ends of its 95 % confidence interval over hosts.
        nodes: Mean, low and high for every node, ``[N, 3]``; NaN if they were not asked about, and
            where graphs are about nodes, which cannot give way.
    """

    mean: float
    low: float
    high: float
    nodes: Tensor

    @property
    def sign(self) -> int:
        """1 if the region raises the output, -1 if it lowers it, 0 if the interval holds 0."""
        return int(self.low > 0) - int(self.high < 0)

    def __str__(self) -> str:
        word = {1: "raises", -1: "lowers", 0: "does not clearly change"}[self.sign]
        return f"{word} the output: {self.mean:+.3g} [{self.low:+.3g}, {self.high:+.3g}]"


@torch.no_grad()
def effects_of(
    transplants: Transplants,
    *,
    draws: int,
    nodes: bool = True,
    without: tuple[Tensor, Tensor] | None = None,
) -> list[Effect]:
    """Effects in graphs; hosts are drawn at random, since intervals are about chance.

    Molecules are mixed as graphs where all outputs ``without`` atoms are NaN.
    """
    mix, count = transplants.mix, transplants.count
    graphs, total = mix.graphs, mix.graphs.num_graphs
    device, sizes = mix.context.device, graphs.sizes[:count]
    hosts = torch.randint(count, total, (draws, count), generator=mix.generator).to(device)
    every = torch.arange(count, device=device)
    before = value_of(mix.context, mix.context.values[None, :count], every)[0]
    pooled = mix.select(transplants.score)[torch.zeros(draws, dtype=torch.long)]
    output = mix.predict(hosts, pooled, every.expand(draws, -1), pooled)
    overall = interval(before - outcome(mix.context, output, every))
    single = torch.full((int(sizes.sum()), 3), torch.nan, device=device)
    if nodes and graphs.anchors is None:
        # Only nodes of a type take each other's place.
        kind = torch.zeros_like(graphs.batch) if graphs.node_type is None else graphs.node_type
        for ids in sizes.argsort().chunk(min(count, SIZE_GROUPS)):
            for number in sorted(set(kind.tolist())):
                rows, table = _node_effects(mix, ids, hosts[:, ids], before[ids], kind == number)
                single[rows] = table
    if without is not None:
        pairs = (before, overall), (before[graphs.batch[: len(single)]], single)
        overall, single = (
            torch.where(
                left.isfinite().any(0).unsqueeze(1).to(known.device),
                interval(own.cpu().double() - left).to(known),
                known,
            )
            for (own, known), left in zip(pairs, without, strict=True)
        )
    parts = single.cpu().split(sizes.tolist())  # type: ignore[no-untyped-call]
    rows_of = zip(overall.tolist(), parts, strict=True)
    return [Effect(mean, low, high, part) for (mean, low, high), part in rows_of]


def _node_effects(
    mix: HardMix, ids: Tensor, hosts: Tensor, before: Tensor, among: Tensor
) -> tuple[Tensor, Tensor]:
    """Numbers of nodes of some graphs, those among a mask ``[N]``, and their effects ``[n, 3]``."""
    # In row k of a sweep graphs give their k-th of these nodes away; short ones begin again.
    graphs, (draws, count) = mix.graphs, hosts.shape
    sizes = torch.bincount(graphs.batch[among], minlength=graphs.num_graphs)
    number = among.cumsum(0) - 1 - exclusive_cumsum(sizes)[graphs.batch]
    longest = int(sizes[ids].max())
    if not longest:
        return ids[:0], before.new_zeros(0, 3)
    step = torch.arange(longest, device=ids.device).repeat_interleave(draws)
    wanted = step.unsqueeze(1) % sizes.clamp(min=1).unsqueeze(0)
    single = by_boundary(among & (number == wanted[:, graphs.batch]), graphs, mix.generator)
    column = torch.full_like(sizes, -1)
    column[ids] = torch.arange(count, device=ids.device)
    rows = (among & (column[graphs.batch] >= 0)).nonzero().squeeze(1)
    own = ids.expand(draws * longest, -1)
    output = mix.predict(hosts.repeat(longest, 1), single, own, single)
    change = before - outcome(mix.context, output, ids).view(longest, draws, count)
    table = interval(change.transpose(0, 1).flatten(1)).view(longest, count, 3)
    return rows, table[number[rows], column[graphs.batch[rows]]]


DRAWS = 8
"""Hosts per graph, and random regions."""
RESAMPLES = 1999


@dataclass(frozen=True)
class Measured:
    """Hard mixes of graphs with room for the pool; see :meth:`~hpme.models.output.Task.values`."""

    kept: Tensor  # [2, D, B, C]: hosts with the pool, and with a random region as connected
    hosts: Tensor  # as they are [D, B, C]
    wanted: Tensor  # of graphs [B, C]
    classes: Tensor | None  # predicted ones [B], if any

    @classmethod
    def on(cls, *parts: tuple[HardMix, nn.Module]) -> Measured:
        """Pools on all graphs of their mixes, in each of which graphs host one another."""
        kept, hosts, wanted, classes = zip(*(_asked(*part) for part in parts), strict=True)
        predicted = torch.cat(classes) if parts[0][0].context.task.classification else None
        return cls(torch.cat(kept, 2), torch.cat(hosts, 1), torch.cat(wanted), predicted)

    @property
    def disagreement(self) -> tuple[float, float]:
        """One minus the correlation of values of mixes with those of graphs; of random regions."""
        pool, random = _disagreement(self._sums.mean(1)).tolist()
        return pool, random

    def left(self, generator: torch.Generator) -> tuple[float, float]:
        """Interval of the share of the random disagreement that the pool leaves, over graphs."""
        classes = torch.zeros(len(self.wanted)) if self.classes is None else self.classes
        pool, random = _disagreement(_resampled(classes, generator) @ self._sums)
        return _ends(pool / random.clamp(min=1e-6))

    def p_value(self, generator: torch.Generator) -> float:
        """Chance of so much less disagreement if pools and random regions could change places."""
        pool, random = self._sums
        swap = (_signs(len(pool), generator) < 0).double()
        ours, theirs = (
            _disagreement((side @ random + (1 - side) @ pool) / len(pool))
            for side in (swap, 1 - swap)
        )
        return _chance(theirs - ours)

    def effect(
        self, chosen: Tensor, generator: torch.Generator
    ) -> tuple[float, float, float, float]:
        """Effect of the pool in some graphs, the ends of its interval, and its p-value.

        The share of the way from hosts with random regions, or as they are if these are nearly
        there, to the graph's own output that pools bring hosts further.
        """
        pool, random, host = (self._near(v)[chosen] for v in (*self.kept, self.hosts))
        own = self._near(self.wanted.unsqueeze(0))[chosen]
        gain, way = pool - random, own - random
        if way.mean() < NEAR_ZERO * (own - host).mean():
            way = own - host
        if not float(way.mean()) > NOWHERE * float(own.abs().max()):
            return 0.0, 0.0, 0.0, 1.0
        weights = _resampled(torch.zeros(len(gain)), generator)
        low, high = _ends((weights @ gain) / (weights @ way).clamp(min=NEAR_ZERO * way.mean()))
        chance = _chance(_signs(len(gain), generator) @ gain)
        return float(gain.mean() / way.mean()), low, high, chance

    def shares(self, chosen: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Shares of the way from hosts to each graph's own output, with the pool and random."""
        host, own = (self._near(v)[chosen] for v in (self.hosts, self.wanted.unsqueeze(0)))
        way = (own - host).clamp(min=max(NOWHERE, NEAR_ZERO * float((own - host).mean())))
        found = [((self._near(v)[chosen] - host) / way).tolist() for v in self.kept]
        pool, random = (tuple(round(share, 3) for share in some) for some in found)
        return pool, random

    @property
    def _sums(self) -> Tensor:
        """Of every graph all that correlations are computed from ``[2, B, 2 C + 3]``."""
        middle, scale = self.wanted.mean(0), self.wanted.abs().max()
        kept, wanted = (v - middle for v in (self.kept, self.wanted.expand_as(self.kept)))
        kept, wanted = (torch.where(v.abs() > NOWHERE * scale, v, 0.0) for v in (kept, wanted))
        return torch.cat([kept, wanted, _products(kept, wanted)], -1).mean(1)

    def _near(self, values: Tensor) -> Tensor:
        """How near values ``[D, B, C]`` are to predictions ``[B]``, up to 1."""
        if self.classes is None:
            return (1 - (values - self.wanted).abs().mean(2)).clamp(min=0).mean(0)
        return values.mean(0).gather(1, self.classes.unsqueeze(1)).squeeze(1)


@torch.no_grad()
def _asked(mix: HardMix, pool: nn.Module) -> tuple[Tensor, ...]:
    """Values of mixes, of hosts and of graphs, and predictions."""
    mix = replace(mix, alone=False)
    context, hosts = mix.context, mix.draw(DRAWS)
    parts = Transplants.among(mix, mix.scores(pool), hosts)
    regions = parts.random_regions(parts.pool, beside=False)
    keep = torch.cat([parts.pool.expand_as(regions), regions])
    chosen = by_boundary(keep, mix.graphs, mix.generator)
    gaps = chosen[torch.arange(DRAWS).repeat(2)]
    own = torch.arange(hosts.shape[1], device=hosts.device).expand(2 * DRAWS, -1)
    output = mix.predict(own, chosen, hosts.repeat(2, 1), gaps)
    kept = context.task.values(output.flatten(0, 1)).view(2, *hosts.shape, -1)
    found = kept, context.values[hosts], context.values
    return *(values.double().cpu() for values in found), context.prediction.cpu()


def _disagreement(sums: Tensor) -> Tensor:
    """From means over graphs of what correlations are computed from; 1 where nothing varies."""
    width = (sums.shape[-1] - 3) // 2
    kept, wanted, products = sums.split([width, width, 3], -1)  # type: ignore[no-untyped-call]
    kk, kw, ww = (products - _products(kept, wanted)).unbind(-1)
    norm = (kk.clamp(min=0) * ww.clamp(min=0)).sqrt()
    varies = norm > 1e-9 * (products[..., 0] * products[..., 2]).sqrt()  # more than rounding
    return 1 - torch.where(varies, kw / norm, 0.0)


def _products(kept: Tensor, wanted: Tensor) -> Tensor:
    pairs = ((kept, kept), (kept, wanted), (wanted, wanted))
    return torch.stack([(one * other).sum(-1) for one, other in pairs], -1)


def _resampled(classes: Tensor, generator: torch.Generator) -> Tensor:
    """Shares of the graphs in samples with replacement ``[R, B]``, as many of every class."""
    _, group, counts = torch.unique(classes, return_inverse=True, return_counts=True)
    order, start = group.argsort(), exclusive_cumsum(counts)
    place = (torch.rand(RESAMPLES, len(group), generator=generator) * counts[group]).long()
    share = torch.full(place.shape, 1 / len(group), dtype=torch.double)
    return torch.zeros_like(share).scatter_add(1, order[start[group] + place], share)


def _signs(count: int, generator: torch.Generator) -> Tensor:
    """Random signs of graphs ``[1 + R, B]``, the first row positive: what was observed."""
    sign = torch.rand(1 + RESAMPLES, count, generator=generator).round().double() * 2 - 1
    sign[0] = 1
    return sign


def _ends(samples: Tensor) -> tuple[float, float]:
    tail = (1 - CONFIDENCE) / 2
    low, high = samples.quantile(torch.tensor([tail, 1 - tail], dtype=torch.double)).tolist()
    return low, high


def _chance(samples: Tensor) -> float:
    """Share of samples that are as high as the first."""
    return float((samples >= samples[0] - 1e-12 * samples.abs().max()).double().mean())
