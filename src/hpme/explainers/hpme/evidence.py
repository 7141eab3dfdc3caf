"""What transplants say about a region: how far it carries outputs, and what is lost without it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

Verdict = Literal["carried", "part", "several", "absence", "unclear"]
CONFIDENCE = 0.95
CARRIES = 0.5
"""Share of the way that a region must carry to be most of the reason."""
CONTRIBUTES = 0.25
"""Share of the way from which on a region contributes; a network of random weights has less."""
LITTLE = 0.1
"""A certain share of this much is too much for a prediction that rests on absence."""
NEAR_ZERO = 0.25
"""Intervals inside this share of the way, either side of zero, say that nothing happens."""
KEPT = 0.5
"""Share of the way that is left, whatever is replaced, where a prediction rests on absence."""
DIFFERENT = 0.5
"""Hosts are as far from the graph's output as this share of the farthest; others are too near."""
NOWHERE = 1e-6
"""Outputs that differ by no more than this share of their size are the same."""


@dataclass(frozen=True)
class Trials:
    """Outputs of transplants of every graph and its hosts ``[D, B]``, NaN where there is none.

    Args:
        own: Outputs of the graphs ``[B]``.
        hosts: Outputs of the hosts as they are.
        inserted: With the region of the graph.
        random: With a random region of it.
        removed: The graph with something neutral in place of the region.
        spared: The same for a random region.
        bounded: Whether outputs are probabilities, of which there cannot be too much.
    """

    own: Tensor
    hosts: Tensor
    inserted: Tensor
    random: Tensor
    removed: Tensor
    spared: Tensor
    bounded: bool

    def to(self, device: torch.device) -> Trials:
        """The same on a device."""
        found: Any = {k: v.to(device) for k, v in vars(self).items() if isinstance(v, Tensor)}
        return replace(self, **found)

    def replaced(self, other: Trials, share: Tensor) -> Trials:
        """The same with trials of molecules; ``share`` of these is allowed, NaN for other graphs.

        Mixes of molecules are none: where grafts are too few, only what is lost counts.
        """
        rows, share = max(len(self.hosts), len(other.hosts)), share.to(self.hosts.device)

        def chosen(name: str) -> Tensor:
            tables = (getattr(one, name).double() for one in (self, other))
            ours, theirs = (pad(t, (0, 0, 0, rows - len(t)), value=math.nan) for t in tables)
            if name in ("inserted", "random"):
                ours = torch.where(share == 0, torch.nan, ours)
            return torch.where(share > 0, theirs.to(ours), ours)

        hosts, inserted, random = map(chosen, ("hosts", "inserted", "random"))
        removed, spared = chosen("removed"), chosen("spared")
        return Trials(self.own, hosts, inserted, random, removed, spared, self.bounded)

    @property
    def differ(self) -> Tensor:
        """Hosts that differ enough from their graphs, to the side of the farthest ``[D, B]``."""
        return far(self.own.double() - self.hosts.double())

    @property
    def pairs(self) -> Tensor:
        """Number of regions beside random ones, inserted or replaced, whichever is more ``[B]``."""
        inserted = (self.inserted.isfinite() & self.random.isfinite()).sum(0)
        return torch.maximum(inserted, (self.removed.isfinite() & self.spared.isfinite()).sum(0))


def far(apart: Tensor) -> Tensor:
    """Differences ``[D, B]`` that are large enough, and to the side of the largest."""
    farthest = apart.gather(0, apart.abs().nan_to_num(-1.0).argmax(0, keepdim=True))
    return (apart * farthest.sign() >= DIFFERENT * farthest.abs()) & apart.isfinite()


