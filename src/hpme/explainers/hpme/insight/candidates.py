"""Patterns that may matter: pooled subgraphs of many graphs, grouped, and their parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hpme.graphs.patterns import LabelledGraphs, Pattern

LARGEST = 12
"""Nodes of the largest pattern; larger ones occur in hardly more than one graph."""
SEEDS, BEAM, KEPT = 24, 6, 60
"""Groups of pooled subgraphs to begin with; for each prediction, patterns of a size whose parts are
tried; and patterns that are kept in the end."""
LEAST_GRAPHS = 3
"""A group has at least so many subgraphs; what occurs once or twice is no habit of a model."""
MOST_LEAVING = 4
"""Edges from a match to the rest of its graph, up to which a limit of them may be part of a
condition."""


@dataclass(frozen=True)
class Candidates:
    """Patterns, in which graphs they are, and how often they were pooled as a whole.

    Args:
        patterns: The patterns, no two isomorphic.
        has: Whether graphs have them, boolean ``[P, B]``.
        pooled: How often each is a whole component of the pooled subgraph.
    """

    patterns: list[Pattern]
    has: Tensor
    pooled: Tensor


class _Catalogue:
    """Patterns by hash; isomorphic ones are one."""

    def __init__(self) -> None:
        self.patterns: list[Pattern] = []
        self.count: list[int] = []
        self._by_hash: dict[str, list[int]] = {}

    def add(self, pattern: Pattern, count: int = 0) -> int:
        """Number of the pattern."""
        known = self._by_hash.setdefault(pattern.wl_hash, [])
        for number in known:
            if self.patterns[number].same_as(pattern):
                self.count[number] = max(self.count[number], count)
                return number
        known.append(len(self.patterns))
        self.patterns.append(pattern)
        self.count.append(count)
        return known[-1]


def find_candidates(
    graphs: LabelledGraphs,
    regions: list[Tensor],
    gain: Callable[[Tensor], Tensor],
    speaks_for: Callable[[Tensor], Tensor],
    advance: Callable[[int], None],
    *,
    least: float | None,
) -> Candidates:
    """Groups components of pooled subgraphs, and tries parts of those that tell graphs apart.

    Args:
        graphs: The graphs.
        regions: Boolean node masks; components of all of them are grouped.
        gain: How well patterns tell predictions apart, from ``has`` ``[P, B]``.
        speaks_for: Number of the prediction that patterns speak for, from the same; patterns for
            one prediction do not crowd out those for another.
        advance: Called once for each size of patterns, of which there are :data:`LARGEST`.
        least: What a limit of the edges that leave a match must gain; without it there are none.
    """
    catalogue = _Catalogue()
    for region in regions:
        for pattern, count in _groups(graphs, region):
            catalogue.add(pattern, count)
    has: dict[int, Tensor] = {}
    for size in range(LARGEST, 0, -1):
        level = [i for i, pattern in enumerate(catalogue.patterns) if len(pattern) == size]
        for i in level:
            pattern = catalogue.patterns[i]
            catalogue.patterns[i], has[i] = _limited(graphs, pattern, gain, least)
        if level:
            rows = torch.stack([has[i] for i in level])
            for place in _best(gain(rows), speaks_for(rows), BEAM):
                for part in catalogue.patterns[level[place]].parts():
                    catalogue.add(part)
        advance(1)
    if not has:
        return Candidates([], torch.zeros(0, graphs.count, dtype=torch.bool), torch.zeros(0))
    rows = torch.stack([has[i] for i in range(len(catalogue.patterns))])
    pooled = torch.tensor(catalogue.count, dtype=torch.float)
    often = (rows.sum(1) >= LEAST_GRAPHS).nonzero().view(-1)
    sides = speaks_for(rows[often])
    each = -(-KEPT // max(1, len(torch.unique(sides))))
    chosen = often[_best(gain(rows[often]), sides, each)]
    return Candidates(
        [catalogue.patterns[i] for i in chosen.tolist()], rows[chosen], pooled[chosen]
    )


def _best(gain: Tensor, side: Tensor, count: int) -> list[int]:
    """Places of the largest gains of each side, the largest first."""
    order = gain.argsort(descending=True, stable=True)
    mine = side[order].unsqueeze(0) == torch.unique(side).unsqueeze(1)
    before = (mine.cumsum(1) * mine).sum(0)
    return [int(place) for place in order[before <= count]]


def _limited(
    graphs: LabelledGraphs,
    pattern: Pattern,
    gain: Callable[[Tensor], Tensor],
    least: float | None,
) -> tuple[Pattern, Tensor]:
    """A pattern, with a limit of leaving edges if that tells graphs apart better."""
    leaving = graphs.least_leaving(pattern)
    limits = torch.arange(MOST_LEAVING + 1)
    has = torch.cat([leaving.isfinite().unsqueeze(0), leaving <= limits.unsqueeze(1)])
    if least is None:
        return pattern, has[0]
    gains = gain(has)
    best = int(gains.argmax())
    if best == 0 or float(gains[best] - gains[0]) < least:
        return pattern, has[0]
    return replace(pattern, leaving=best - 1), has[best]


def _groups(graphs: LabelledGraphs, region: Tensor) -> list[tuple[Pattern, int]]:
    """The most frequent components of a region, and in how many graphs each is one."""
    component, code = graphs.components(region)
    inside = region.nonzero().view(-1)
    roots, sizes = torch.unique(component[inside], return_counts=True)
    roots = roots[sizes <= LARGEST]
    kinds, kind = torch.unique(code[roots], return_inverse=True)
    once = torch.unique(torch.stack([kind, graphs.graph[roots]]), dim=1)[0]
    count = torch.bincount(once, minlength=len(kinds))
    first = torch.full((len(kinds),), len(roots)).scatter_reduce(
        0, kind, torch.arange(len(roots)), "amin"
    )
    found = []
    for number in count.argsort(descending=True, stable=True)[:SEEDS].tolist():
        if int(count[number]) < min(LEAST_GRAPHS, graphs.count):
            break
        nodes = (component == roots[first[number]]).nonzero().view(-1)
        found.append((graphs.pattern_of(nodes), int(count[number])))
    return found
