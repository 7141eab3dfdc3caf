"""Patterns that may matter: what they are called, and how they are found in pooled subgraphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import networkx as nx
import torch
from torch import Tensor

from hpme.data.molecules import fragments
from hpme.graphs import GraphStore
from hpme.graphs.patterns import LabelledGraphs, Pattern, frequent

NODE_KINDS, EDGE_KINDS = 64, 16
"""Kinds of features up to which they are labels; with more, features are taken for measurements,
and patterns are of structure alone."""
Score = Callable[[Tensor], Tensor]
Kinds = Mapping[bytes, int]
"""Numbers of rows of features."""
LARGEST = 12
"""Nodes of the largest pattern; larger ones occur in hardly more than one graph."""
SEEDS, BEAM, KEPT = 24, 6, 60
"""Groups of pooled subgraphs to begin with; for each prediction, patterns of a size whose parts are
tried; and patterns that are kept in the end."""
LEAST_GRAPHS = 3
"""A group has at least so many subgraphs; what occurs once or twice is no habit of a model."""
CONTEXTS, MOST_ATOMS = 120, 18
"""Of each kind of surroundings the most frequent; and atoms of the largest system of rings."""
MOST_LEAVING = 4
"""Edges from a match to the rest of its graph, up to which a limit of them may be part of a
condition."""


@dataclass(frozen=True)
class Vocabulary:
    """Labels of nodes and edges, the same for all graphs of a kind."""

    molecules: bool  # whether labels are those of molecules
    nodes: Kinds = field(default_factory=dict)  # empty if features are not told apart
    edges: Kinds = field(default_factory=dict)

    @classmethod
    def of(cls, store: GraphStore) -> Vocabulary:
        """What suits some graphs: molecules if all have SMILES that RDKit can read."""
        if "smiles" in store.text and _molecules(store) is not None:
            return cls(True)
        return cls(False, _kinds(store.kinds, NODE_KINDS), _kinds(store.edge_attr, EDGE_KINDS))

    def read(self, store: GraphStore) -> LabelledGraphs:
        """Graphs with their labels; nodes that graphs are about have labels of their own."""
        found, fine = _molecules(store) if self.molecules else None, None
        if found is not None:
            node, edge, fine = found.atom, found.bond, found.fine
        else:
            node = _labels(store.kinds, self.nodes, len(store.x))
            edge = _labels(store.edge_attr, self.edges, store.local_edge_index.shape[1])
        if store.anchors is not None:
            is_anchor = torch.zeros(len(node), dtype=torch.bool)
            is_anchor[(store.anchors + store.node_start.unsqueeze(1)).flatten()] = True
            node = torch.where(is_anchor, -2 - node, node)
        return LabelledGraphs.of(store, node, edge, fine)

    def name(self, pattern: Pattern) -> str:
        """A pattern in a few letters: SMARTS, or what its form is called."""
        if self.molecules:
            return fragments.smarts_of(pattern)
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


def _molecules(store: GraphStore) -> fragments.MoleculeLabels | None:
    ends = torch.split(store.local_edge_index, store.edge_counts.tolist(), dim=1)
    return fragments.molecule_labels(store.text["smiles"], store.sizes, ends)


def _kinds(rows: Tensor | None, most: int) -> dict[bytes, int]:
    if rows is None or not rows.numel():
        return {}
    kinds = torch.unique(rows.view(len(rows), -1), dim=0)
    return {row.numpy().tobytes(): i for i, row in enumerate(kinds)} if len(kinds) <= most else {}


def _labels(rows: Tensor | None, kinds: Kinds, count: int) -> Tensor:
    if rows is None or not kinds:
        return torch.zeros(count, dtype=torch.long)
    known, place = torch.unique(rows.view(len(rows), -1), dim=0, return_inverse=True)
    number = [kinds.get(row.numpy().tobytes(), len(kinds)) for row in known]
    return torch.tensor(number, dtype=torch.long)[place]


class Catalogue:
    """Patterns by hash, and how often each was pooled as a whole; isomorphic ones are one."""

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
    gain: Score,
    speaks_for: Score,
    advance: Callable[[int], None],
    *,
    least: float | None,
) -> Catalogue:
    """Groups components of pooled subgraphs, and tries parts of those that tell graphs apart.

    ``gain`` says how well patterns do so, from ``has`` ``[P, B]``, and ``speaks_for`` for which
    prediction: patterns for one do not crowd out those for another. A limit of the edges that leave
    a match must gain ``least``; without it there are none. One step per size of patterns.
    """
    catalogue, chosen = Catalogue(), Catalogue()
    for region in regions:
        for pattern, count in _groups(graphs, region):
            catalogue.add(pattern, count)
    has: dict[int, Tensor] = {}
    for size in range(LARGEST, 0, -1):
        of_size = [i for i, pattern in enumerate(catalogue.patterns) if len(pattern) == size]
        for i in of_size:
            pattern = catalogue.patterns[i]
            catalogue.patterns[i], has[i] = _limited(graphs, pattern, gain, least)
        if of_size:
            rows = torch.stack([has[i] for i in of_size])
            for place in _best(gain(rows), speaks_for(rows), BEAM):
                for part in catalogue.patterns[of_size[place]].parts():
                    catalogue.add(part)
        advance(1)
    often = [i for i in has if int(has[i].sum()) >= LEAST_GRAPHS]
    if often:
        rows = torch.stack([has[i] for i in often])
        sides = speaks_for(rows)
        for place in _best(gain(rows), sides, -(-KEPT // max(1, len(torch.unique(sides))))):
            chosen.add(catalogue.patterns[often[place]], catalogue.count[often[place]])
    return chosen


def add_contexts(
    found: Catalogue, store: GraphStore, graphs: LabelledGraphs, region: Tensor
) -> None:
    """Adds atoms of a region with what surrounds them, and its rings, to patterns of molecules."""
    for number, examples in enumerate(graphs.contexts(region)):
        for nodes in examples[:CONTEXTS]:
            found.add(graphs.pattern_of(nodes, fine=int(number < 3)))
    parts = region.split(store.sizes.tolist())  # type: ignore[no-untyped-call]
    rings = fragments.ring_systems(store.text["smiles"], store.sizes, parts)
    for number, atoms in rings[:CONTEXTS]:
        if len(atoms) <= MOST_ATOMS:
            found.add(graphs.pattern_of(int(store.node_start[number]) + torch.tensor(atoms)))


def _best(gain: Tensor, side: Tensor, count: int) -> list[int]:
    """Places of the largest gains of each side, the largest first."""
    order = gain.argsort(descending=True, stable=True)
    mine = side[order].unsqueeze(0) == torch.unique(side).unsqueeze(1)
    before = (mine.cumsum(1) * mine).sum(0)
    return [int(place) for place in order[before <= count]]


def _limited(
    graphs: LabelledGraphs, pattern: Pattern, gain: Score, least: float | None
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
    found = []
    for first, count in frequent(code[roots], graphs.graph[roots])[:SEEDS]:
        if count < min(LEAST_GRAPHS, graphs.count):
            break
        nodes = (component == roots[first]).nonzero().view(-1)
        found.append((graphs.pattern_of(nodes), count))
    return found
