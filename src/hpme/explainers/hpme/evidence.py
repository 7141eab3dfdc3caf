"""What transplants say about a region: how far it carries outputs, and what is lost without it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

Verdict = Literal["carried", "part", "several", "absence", "unclear"]
Row = list[float]
"""A mean and the ends of its interval."""
CONFIDENCE = 0.95
CARRIES = 0.5
"""Share of the way that a region must carry to be most of the reason."""
CONTRIBUTES = 0.25
"""Share of the way from which on what is lost is needed; a network of random weights has less."""
LITTLE = 0.1
"""Share of the way from which on a region that certainly carries something is part of a reason."""
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
    """Outputs of transplants of every graph and its hosts ``[D, B]``, NaN where there is none."""

    own: Tensor  # outputs of the graphs [B]
    hosts: Tensor  # of the hosts as they are
    inserted: Tensor  # with the region of the graph
    random: Tensor  # with a random region of it
    removed: Tensor  # the graph with something neutral in place of the region
    spared: Tensor  # the same for a random region
    bounded: bool  # whether there cannot be too much: of probabilities
    # Share of the transplants that chemistry allows [B], 0 where too few; NaN for no molecules.
    share: Tensor = field(default_factory=lambda: torch.tensor(math.nan))
    # By graph and draw the ``Transplant`` of the host, and of it with either region.
    made: dict[tuple[int, int], tuple[Any, Any, Any]] = field(default_factory=dict)

    def with_grafts(self, other: Trials) -> Trials:
        """The same with those of molecules; where these are too few, only what is lost counts."""
        rows = max(len(self.hosts), len(other.hosts))

        def chosen(name: str) -> Tensor:
            tables = (getattr(one, name).double() for one in (self, other))
            ours, theirs = (pad(t, (0, 0, 0, rows - len(t)), value=math.nan) for t in tables)
            if name in ("inserted", "random"):
                ours = torch.where(other.share == 0, torch.nan, ours)
            return torch.where(other.share > 0, theirs, ours)

        names = ("hosts", "inserted", "random", "removed", "spared")
        tables: dict[str, Any] = {name: chosen(name) for name in names}
        return replace(self, **tables, share=other.share, made=other.made)

    @property
    def differ(self) -> Tensor:
        """Hosts that differ enough from their graphs, to the side of the farthest ``[D, B]``."""
        return far(self.own.double() - self.hosts.double())


def far(apart: Tensor) -> Tensor:
    """Differences ``[D, B]`` that are large enough, and to the side of the largest."""
    farthest = apart.gather(0, apart.abs().nan_to_num(-1.0).argmax(0, keepdim=True))
    return (apart * farthest.sign() >= DIFFERENT * farthest.abs()) & apart.isfinite()


def degrees(trials: Trials) -> dict[str, Tensor]:
    """Numbers of all graphs, as :class:`Quality` calls them; those with intervals are ``[B, 3]``.

    Also ``kept``, the share of the way that is left without the random region that is needed most,
    ``rest``, how far the graph without the region is ahead of hosts with random ones, and whether
    grafts clearly take hosts ``towards`` the graph. The way begins at hosts with random regions;
    where these are nearly there already, at hosts as they are.
    """
    own, there = trials.own.double(), trials.differ
    scale = torch.maximum(own.abs(), trials.hosts.double().abs().nan_to_num().amax(0))
    hosts, inserted, random, removed, spared = (
        torch.where(there, table.double(), torch.nan)
        for table in (trials.hosts, trials.inserted, trials.random, trials.removed, trials.spared)
    )
    whole, left = (own - hosts).nanmean(0), own - random.nanmean(0)
    # Hosts make room for what is put into them, which alone may change them: what is left counts.
    way = torch.where(left.abs() >= NEAR_ZERO * whole.abs(), left, whole)
    stays = ~(way.abs() > NOWHERE * scale)
    share = torch.where(stays, 0.0, 1 / way)

    def nearer(one: Tensor, other: Tensor) -> Tensor:
        """How much nearer to the own output, in shares; more than whole is no nearer for values."""
        if trials.bounded:
            return (one - other) * share
        return ((other - own).abs() - (one - own).abs()) * share.abs()

    without_random = nearer(spared, own.expand_as(spared)).clamp(max=0)  # what rises is not lost
    carried, effect = nearer(inserted, random), interval(inserted - hosts)
    lost = interval(without_random - nearer(removed, own.expand_as(removed)))
    # Hosts of mixes make room first; a graft that does nothing where random ones harm is no reason.
    towards = torch.where(whole > 0, effect[:, 1], -effect[:, 2]) > 0
    return {
        "carried": torch.where(stays.unsqueeze(1), 0.0, interval(carried)),
        "p": torch.where(stays, 1.0, p_value(carried)),
        "lost": torch.where(stays.unsqueeze(1), 0.0, lost),
        "effect": effect.clamp(-1, 1) if trials.bounded else effect,
        "random": (random - hosts).nanmean(0),
        "removal": interval(removed - own),
        "way": whole,
        "kept": 1 + without_random.nan_to_num(0.0).amin(0),
        "rest": nearer(removed, random).nanmean(0),
        "towards": towards | ~(trials.share.to(own.device) > 0),
    }


def interval(change: Tensor) -> Tensor:
    """Mean and 95 % confidence interval ``[B, 3]`` over the finite rows of changes ``[D, B]``."""
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


def verdicts(found: Mapping[str, Tensor]) -> list[Verdict]:
    """What predictions rest on, by :func:`degrees`."""
    names = ("carried", "lost", "effect", "random", "rest", "kept", "towards")
    return [_verdict(*row) for row in zip(*(found[name].tolist() for name in names), strict=True)]


def _verdict(
    carried: Row, lost: Row, effect: Row, random: float, rest: float, kept: float, towards: bool
) -> Verdict:
    """The verdict of one graph; comparisons with NaN are false."""
    if carried[0] >= CARRIES and carried[1] > 0 and towards:
        return "several" if rest >= CARRIES else "carried"
    shares = (carried, lost) if towards else (lost,)
    if any(share >= LITTLE and low > 0 for share, low, _ in shares):
        return "part"
    random *= 1 + LITTLE  # regions that do hardly more than random ones do nothing of their own
    moves = effect[1] > max(0.0, random) or effect[2] < min(0.0, random)
    narrow = all(abs(end) < NEAR_ZERO for end in (*carried[1:], *lost[1:]))
    return "absence" if narrow and kept >= KEPT and not moves else "unclear"
