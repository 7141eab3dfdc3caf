"""What scores on a page are about: atoms of molecules, or edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hpme.graphs import GraphStore, Pairs
from hpme.graphs.segment import exclusive_cumsum
from hpme.page.entries import edge_scores
from hpme.viz.molecules import can_draw_molecules


@dataclass(frozen=True)
class Units:
    """Atoms where all graphs are molecules and all explainers score them, else pairs of nodes.

    Args:
        store: The graphs.
        pairs: Their connected pairs of different nodes.
        atoms: Whether scores are those of atoms.
    """

    store: GraphStore
    pairs: Pairs
    atoms: bool

    @classmethod
    def of(
        cls, graphs: Sequence[Any], named: Mapping[str, Sequence[Any]], store: GraphStore
    ) -> Units:
        """What explanations of graphs speak of."""
        sizes = store.sizes.tolist()
        scored = all(
            len(some) == len(sizes)
            and all(
                (mask := one.get("node_mask")) is not None and mask.shape == (size, 1)
                for one, size in zip(some, sizes, strict=True)
            )
            for some in named.values()
        )
        return cls(store, store.pairs.proper, scored and can_draw_molecules(graphs))

    @property
    def counts(self) -> Tensor:
        """Number of units of every graph."""
        return self.store.sizes if self.atoms else self.pairs.counts

    @property
    def graph(self) -> Tensor:
        """Graph number of every unit."""
        return self.store.node_graph if self.atoms else self.pairs.graph

    def scores(self, explanations: Sequence[Any], name: str) -> Tensor:
        """Scores of all units, end to end."""
        edges = edge_scores(explanations, self.store, name)
        if self.atoms:
            return torch.cat([one.node_mask.detach()[:, 0] for one in explanations]).double()
        return self.pairs.mean(edges)

    def ranks(self, score: Tensor, generator: torch.Generator) -> Tensor:
        """Rank of every unit in its graph, 0 for the best, ties at random, what is NaN last."""
        known = score.nan_to_num(-torch.inf, torch.inf, -torch.inf)
        order = torch.randperm(len(score), generator=generator)
        order = order[known[order].argsort(descending=True, stable=True)]
        order = order[self.graph[order].argsort(stable=True)]
        start = exclusive_cumsum(self.counts)[self.graph]
        return torch.empty_like(order).scatter_(0, order, torch.arange(len(order)) - start)

    def of_pairs(self, rank: Tensor) -> Tensor:
        """Ranks of pairs: an atom's bond comes with the later of its two atoms."""
        if not self.atoms:
            return rank
        return rank[self.pairs.index + self.store.node_start[self.pairs.graph]].amax(0)
