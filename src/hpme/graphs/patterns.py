"""Small labelled graphs as patterns, where they occur, and which graphs are the same."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import networkx as nx
import torch
from torch import Tensor

from hpme.graphs.edges import Adjacency, connected_parts
from hpme.graphs.segment import among, rank_in_segment, segment_sum
from hpme.graphs.store import GraphStore

PARTIAL_PER_GRAPH = 100
"""Partial matches that are followed in a graph, those that stand out most from the rest of it
first; only large patterns in dense graphs have more."""
_MIX = (-7046029254386353131, -4417276706812531889)
"""Odd 64-bit numbers with irregular bits."""


@dataclass(frozen=True)
class Pattern:
    """A connected graph with labels.

    Every node but the first has an edge to one before it, so that matches grow along edges.
    """

    nodes: tuple[int, ...]
    edges: tuple[tuple[int, int, int], ...]  # ``(i, j, label)`` for every edge, ``i < j``
    # Largest number of edges from a match to the rest of its graph, any if None: a house that
    # hangs on one edge is not the same to a model as one inside a thicket.
    leaving: int | None = None

    @classmethod
    def of(cls, graph: nx.Graph) -> Pattern:
        """The pattern of a connected graph whose nodes and edges have a ``label``."""
        order: list[int] = []
        while len(order) < len(graph):  # those with most edges to the ones before come next

            def tied(node: int) -> tuple[int, int, int]:
                return sum(other in order for other in graph[node]), graph.degree(node), -node

            order.append(max((node for node in graph if node not in order), key=tied))
        place = {node: i for i, node in enumerate(order)}
        edges = sorted(
            (*sorted((place[a], place[b])), label) for a, b, label in graph.edges(data="label")
        )
        return cls(tuple(graph.nodes[node]["label"] for node in order), tuple(edges))

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def graph(self) -> nx.Graph:
        """The pattern as a networkx graph; nodes and edges have a ``label``."""
        graph = nx.Graph()
        graph.add_nodes_from((i, {"label": label}) for i, label in enumerate(self.nodes))
        graph.add_edges_from((i, j, {"label": label}) for i, j, label in self.edges)
        return graph

    @cached_property
    def wl_hash(self) -> str:
        """Weisfeiler-Lehman hash: the same for isomorphic patterns, rarely for others."""
        graph = self.graph
        if not self.edges:
            return f"node {self.nodes[0]}"
        text: str = nx.weisfeiler_lehman_graph_hash(graph, node_attr="label", edge_attr="label")
        return text

    def same_as(self, other: Pattern) -> bool:
        """Whether two patterns are isomorphic; how many edges may leave a match is not compared."""
        if self.wl_hash != other.wl_hash:
            return False
        found: bool = nx.is_isomorphic(self.graph, other.graph, _same, _same)
        return found

    def parts(self) -> list[Pattern]:
        """The connected patterns with one node less, isomorphic ones once."""
        found: list[Pattern] = []
        cut = set(nx.articulation_points(self.graph)) if len(self) > 2 else set()
        for node in range(len(self)):
            if len(self) > 1 and node not in cut:
                left = self.graph.subgraph(set(range(len(self))) - {node})
                part = Pattern.of(left)
                if not any(part.same_as(other) for other in found):
                    found.append(part)
        return found

    @cached_property
    def _smaller_first(self) -> list[tuple[int, int]]:
        """Pairs ``(i, j)`` with ``i``'s node before ``j``'s in one match of each symmetric set."""
        matcher = nx.algorithms.isomorphism.GraphMatcher(self.graph, self.graph, _same, _same)
        symmetries = list(matcher.isomorphisms_iter())
        conditions = []
        for node in range(len(self)):
            orbit = {symmetry[node] for symmetry in symmetries} - {node}
            conditions += [(node, other) for other in orbit]
            symmetries = [symmetry for symmetry in symmetries if symmetry[node] == node]
        return conditions


def _same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return bool(a["label"] == b["label"])


@dataclass(frozen=True)
class LabelledGraphs:
    """Graphs whose nodes and edges have labels; edges count in both directions, loops do not."""

    label: Tensor
    graph: Tensor
    adjacency: Adjacency
    edge_label: Tensor  # label of every edge, in the order of ``adjacency.target``
    count: int
    fine: Tensor  # a second label of nodes that says more; no node has it as its first

    @classmethod
    def of(
        cls, store: GraphStore, label: Tensor, edge_label: Tensor, fine: Tensor | None = None
    ) -> LabelledGraphs:
        """From labels of the nodes and of the directed edges of a store."""
        total = len(label)
        ends, labels = store.edge_index, edge_label
        ends, labels = torch.cat([ends, ends.flip(0)], 1), torch.cat([labels, labels])
        key = ends[0] * total + ends[1]
        key, order = key.sort(stable=True)
        once = torch.ones_like(key, dtype=torch.bool)
        once[1:] = key[1:] != key[:-1]
        chosen = order[once & (ends[0] != ends[1])[order]]
        adjacency = Adjacency.of(ends[:, chosen], total)
        labels = labels[chosen][adjacency.edge]
        fine = torch.full_like(label, -1) if fine is None else fine
        return cls(label, store.node_graph, adjacency, labels, len(store), fine)

    @cached_property
    def _edge_key(self) -> Tensor:
        source = torch.repeat_interleave(self.adjacency.degree)
        return source * len(self.label) + self.adjacency.target

    def _joined(self, first: Tensor, second: Tensor) -> Tensor:
        """Label of the edge between nodes, -1 where there is none."""
        if not len(self._edge_key):
            return torch.full_like(first, -1)
        place, there = among(first * len(self.label) + second, self._edge_key)
        return torch.where(there, self.edge_label[place], -1)

    def matches(self, pattern: Pattern, inside: Tensor | None = None) -> Tensor:
        """Nodes ``[R, n]`` of all places ``inside`` where a pattern occurs, as an induced subgraph.

        Matches that differ by a symmetry of the pattern are one.
        """
        wanted: dict[tuple[int, int], int] = {(i, j): label for i, j, label in pattern.edges}
        start = (self.label == pattern.nodes[0]) | (self.fine == pattern.nodes[0])
        start &= self.adjacency.degree >= pattern.graph.degree(0)
        if inside is not None:
            start = start & inside
        rows = start.nonzero()
        for new in range(1, len(pattern)):
            old = next(i for i in range(new) if (i, new) in wanted)
            found, owner = self.adjacency.neighbours(rows[:, old])
            fits = self.label[found] == pattern.nodes[new]
            fits |= self.fine[found] == pattern.nodes[new]
            fits &= self.adjacency.degree[found] >= pattern.graph.degree(new)
            if inside is not None:
                fits &= inside[found]
            for i, j in pattern._smaller_first:
                if j == new and i < new:
                    fits &= rows[owner, i] < found
            found, owner = found[fits], owner[fits]
            rows = torch.cat([rows[owner], found.unsqueeze(1)], 1)
            rows = rows[(rows[:, :new] != found.unsqueeze(1)).all(1)]
            for i in sorted(range(new), key=lambda i: (i, new) not in wanted):
                label = wanted.get((i, new), -1)
                rows = rows[self._joined(rows[:, i], rows[:, new]) == label]
            rows = self._few(rows)
        if pattern.leaving is not None:
            rows = rows[self._leaving(rows, pattern) <= pattern.leaving]
        return rows

    def _few(self, rows: Tensor) -> Tensor:
        graph = self.graph[rows[:, 0]]
        counts = torch.bincount(graph, minlength=self.count)
        if int(counts.max()) <= PARTIAL_PER_GRAPH:
            return rows
        graph, order = graph.sort(stable=True)
        degree = -self.adjacency.degree[rows[order]].sum(1)
        rank = rank_in_segment(degree.float(), graph, counts.cumsum(0) - counts)
        return rows[order[rank < PARTIAL_PER_GRAPH]]

    def _leaving(self, rows: Tensor, pattern: Pattern) -> Tensor:
        """Number of edges from every match to the rest of its graph."""
        return self.adjacency.degree[rows].sum(1) - 2 * len(pattern.edges)

    def times(self, pattern: Pattern) -> Tensor:
        """In how many places each graph has the pattern."""
        return torch.bincount(self.graph[self.matches(pattern)[:, 0]], minlength=self.count)

    def least_leaving(self, pattern: Pattern) -> Tensor:
        """Fewest edges that leave a match, in every graph; infinite if there is no match."""
        rows = self.matches(pattern)
        least = torch.full((self.count,), torch.inf)
        leaving = self._leaving(rows, pattern).float()
        return least.scatter_reduce(0, self.graph[rows[:, 0]], leaving, "amin")

    def best_match(self, pattern: Pattern, score: Tensor) -> Tensor:
        """Boolean node mask: in every graph the match whose nodes have the highest mean score."""
        rows = self.matches(pattern)
        mask = torch.zeros(len(self.label), dtype=torch.bool)
        if len(rows):
            graph, order = self.graph[rows[:, 0]].sort(stable=True)
            counts = torch.bincount(graph, minlength=self.count)
            value = score[rows].double().mean(1)[order]
            best = rank_in_segment(value, graph, counts.cumsum(0) - counts) == 0
            mask[rows[order[best]].flatten()] = True
        return mask

    def components(self, inside: Tensor) -> tuple[Tensor, Tensor]:
        """The smallest node and the hash of every node's component in a mask; -1 outside."""
        source = torch.repeat_interleave(self.adjacency.degree)
        kept = inside[source] & inside[self.adjacency.target]
        source, target, label = source[kept], self.adjacency.target[kept], self.edge_label[kept]
        component = connected_parts(torch.stack([source, target]), len(self.label))
        code = _mixed(self.label + 1)
        for _ in range(4):
            message = _mixed(code[source] + _MIX[0] * (label + 1))
            code = _mixed(code * _MIX[1] + segment_sum(message, target, len(code)))
        whole = segment_sum(torch.where(inside, code, 0), component, len(code))
        return torch.where(inside, component, -1), whole[component]

    def contexts(self, inside: Tensor) -> list[list[Tensor]]:
        """Examples of the nodes of a region by what surrounds them, most frequent first.

        By fine labels; with one neighbour; with all neighbours; and with all, by plain labels.
        """
        source, target = torch.repeat_interleave(self.adjacency.degree), self.adjacency.target
        beside = _mixed(_mixed(self.label[target] + 1) + _MIX[0] * (self.edge_label + 1))
        around = segment_sum(beside, source, len(self.label))
        own = inside.nonzero().view(-1)
        outward = inside[source].nonzero().view(-1)
        one_fine, edge_fine = _mixed(self.fine[own]), _mixed(self.fine[source[outward]])

        def star(node: Tensor) -> Tensor:
            return torch.cat([node.view(1), self.adjacency.neighbours(node.view(1))[0]])

        kinds = (
            (one_fine, own, lambda n: n.view(1)),
            (edge_fine + beside[outward], outward, lambda e: torch.stack([source[e], target[e]])),
            (one_fine + around[own], own, star),
            (_mixed(self.label[own]) + around[own], own, star),
        )
        found: list[list[Tensor]] = []
        for code, item, nodes in kinds:
            graph = self.graph[item if code is not kinds[1][0] else source[item]]
            found.append([nodes(item[first]) for first, _ in frequent(code, graph)])
        return found

    def pattern_of(self, nodes: Tensor, fine: int = 0) -> Pattern:
        """The pattern of a connected set of nodes, the first of them with fine labels."""
        graph = nx.Graph()
        graph.add_nodes_from((n, {"label": int(self.label[n])}) for n in nodes.tolist())
        graph.add_nodes_from((n, {"label": int(self.fine[n])}) for n in nodes[:fine].tolist())
        found, owner = self.adjacency.rows(nodes)
        ends = zip(nodes[owner].tolist(), self.adjacency.target[found].tolist(), strict=True)
        for (a, b), label in zip(ends, self.edge_label[found].tolist(), strict=True):
            if a < b and b in graph:
                graph.add_edge(a, b, label=label)
        return Pattern.of(graph)


