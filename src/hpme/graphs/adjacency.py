"""Neighbours of many nodes at once, and distances from many nodes at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hpme.graphs.segment import concatenated_ranges, exclusive_cumsum


@dataclass(frozen=True)
class Adjacency:
    """Edges by their source node (compressed sparse rows).

    Args:
        start: Position of every node's first edge.
        degree: Number of edges of every node.
        target: Targets of the edges, sorted by source.
        edge: Positions of the edges in ``edge_index``, in the same order.
    """

    start: Tensor
    degree: Tensor
    target: Tensor
    edge: Tensor

    @classmethod
    def of(cls, edge_index: Tensor, num_nodes: int) -> Adjacency:
        """Sorts the edges of a graph."""
        source, target = edge_index
        degree = torch.bincount(source, minlength=num_nodes)
        order = torch.argsort(source, stable=True)
        return cls(exclusive_cumsum(degree), degree, target[order], order)

    def neighbours(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Targets of all edges of the given nodes, and the position in ``nodes`` of each source."""
        rows, owner = self.rows(nodes)
        return self.target[rows], owner

    def rows(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """As :meth:`neighbours`, with positions in ``target`` and ``edge`` in place of targets."""
        return concatenated_ranges(self.start[nodes], self.degree[nodes])

    def distances(self, roots: Tensor, without: Tensor) -> Tensor:
        """Edges from the nearest root to every node; -1 where there is no way.

        Args:
            roots: Where all ways start.
            without: Nodes that no way may enter; they have -1, too.
        """
        distance = torch.full_like(self.degree, -1)
        distance[without] = -2
        distance[roots] = 0
        steps, frontier = 0, roots
        while frontier.numel():
            steps += 1
            found, _ = self.neighbours(frontier)
            frontier = torch.unique(found[distance[found] == -1])
            distance[frontier] = steps
        return distance.clamp(min=-1)