@dataclass(frozen=True)
class Grafted:
    """Trials by grafts.

    Args:
        trials: Outputs; only those of graphs with a share above 0 mean something.
        share: Share of the transplants that chemistry allows, 0 where there are too few; NaN for
            graphs that are no molecules.
        made: By graph and draw: the host, it with the region, and it with a random region, as
            :class:`~hpme.data.molecules.grafts.Transplant`.
    """

    trials: Trials
    share: Tensor
    made: dict[tuple[int, int], tuple[Any, Any, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Degrees:
    """What a region does, in units of the output (see :class:`Quality`); intervals ``[B, 3]``.

    Args:
        carried: Share of the way from hosts to the graph, beyond random regions.
        p: Chance of so much or more if the region did no more than random ones.
        lost: Share of the way that the graph loses without it, beyond random regions.
        effect: How much higher hosts' outputs are with it.
        random: How much higher they are with random regions ``[B]``.
        removal: How much higher the graph's output is without it.
        spared: How much nearer to it in shares the graph is without that random region that it
            needs most ``[B]``, that is 0 or less.
        rest: How much nearer it is without the region than hosts with random regions ``[B]``.
        way: How much higher the graph's output is than those of hosts as they are ``[B]``.
    """

    carried: Tensor
    p: Tensor
    lost: Tensor
    effect: Tensor
    random: Tensor
    removal: Tensor
    spared: Tensor
    rest: Tensor
    way: Tensor


def degrees(trials: Trials) -> Degrees:
    """Degrees of all graphs, over those of their hosts that differ enough from them.

    Hosts are on one side of the graph's output, that of the farthest. The way begins at hosts with
    random regions; where these are nearly there already, at hosts as they are. Where none differs
    at all, shares are 0.
    """
    own, there = trials.own.double(), trials.differ
    scale = torch.maximum(own.abs(), trials.hosts.double().abs().nan_to_num().amax(0))

    def chosen(values: Tensor) -> Tensor:
        return torch.where(there, values.double(), torch.nan)

    hosts, inserted, random = map(chosen, (trials.hosts, trials.inserted, trials.random))
    removed, spared = chosen(trials.removed), chosen(trials.spared)
    whole, rest = (own - hosts).nanmean(0), own - random.nanmean(0)
    # Hosts make room for what is put into them, which alone may change them: what is left counts.
    way = torch.where(rest.abs() >= NEAR_ZERO * whole.abs(), rest, whole)
    stays = ~(way.abs() > NOWHERE * scale)
    share = torch.where(stays, 0.0, 1 / way)

    def nearer(one: Tensor, other: Tensor) -> Tensor:
        """How much nearer to the own output, in shares; more than whole is no nearer for values."""
        if trials.bounded:
            return (one - other) * share
        return ((other - own).abs() - (one - own).abs()) * share.abs()

    carried, effect = nearer(inserted, random), interval(inserted - hosts)
    return Degrees(
        carried=torch.where(stays.unsqueeze(1), 0.0, interval(carried)),
        p=torch.where(stays, 1.0, p_value(carried)),
        lost=torch.where(stays.unsqueeze(1), 0.0, interval(nearer(spared, removed))),
        effect=effect.clamp(-1, 1) if trials.bounded else effect,
        random=(random - hosts).nanmean(0),
        removal=interval(removed - own),
        spared=nearer(spared, own.expand_as(spared)).nan_to_num(0.0).amin(0),
        rest=nearer(removed, random).nanmean(0),
        way=whole,
    )


def interval(change: Tensor) -> Tensor:
    """Mean and 95 % confidence interval ``[B, 3]`` over the rows of changes ``[D, B]``.

    Entries that are NaN do not count; of fewer than two there is no end.
    """
    mean, error, freedom = _moments(change)
    quantile = import_module("scipy.stats").t.ppf((1 + CONFIDENCE) / 2, freedom.cpu().numpy())
    half = torch.from_numpy(quantile).to(error) * error
    half = torch.where(freedom < 1, math.inf, half)
    return torch.stack([mean, mean - half, mean + half], dim=1)


def p_value(change: Tensor) -> Tensor:
    """Chance of so high a mean over rows ``[D, B]``, or a higher one, if the true one is 0."""
    mean, error, freedom = _moments(change)
    statistic = (mean / error).nan_to_num(0.0)  # infinite where all rows agree
    found = import_module("scipy.stats").t.sf(
        statistic.cpu().numpy(), freedom.clamp(min=1).cpu().numpy()
    )
    return torch.where(freedom < 1, torch.nan, torch.from_numpy(found).to(mean))


def _moments(change: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, its standard error, and degrees of freedom."""
    count = change.isfinite().sum(0)
    mean = change.nanmean(0)
    square = (change - mean).square().nansum(0) / (count - 1).clamp(min=1)
    return mean, (square / count.clamp(min=1)).sqrt(), (count - 1).to(mean)


def verdicts(found: Degrees) -> list[Verdict]:
    """What predictions rest on."""
    rows = zip(found.carried.tolist(), found.lost.tolist(), found.rest.tolist(), strict=True)
    kept = (1 + found.spared).tolist()
    return [_verdict(*row, left) for row, left in zip(rows, kept, strict=True)]


def _verdict(carried: list[float], lost: list[float], rest: float, kept: float) -> Verdict:
    """The verdict of one graph; comparisons with NaN are false.

    Args:
        carried, lost: Shares and the ends of their intervals, see :class:`Degrees`.
        rest: Share of the way that the graph without the region is ahead of hosts with random ones.
        kept: Share of the way that is left without the random region that is needed most.
    """
    if carried[0] >= CARRIES and carried[1] > 0:
        return "several" if rest >= carried[0] / 2 else "carried"
    happens = max(share if low > 0 else 0.0 for share, low, _ in (carried, lost))
    if happens >= CONTRIBUTES:
        return "part"
    ends = *carried[1:], *lost[1:]
    if happens < LITTLE and all(abs(end) < NEAR_ZERO for end in ends) and kept >= KEPT:
        return "absence"
    return "unclear"
