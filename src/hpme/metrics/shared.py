"""What metrics share: a value or the reason why there is none, and the best pairs of nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.graphs import GraphStore, Pairs
from hpme.graphs.hetero import flat_views
from hpme.graphs.segment import segment_sum


class MetricValue(float):
    """A float that knows why it is NaN: :attr:`reason` is ``None`` if the metric is defined."""

    __slots__ = ("reason",)
    reason: str | None

    def __new__(cls, value: float, reason: str | None = None) -> MetricValue:
        """NaN and a reason go together; one without the other is a mistake of the metric."""
        self = super().__new__(cls, value)
        if math.isnan(self) != (reason is not None):
            raise ValueError("a reason is needed for NaN, and only for NaN")
        self.reason = reason
        return self

    @classmethod
    def undefined(cls, reason: str) -> MetricValue:
        """NaN with the reason."""
        return cls(math.nan, reason)

    def __getnewargs__(self) -> tuple[float, str | None]:  # type: ignore[override]
        return float(self), self.reason

    def __repr__(self) -> str:
        number = float(self)
        return repr(number) if self.reason is None else f"MetricValue(nan, reason={self.reason!r})"


@dataclass(frozen=True, eq=False)
class GraphScores:
    """A metric with one value per graph."""

    per_graph: Tensor  # in the order of the graphs; NaN where undefined
    why: str  # values are undefined; the reason of the mean if all are

    @property
    def mean(self) -> MetricValue:
        """Mean over the graphs with a value."""
        return self._of(torch.mean)

    @property
    def std(self) -> MetricValue:
        """Population standard deviation over the graphs with a value."""
        return self._of(partial(torch.std, unbiased=False))

    @property
    def count(self) -> int:
        """Number of graphs with a value."""
        return int((~self.per_graph.isnan()).sum())

    def __float__(self) -> float:
        return float(self.mean)

    def _of(self, statistic: Callable[[Tensor], Tensor]) -> MetricValue:
        if not self.count:
            return MetricValue.undefined(self.why)
        return MetricValue(float(statistic(self.per_graph[~self.per_graph.isnan()])))


Size = int | float | Tensor
"""How many pairs of a graph its explanation has.

An ``int`` is their number, a ``float`` in (0, 1] their share of the graph's pairs, rounded up, a
tensor their number in each graph, such as :func:`truth_sizes`. It is at most all pairs of a graph.
"""


def resolve_size(size: Size, counts: Tensor) -> Tensor:
    """Number of pairs to select in every graph, from what a user asks for and how many it has."""
    if isinstance(size, Tensor):
        if size.shape != counts.shape or size.is_floating_point():
            raise InputError(
                f"size must have one integer for each of {counts.numel()} graphs, got "
                f"{size.dtype} of shape {tuple(size.shape)}"
            )
        if bool((size < 0).any()):
            raise InputError("size must not be negative")
        wanted = size.to(counts)
    elif isinstance(size, int):
        if size < 1:
            raise InputError(f"size must be at least 1 pair, got {size}")
        wanted = torch.full_like(counts, size)
    else:
        if not 0 < size <= 1:
            raise InputError(
                f"size as a share must lie in (0, 1], got {size}; a number of pairs is an int"
            )
        # 0.1 * 30 is a little more than 3
        wanted = (counts.double() * size - 1e-9).ceil().long()
    return torch.minimum(wanted, counts)


def descending(pairs: Pairs, score: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Pairs grouped by graph, best first; ties by node numbers, or at random."""
    order = torch.arange(score.numel(), device=score.device)
    if generator is not None:
        order = torch.randperm(score.numel(), generator=generator).to(score.device)
    order = order[score[order].argsort(descending=True, stable=True)]
    return order[pairs.graph[order].argsort(stable=True)]


def ranks(pairs: Pairs, score: Tensor, generator: torch.Generator) -> Tensor:
    """Rank of every pair in its graph, 0 for the best, ties at random: numbers may leak motifs."""
    order = descending(pairs, score, generator)
    rank = torch.empty_like(order)
    position = torch.arange(order.numel(), device=order.device)
    rank[order] = position - pairs.start[pairs.graph[order]]
    return rank


def hard_masks(explanations: Sequence[Any], size: Size, *, seed: int = 0) -> list[Tensor]:
    """The best pairs of every explanation as a boolean mask of its edges.

    A pair has the mean score of its edges, which are selected together, but for self-loops.

    Args:
        explanations: What an explainer returned.
        size: Number of pairs, see :obj:`Size`.
        seed: Decides between pairs with the same score.
    """
    store = GraphStore.from_graphs(explanations)
    pairs = store.pairs.proper
    score = pairs.mean(edge_scores(explanations))
    if bool(score.isnan().any()):
        graph = int(pairs.graph[score.isnan()][0])
        raise InputError(f"explanation {graph} has NaN scores, which cannot be ranked")
    rank = ranks(pairs, score, torch.Generator().manual_seed(seed))
    chosen = rank < resolve_size(size, pairs.counts)[pairs.graph]
    mask = pairs.per_edge(chosen, loops=False)
    parts: tuple[Tensor, ...] = mask.split(store.edge_counts.tolist())  # type: ignore[no-untyped-call]
    return list(parts)


def truth_sizes(graphs: Sequence[Any]) -> Tensor:
    """Number of ground-truth pairs of graphs with a boolean ``edge_mask``, in either direction."""
    pairs = GraphStore.from_graphs(graphs).pairs.proper
    return segment_sum(pairs.any(truth_edges(graphs)).long(), pairs.graph, pairs.num_graphs)


def edge_scores(explanations: Sequence[Any]) -> Tensor:
    """Edge masks of all explanations in a row, in double precision."""
    return _edge_masks(explanations, "explanation", "edge_mask").detach().double()


def truth_edges(graphs: Sequence[Any]) -> Tensor:
    """Ground-truth edge masks of all graphs in a row."""
    return _edge_masks(graphs, "graph", "ground truth edge_mask")


def _edge_masks(items: Sequence[Any], kind: str, name: str) -> Tensor:
    (items,) = flat_views(items)
    for number, item in enumerate(items):
        mask = item.get("edge_mask")
        if mask is None:
            raise InputError(f"{kind} {number} has no {name}")
        if mask.shape != item.edge_index.shape[1:]:
            raise InputError(
                f"{kind} {number} has {name} of shape {tuple(mask.shape)} for "
                f"{item.edge_index.shape[1]} edges; one value per edge is needed"
            )
    return torch.cat([item.edge_mask for item in items])