def frequent(code: Tensor, graph: Tensor) -> list[tuple[int, int]]:
    """Place of the first item of every code, and in how many graphs it is, the most first."""
    kinds, kind = torch.unique(code, return_inverse=True)
    count = torch.bincount(torch.unique(torch.stack([kind, graph]), dim=1)[0], minlength=len(kinds))
    first = torch.full((len(kinds),), len(code))
    first = first.scatter_reduce(0, kind, torch.arange(len(code)), "amin")
    order = count.argsort(descending=True, stable=True)
    return list(zip(first[order].tolist(), count[order].tolist(), strict=True))


def _mixed(code: Tensor) -> Tensor:
    """Integers with their bits spread."""
    code = (code ^ (code >> 29)) * _MIX[0]
    return (code ^ (code >> 32)) * _MIX[1]


ROUNDS = 4
ODD = 0x5851F42D4C957F2D


def equal_groups(store: GraphStore) -> Tensor:
    """The number of the group of every graph ``[B]``: copies and renumbered copies share one."""
    group: Tensor = torch.unique(graph_codes(store), return_inverse=True)[1]
    return group


def graph_codes(store: GraphStore) -> Tensor:
    """A whole number for every graph ``[B]``, the same for copies and renumbered copies.

    By Weisfeiler-Lehman codes of all but labels, which wrap: sums do not depend on order. Graphs
    that message passing cannot tell apart are the same.
    """
    graphs = store.batch()
    code = torch.zeros_like(graphs.batch)
    for name, values in store.node.items():
        code = code if name == "y" else _scrambled(code + _rows(values).to(code))
    if graphs.anchor_order is not None:
        code = _scrambled(code + graphs.anchor_order)
    source, target = graphs.edge_index
    kind = torch.zeros_like(source)
    for values in store.edge.values():
        kind = _scrambled(kind + _rows(values).to(kind))
    for _ in range(ROUNDS):
        heard = _scrambled(code.index_select(0, source) + kind)
        code = _scrambled(3 * code + segment_sum(heard, target, graphs.num_nodes))
    return segment_sum(_scrambled(code), graphs.batch, graphs.num_graphs)


def _rows(values: Tensor) -> Tensor:
    """A code of every row, by the bits of its numbers."""
    table = values.reshape(len(values), -1)
    if table.is_floating_point():
        table = table.double().add(0.0).view(torch.int64)  # there are two zeros
    place = torch.arange(1, table.shape[1] + 1, device=table.device)
    return (_scrambled(table.long() + place) * (2 * _scrambled(place) + 1)).sum(1)


def _scrambled(code: Tensor) -> Tensor:
    """Other codes for other numbers; files of explainers hold them, so they stay what they are."""
    code = (code ^ (code >> 32)) * ODD
    return (code ^ (code >> 29)) * ODD
