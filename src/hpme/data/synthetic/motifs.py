"""The motifs that carry the labels of the synthetic sets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from torch_geometric.datasets.motif_generator import (
    CycleMotif,
    GridMotif,
    HouseMotif,
    MotifGenerator,
)


@dataclass(frozen=True)
class Motif:
    """A small graph: every undirected edge once, smaller node first."""

    name: str
    num_nodes: int
    edges: tuple[tuple[int, int], ...]

    @classmethod
    def from_edges(cls, name: str, edges: Iterable[tuple[int, int]]) -> Motif:
        """Reads edges given in one or both directions."""
        unique = sorted({(min(edge), max(edge)) for edge in edges})
        return cls(name, 1 + max(v for _, v in unique), tuple(unique))

    @classmethod
    def from_generator(cls, name: str, generator: MotifGenerator) -> Motif:
        """Takes the structure of one of PyG's motif generators."""
        return cls.from_edges(name, ((u, v) for u, v in generator().edge_index.t().tolist()))

    @cached_property
    def edge_array(self) -> npt.NDArray[np.int64]:
        """The edges as an array of shape :math:`[M, 2]`."""
        return np.array(self.edges, dtype=np.int64)


CYCLE = Motif.from_generator("cycle", CycleMotif(5))
HOUSE = Motif.from_generator("house", HouseMotif())
"""Walls and floor are the square 0-1-2-3, the roof is node 4 on the edge 0-1."""
GRID = Motif.from_generator("grid", GridMotif())
"""3 x 3; node 0 is a corner."""
CRANE = Motif.from_edges("crane", [(1, 2), (2, 3), (3, 4), (1, 4), (0, 1), (0, 3)])
