"""From soft edge masks to hard ones: the best pairs of nodes of every graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.graphs.batch import GraphBatch, GraphStore
from hpme.graphs.edge_pairs import EdgePairs
from hpme.graphs.segment import exclusive_cumsum, segment_mean, segment_sum

Size = int | float | Tensor
"""How many pairs of a graph its explanation has.

An ``int`` is their number, a ``float`` in (0, 1] their share of the graph's pairs, rounded up, a
tensor their number in each graph, such as :func:`truth_sizes`. It is at most all pairs of a graph.
"""


@dataclass(frozen=True)
class PairTable:
    r"""Connected pairs of two different nodes, whatever the directions between them.

    Self-loops belong to no pair: they are neither scored nor selected nor deleted.

    Args:
        graph: Graph number :math:`[P]` of every pair, non-decreasing.
        of_edge: Pair :math:`[E]` of every edge, -1 for a self-loop.
        counts: Number of pairs of every graph.
    """

    graph: Tensor
    of_edge: Tensor
    counts: Tensor

    @classmethod
    def of(cls, graphs: GraphBatch) -> PairTable:
        """The pairs of a batch of graphs."""
        pairs = EdgePairs.of(graphs)
        proper = pairs.index[0] != pairs.index[1]
        number = torch.where(proper, proper.long().cumsum(0) - 1, -1)
        graph = graphs.batch[pairs.index[0, proper]]
        counts = torch.bincount(graph, minlength=graphs.num_graphs)
        return cls(graph, number[pairs.of_edge], counts)

    @cached_property
    def start(self) -> Tensor:
        """Position of every graph's first pair."""
        return exclusive_cumsum(self.counts)

    def mean(self, edge_values: Tensor) -> Tensor:
        """Mean of every pair over its edges, in double precision."""
        proper = self.of_edge >= 0
        values = edge_values.detach().double()[proper]
        return segment_mean(values, self.of_edge[proper], self.graph.numel())

    def any(self, edge_mask: Tensor) -> Tensor:
        """Whether any edge of a pair is marked."""
        return self.mean(edge_mask) > 0

    def per_edge(self, pair_mask: Tensor, *, loops: bool) -> Tensor:
        """Marks of pairs at their edges; those of self-loops are ``loops``."""
        return torch.cat([pair_mask, pair_mask.new_full((1,), loops)])[self.of_edge]

    def resolve(self, size: Size) -> Tensor:
        """Number of pairs to select in every graph.

        Raises:
            InputError: If the size is negative, no share, or not of one value per graph.
        """
        if isinstance(size, Tensor):
            if size.shape != self.counts.shape or size.is_floating_point():
                raise InputError(
                    f"size must have one integer for each of {self.counts.numel()} graphs, got "
                    f"{size.dtype} of shape {tuple(size.shape)}"
                )
            if bool((size < 0).any()):
                raise InputError("size must not be negative")
            wanted = size.to(self.counts)
        elif isinstance(size, int):
            if size < 1:
                raise InputError(f"size must be at least 1 pair, got {size}")
            wanted = torch.full_like(self.counts, size)
        else:
            if not 0 < size <= 1:
                raise InputError(
                    f"size as a share must lie in (0, 1], got {size}; a number of pairs is an int"
                )
            # 0.1 * 30 is a little more than 3
            wanted = (self.counts.double() * size - 1e-9).ceil().long()
        return torch.minimum(wanted, self.counts)

    def descending(self, score: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Pairs grouped by graph, best first; ties by node numbers, or at random."""
        order = torch.arange(score.numel(), device=score.device)
        if generator is not None:
            order = torch.randperm(score.numel(), generator=generator).to(score.device)
        order = order[score[order].argsort(descending=True, stable=True)]
        return order[self.graph[order].argsort(stable=True)]

    def best(self, score: Tensor, wanted: Tensor, generator: torch.Generator) -> Tensor:
        """Boolean :math:`[P]`: the best ``wanted`` pairs of every graph, ties at random.

        Ties by node numbers would leak how a generator numbers its motifs.
        """
        order = self.descending(score, generator)
        rank = torch.empty_like(order)
        position = torch.arange(order.numel(), device=order.device)
        rank[order] = position - self.start[self.graph[order]]
        return rank < wanted[self.graph]


def hard_masks(explanations: Sequence[Any], size: Size, *, seed: int = 0) -> list[Tensor]:
    """The best pairs of every explanation as a boolean mask of its edges.

    A pair has the mean score of its edges, and all of its edges are selected together. Pairs with
    the same score are taken at random. Self-loops are never selected.

    Args:
        explanations: What an explainer returned.
        size: Number of pairs, see :obj:`Size`.
        seed: Decides between pairs with the same score.

    Raises:
        InputError: If a score is NaN.
    """
    store = GraphStore.from_graphs(explanations)
    table = PairTable.of(store.batch())
    score = table.mean(edge_scores(explanations))
    if bool(score.isnan().any()):
        graph = int(table.graph[score.isnan()][0])
        raise InputError(f"explanation {graph} has NaN scores, which cannot be ranked")
    generator = torch.Generator().manual_seed(seed)
    mask = table.per_edge(table.best(score, table.resolve(size), generator), loops=False)
    parts: tuple[Tensor, ...] = mask.split(store.edge_counts.tolist())  # type: ignore[no-untyped-call]
    return list(parts)


def truth_sizes(graphs: Sequence[Any]) -> Tensor:
    """Number of ground-truth pairs of every graph; either direction makes a pair one.

    Args:
        graphs: Graphs with a boolean ``edge_mask``.
    """
    table = PairTable.of(GraphStore.from_graphs(graphs).batch())
    truth = table.any(truth_edges(graphs)).long()
    return segment_sum(truth, table.graph, table.counts.numel())


def edge_scores(explanations: Sequence[Any]) -> Tensor:
    """Edge masks of all explanations in a row.

    Raises:
        InputError: If an explanation has none, or not one value per edge.
    """
    return _edge_masks(explanations, "explanation", "edge_mask").detach()


def truth_edges(graphs: Sequence[Any]) -> Tensor:
    """Ground-truth edge masks of all graphs in a row.

    Raises:
        InputError: If a graph has none, or not one value per edge.
    """
    return _edge_masks(graphs, "graph", "ground truth edge_mask")


def _edge_masks(items: Sequence[Any], kind: str, name: str) -> Tensor:
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
