"""What nodes and edges are called in patterns: elements and bonds, or kinds of features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import networkx as nx
import torch
from torch import Tensor

from hpme.data.molecules.fragments import molecule_labels, smarts_of
from hpme.graphs import GraphStore
from hpme.graphs.patterns import LabelledGraphs, Pattern

NODE_KINDS, EDGE_KINDS = 64, 16
"""Kinds of features up to which they are labels; with more, features are taken for measurements,
and patterns are of structure alone."""
Rows = Mapping[bytes, int]


@dataclass(frozen=True)
class Vocabulary:
    """Labels of nodes and edges, the same for all graphs of a kind.

    Args:
        molecules: Whether labels are those of molecules.
        nodes: Labels of rows of node features; empty if features are not told apart.
        edges: Labels of rows of edge features.
    """

    molecules: bool
    nodes: Rows = field(default_factory=dict)
    edges: Rows = field(default_factory=dict)

    @classmethod
    def of(cls, store: GraphStore) -> Vocabulary:
        """What suits some graphs: molecules if all have SMILES that RDKit can read."""
        if "smiles" in store.text and _molecules(store) is not None:
            return cls(True)
        return cls(False, _kinds(store.x, NODE_KINDS), _kinds(store.edge_attr, EDGE_KINDS))

    def read(self, store: GraphStore) -> LabelledGraphs:
        """Graphs with their labels; nodes that graphs are about have labels of their own."""
        found = _molecules(store) if self.molecules else None
        if found is not None:
            node, edge = found
        else:
            node = _labels(store.x, self.nodes, len(store.x))
            edge = _labels(store.edge_attr, self.edges, store.local_edge_index.shape[1])
        if store.anchors is not None:
            is_anchor = torch.zeros(len(node), dtype=torch.bool)
            is_anchor[(store.anchors + store.node_start.unsqueeze(1)).flatten()] = True
            node = torch.where(is_anchor, -2 - node, node)
        return LabelledGraphs.of(store, node, edge)

    def name(self, pattern: Pattern) -> str:
        """A pattern in a few letters: SMARTS, or what its form is called."""
        if self.molecules:
            return smarts_of(pattern)
        if pattern.leaving is None:
            return form(pattern)
        edges = "1 edge" if pattern.leaving == 1 else f"{pattern.leaving} edges"
        return f"{form(pattern)} (at most {edges} out)"


def form(pattern: Pattern) -> str:
    """What the form of a graph is called, else its numbers of nodes and edges."""
    graph, count = pattern.graph, len(pattern)
    degrees = sorted(degree for _, degree in graph.degree)
    edges = graph.number_of_edges()
    if count == 1:
        return "node"
    if edges == count * (count - 1) // 2:
        return {2: "edge", 3: "triangle"}.get(count, f"clique of {count}")
    if edges == count and degrees[-1] == 2:
        return f"cycle of {count}"
    if edges == count - 1:
        if degrees[-1] == 2:
            return f"path of {count}"
        return f"star of {count}" if degrees[-1] == count - 1 else f"tree of {count}"
    if nx.faster_could_be_isomorphic(graph, nx.house_graph()) and nx.is_isomorphic(
        graph, nx.house_graph()
    ):
        return "house"
    for width in range(2, int(count**0.5) + 1):
        if count % width == 0 and nx.is_isomorphic(graph, nx.grid_2d_graph(width, count // width)):
            return f"grid {width} x {count // width}"
    return f"{count} nodes, {edges} edges"


def _molecules(store: GraphStore) -> tuple[Tensor, Tensor] | None:
    ends = torch.split(store.local_edge_index, store.edge_counts.tolist(), dim=1)
    found = molecule_labels(store.text["smiles"], store.sizes, ends)
    return None if found is None else (found.atom, found.bond)


def _kinds(rows: Tensor | None, most: int) -> dict[bytes, int]:
    if rows is None:
        return {}
    kinds = torch.unique(rows.view(len(rows), -1), dim=0) if len(rows) else rows
    return {row.numpy().tobytes(): i for i, row in enumerate(kinds)} if len(kinds) <= most else {}


def _labels(rows: Tensor | None, kinds: Rows, count: int) -> Tensor:
    if rows is None or not kinds:
        return torch.zeros(count, dtype=torch.long)
    known, place = torch.unique(rows.view(len(rows), -1), dim=0, return_inverse=True)
    number = [kinds.get(row.numpy().tobytes(), len(kinds)) for row in known]
    return torch.tensor(number, dtype=torch.long)[place]
