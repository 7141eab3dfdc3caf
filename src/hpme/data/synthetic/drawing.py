"""Drawing random graphs block by block: a base, motifs on it, single edges between them."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hpme.graphs import GraphStore

EdgeArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Motif:
    """A small graph: every undirected edge once, smaller node first."""

    name: str
    num_nodes: int
    edges: tuple[tuple[int, int], ...]

    @classmethod
    def from_edges(cls, name: str, edges: Iterable[Sequence[int]]) -> Motif:
        """Reads edges given in one or both directions."""
        unique = sorted({(min(edge), max(edge)) for edge in edges})
        return cls(name, 1 + max(v for _, v in unique), tuple(unique))


CYCLE = Motif.from_edges("cycle", [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)])
HOUSE = Motif.from_edges("house", [(0, 1), (1, 2), (2, 3), (0, 3), (0, 4), (1, 4)])
"""Walls and floor are the square 0-1-2-3, the roof is node 4 on the edge 0-1."""
_ACROSS = [(i, i + 1) for i in range(9) if i % 3 < 2]
GRID = Motif.from_edges("grid", [*_ACROSS, *((i, i + 3) for i in range(6))])
"""3 x 3; node 0 is a corner."""
CRANE = Motif.from_edges("crane", [(1, 2), (2, 3), (3, 4), (1, 4), (0, 1), (0, 3)])


class GraphSketch:
    """One graph under construction, from undirected edges; it remembers what came from a motif."""

    def __init__(self, num_nodes: int, edges: EdgeArray) -> None:
        self.in_motif = [False] * num_nodes
        self.edge_blocks: list[tuple[EdgeArray, bool]] = [(edges, False)]

    @property
    def num_nodes(self) -> int:
        """Number of nodes so far."""
        return len(self.in_motif)

    @classmethod
    def barabasi_albert(cls, num_nodes: int, m: int, seed: random.Random | int) -> GraphSketch:
        """Starts from a Barabási-Albert graph."""
        return cls.from_networkx(nx.barabasi_albert_graph(num_nodes, m, seed=seed))

    @classmethod
    def from_networkx(cls, graph: nx.Graph) -> GraphSketch:
        """Starts from a graph whose nodes are ``0 .. n - 1``."""
        return cls(graph.number_of_nodes(), networkx_edges(graph))

    def attach(self, motif: Motif, base_node: int, motif_node: int = 0) -> GraphSketch:
        """Adds a motif and the one edge that holds it, which is never ground truth."""
        first = self.num_nodes
        self.edge_blocks.append((np.array(motif.edges) + first, True))
        self.add_edges([(base_node, first + motif_node)])
        self.in_motif += [True] * motif.num_nodes
        return self

    def add_edges(self, edges: Sequence[tuple[int, int]]) -> None:
        """Adds edges that are no part of a motif."""
        self.edge_blocks.append((np.array(edges, dtype=np.int64).reshape(-1, 2), False))


def networkx_edges(graph: nx.Graph) -> EdgeArray:
    """The undirected edges of a networkx graph, each once, of shape :math:`[M, 2]`."""
    return np.array(graph.edges(), dtype=np.int64).reshape(-1, 2)


def flatten(sketches: Sequence[GraphSketch]) -> GraphStore:
    """Lays sketches end to end, in both edge directions, with ``node_mask`` and ``edge_mask``."""
    edge_blocks = [block for sketch in sketches for block in sketch.edge_blocks]
    lengths = [len(edges) for edges, _ in edge_blocks]
    return flatten_undirected(
        sizes=np.array([sketch.num_nodes for sketch in sketches]),
        counts=np.array([sum(len(edges) for edges, _ in s.edge_blocks) for s in sketches]),
        edges=np.concatenate([edges for edges, _ in edge_blocks]),
        edge_mask=np.repeat([in_motif for _, in_motif in edge_blocks], lengths),
        node_mask=np.concatenate([sketch.in_motif for sketch in sketches]),
    )


def flatten_undirected(
    *,
    sizes: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    edges: EdgeArray,
    edge_mask: npt.NDArray[np.bool_],
    node_mask: npt.NDArray[np.bool_],
) -> GraphStore:
    """Stores undirected edges, of which there are ``counts``, in both directions, loops once."""
    graph = np.repeat(np.arange(len(counts)), counts)
    proper = np.flatnonzero(edges[:, 0] != edges[:, 1])
    source = np.concatenate([np.arange(len(edges)), proper])
    both = np.concatenate([edges, edges[proper, ::-1]])
    order = np.argsort(graph[source], kind="stable")
    source = source[order]
    edge_counts = np.bincount(graph[source], minlength=len(counts))
    return GraphStore(
        sizes=torch.from_numpy(sizes.astype(np.int64)),
        edge_counts=torch.from_numpy(edge_counts.astype(np.int64)),
        local_edge_index=torch.from_numpy(np.ascontiguousarray(both[order].T)),
        node={"node_mask": torch.from_numpy(node_mask.astype(bool))},
        edge={"edge_mask": torch.from_numpy(edge_mask[source].astype(bool))},
    )


def constant_features(store: GraphStore) -> Tensor:
    """Ten features of 0.1 per node: nothing but structure tells nodes apart."""
    return torch.full((int(store.sizes.sum()), 10), 0.1)


def private_generators(name: str, seed: int) -> tuple[random.Random, np.random.Generator]:
    """Random sources of one dataset: one for structure, one for features and node order."""
    # Keyed by name, so that two sets with the same seed do not share their graphs.
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    return random.Random(int(rng.integers(2**62))), rng
