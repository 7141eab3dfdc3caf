"""Edges looked up: both directions between two nodes as one pair, and neighbours of many nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module

import torch
from torch import Tensor

from hpme.graphs.segment import at, concatenated_ranges, exclusive_cumsum, segment_mean, segment_sum


def connected_parts(ends: Tensor, size: int) -> Tensor:
    """The lowest node that each of ``size`` nodes is connected to, by edges ``[2, E]``."""
    # Imported here: it takes a quarter of a second, and the command line loads all methods.
    sparse = import_module("scipy.sparse")
    ones, both = torch.ones(ends.shape[1]).numpy(), ends.cpu().numpy()
    links = sparse.coo_matrix((ones, both), shape=(size, size))
    label = import_module("scipy.sparse.csgraph").connected_components(links, False)[1]
    part, node = torch.from_numpy(label).long().to(ends.device), torch.arange(size).to(ends.device)
    return torch.full_like(node, size).scatter_reduce(0, part, node, "amin")[part]


@dataclass(frozen=True)
class Pairs:
    """Every connected pair of nodes once, whatever the directions; edges listed twice are one."""

    index: Tensor  # [2, P] with the smaller node first; a self-loop is a pair of one node
    graph: Tensor  # graph number of every pair, non-decreasing
    of_edge: Tensor  # pair [E] of every edge; -1 for a self-loop if these are left out
    forward: Tensor  # position of the edge from the first to the second node, -1 if there is none
    backward: Tensor  # position of the edge from the second to the first node, likewise
    num_graphs: int  # those without a pair included

    @classmethod
    def of(
        cls, edge_index: Tensor, batch: Tensor, num_graphs: int, edge_type: Tensor | None = None
    ) -> Pairs:
        """The pairs of graphs laid out as one, ordered by their nodes.

        Two nodes that edges of several types join in the same direction are as many pairs.
        """
        low, high = edge_index.min(0).values, edge_index.max(0).values
        stride = max(1, batch.numel())
        key = low * stride + high
        several = 1
        if edge_type is not None and edge_type.numel():
            # A number of every edge's type among the types of the edges with the same ends.
            kinds = int(edge_type.max()) + 1
            ends = (edge_index[0] * stride + edge_index[1]) * kinds
            found, of_edge = torch.unique(ends + edge_type, return_inverse=True)
            count = torch.unique_consecutive(found // kinds, return_counts=True)[1]
            place = torch.arange(len(found), device=key.device)
            lane = (place - torch.repeat_interleave(exclusive_cumsum(count), count))[of_edge]
            several = int(lane.max()) + 1
            key = key * several + lane
        key, of_edge = torch.unique(key, return_inverse=True)
        index = torch.stack([key // several // stride, key // several % stride])
        missing = torch.full_like(key, -1)
        edge = torch.arange(of_edge.numel(), device=of_edge.device)
        ahead = edge_index[0] == low
        ways = [missing.index_put((of_edge[way],), edge[way]) for way in (ahead, ~ahead)]
        return cls(index, batch[index[0]], of_edge, ways[0], ways[1], num_graphs)

    def to(self, device: torch.device) -> Pairs:
        """The pairs on another device."""
        names = ("index", "graph", "of_edge", "forward", "backward")
        return replace(self, **{name: getattr(self, name).to(device) for name in names})

    def __len__(self) -> int:
        return int(self.graph.numel())

    @cached_property
    def counts(self) -> Tensor:
        """Number of pairs of every graph."""
        return torch.bincount(self.graph, minlength=self.num_graphs)

    @cached_property
    def start(self) -> Tensor:
        """Position of every graph's first pair."""
        return exclusive_cumsum(self.counts)

    @cached_property
    def proper(self) -> Pairs:
        """The pairs of two different nodes; self-loops belong to none of them."""
        kept = self.index[0] != self.index[1]
        number = torch.where(kept, kept.long().cumsum(0) - 1, -1)
        left = {name: getattr(self, name)[kept] for name in ("graph", "forward", "backward")}
        return replace(self, index=self.index[:, kept], of_edge=number[self.of_edge], **left)

    def of_graphs(self, numbers: Tensor) -> Tensor:
        """Positions of the pairs of the graphs with the given numbers, graph by graph."""
        return concatenated_ranges(at(self.start, numbers), at(self.counts, numbers))[0]

    def sum(self, edge_values: Tensor) -> Tensor:
        """Sum of every pair over its edges."""
        inside = self.of_edge >= 0
        return segment_sum(edge_values[inside], self.of_edge[inside], len(self))

    def mean(self, edge_values: Tensor) -> Tensor:
        """Mean of every pair over its edges."""
        inside = self.of_edge >= 0
        return segment_mean(edge_values[inside], self.of_edge[inside], len(self))

    def any(self, edge_mask: Tensor) -> Tensor:
        """Whether any edge of a pair is marked."""
        return self.sum(edge_mask.double()) > 0

    def per_edge(self, pair_values: Tensor, *, loops: float | None = None) -> Tensor:
        """Values of pairs at their edges; ``loops`` is that of self-loops if these are left out."""
        if loops is None:
            # The backward pass of index_select is an index_add, that of indexing is much slower.
            return pair_values.index_select(0, self.of_edge)
        return torch.cat([pair_values, pair_values.new_full((1,), loops)])[self.of_edge]


@dataclass(frozen=True)
class Adjacency:
    """Edges by their source node (compressed sparse rows)."""

    start: Tensor  # position of every node's first edge
    degree: Tensor  # number of edges of every node
    target: Tensor  # targets of the edges, sorted by source
    edge: Tensor  # positions of the edges in ``edge_index``, in the same order

    @classmethod
    def of(cls, edge_index: Tensor, num_nodes: int, kept: Tensor | None = None) -> Adjacency:
        """Sorts the edges of a graph, or those of them that are ``kept``."""
        edge = torch.arange(edge_index.shape[1], device=edge_index.device)
        edge = edge if kept is None else edge[kept]
        source, target = edge_index if kept is None else edge_index[:, kept]
        degree = torch.bincount(source, minlength=num_nodes)
        order = torch.argsort(source, stable=True)
        return cls(exclusive_cumsum(degree), degree, target[order], edge[order])

    def neighbours(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Targets of all edges of the given nodes, and the position in ``nodes`` of each source."""
        rows, owner = self.rows(nodes)
        return self.target[rows], owner

    def rows(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """As :meth:`neighbours`, with positions in ``target`` and ``edge`` in place of targets."""
        return concatenated_ranges(self.start[nodes], self.degree[nodes])

    def distances(self, roots: Tensor, without: Tensor) -> Tensor:
        """Edges from the nearest root to every node; -1 where no way leads past ``without``."""
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
