"""Single graphs with many motifs, for node classification: BA-Shapes, BA-Community, Tree-Grid."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from hpme.data.info import PUBLISHED, entry, read_official
from hpme.data.synthetic import drawing
from hpme.errors import InputError, StorageError
from hpme.graphs import GraphStore
from hpme.graphs.transforms import shuffled

FILE = "node_synthetic.npz"
NUM_MOTIFS = 80
NUM_FEATURES = 10
BA_EDGES = 5
NOISE = 0.01
"""Random edges, as a share of all others."""
BRIDGES = 0.25
"""Edges between the two halves of BA-Community, as a share of the nodes."""
HOUSE_ROLES = (1, 1, 2, 2, 3)
"""Below the roof, at the ground, the roof; 0 is the base."""


@dataclass(frozen=True)
class Family:
    """What the published set and its generator share: the documented graph and its numbering."""

    name: str
    num_nodes: int
    motif: drawing.Motif
    base: int  # number of nodes before the first motif, whose first node holds it to the base
    explained: range

    def explained_nodes(self, num_nodes: int, base: int, motifs: int) -> npt.NDArray[np.bool_]:
        """The explained nodes in a graph with fewer or more motifs, as a mask."""
        first, width = self.explained.start - self.base, self.motif.num_nodes
        share = motifs / NUM_MOTIFS
        start = round(first / width * share) * width
        stop = start + max(width, round((self.explained.stop - self.base - first) * share))
        mask = np.zeros(num_nodes, dtype=bool)
        mask[base + start : base + min(stop, motifs * width) : self.explained.step] = True
        return mask


SHAPES = Family("ba-shapes", 700, drawing.HOUSE, 300, range(400, 700, 5))
COMMUNITY = Family("ba-community", 1_400, drawing.HOUSE, 300, range(400, 700, 5))
TREE_GRID = Family("tree-grid", 1_231, drawing.GRID, 511, range(511, 800))


def build_ba_shapes(variant: str, seed: int, size: int) -> GraphStore:
    """BA(300, 5) with 80 houses; a node's class is its role: base, below the roof, ground, roof."""
    random_, rng = drawing.private_generators(SHAPES.name, seed)
    if variant == PUBLISHED:
        return shuffled(published(SHAPES, size), rng)
    base, motifs = _parts(SHAPES, size)
    store = drawing.flatten([_houses(base, motifs, random_)])
    explained = SHAPES.explained_nodes(size, base, motifs)
    return shuffled(_finished(store, _house_roles(base, motifs), explained), rng)


def build_ba_community(variant: str, seed: int, size: int) -> GraphStore:
    """Two BA-Shapes joined by random edges; classes and two features differ between the halves."""
    random_, rng = drawing.private_generators(COMMUNITY.name, seed)
    if variant == PUBLISHED:
        return shuffled(published(COMMUNITY, size), rng)
    halves = [size - size // 2, size // 2]
    parts = [_parts(SHAPES, half) for half in halves]
    store = drawing.flatten([_houses(base, motifs, random_) for base, motifs in parts])
    count = round(BRIDGES * size)
    bridges = _new_edges(np.empty((0, 2), dtype=np.int64), count, random_,
                         range(halves[0]), range(halves[0], size))  # fmt: skip
    both = torch.from_numpy(np.concatenate([bridges, bridges[:, ::-1]]).T.copy())
    joined = GraphStore(
        sizes=torch.tensor([size]),
        edge_counts=store.edge_counts.sum().view(1) + both.shape[1],
        local_edge_index=torch.cat([store.edge_index, both], dim=1),
        node=store.node,
        edge={"edge_mask": torch.cat([store.edge["edge_mask"], both[0] < 0])},
    )
    roles = [_house_roles(base, motifs) for base, motifs in parts]
    y = np.concatenate([roles[0], roles[1] + 1 + max(HOUSE_ROLES)])
    x = rng.normal(size=(size, NUM_FEATURES))
    half = np.repeat([-1.0, 1.0], halves)
    x[:, :2] = half[:, None] + x[:, :2] * 0.5**0.5
    return shuffled(_finished(joined, y, COMMUNITY.explained_nodes(size, *parts[0]), x), rng)


def build_tree_grid(variant: str, seed: int, size: int) -> GraphStore:
    """A balanced binary tree of height 8 with 80 grids; class 1 are the nodes of grids."""
    random_, rng = drawing.private_generators(TREE_GRID.name, seed)
    if variant == PUBLISHED:
        return shuffled(published(TREE_GRID, size), rng)
    base, motifs = _parts(TREE_GRID, size)
    child = np.arange(1, base)
    sketch = drawing.GraphSketch(base, np.stack([(child - 1) // 2, child], axis=1))
    sketch = _with_motifs(sketch, drawing.GRID, motifs, random_)
    y = (np.arange(size) >= base).astype(np.int64)
    explained = TREE_GRID.explained_nodes(size, base, motifs)
    return shuffled(_finished(drawing.flatten([sketch]), y, explained), rng)


def published(family: Family, size: int) -> GraphStore:
    """A published graph, read from ``node_synthetic.npz`` (see :func:`read_official`)."""
    if size != family.num_nodes:
        raise InputError(
            f"the published '{family.name}' has exactly {family.num_nodes} nodes, not {size}; "
            "leave size out, or use variant='paper'"
        )
    prefix = family.name.replace("-", "_")
    needed = [f"{prefix}/{key}" for key in ("edges", "gt_edges", "y")]
    path, arrays = read_official(FILE, needed)
    edges, truth, y = (arrays[key].astype(np.int64) for key in needed)
    x = arrays.get(f"{prefix}/x")
    fits = len(y) == size and edges.ndim == truth.ndim == 2 and edges.max() < size
    if not fits or (x is not None and x.shape != (size, NUM_FEATURES)):
        raise StorageError(
            f"'{path}' does not hold a graph of {size} nodes under '{prefix}'; replace it by an "
            "intact copy of the published set"
        )
    node_mask = np.zeros(size, dtype=bool)
    node_mask[truth] = True
    store = drawing.flatten_undirected(
        sizes=np.array([size]),
        counts=np.array([len(edges)]),
        edges=edges,
        edge_mask=np.isin(*(ends.min(1) * size + ends.max(1) for ends in (edges, truth))),
        node_mask=node_mask,
    )
    explained = family.explained_nodes(size, family.base, NUM_MOTIFS)
    return _finished(store, y, explained, x)


def _parts(family: Family, size: int) -> tuple[int, int]:
    """Nodes of the base and number of motifs of a graph with ``size`` nodes."""
    motifs = size * NUM_MOTIFS // family.num_nodes
    base = size - motifs * family.motif.num_nodes
    if motifs < 1 or base <= BA_EDGES:
        least = 2 * family.num_nodes // NUM_MOTIFS
        raise InputError(f"'{family.name}' needs at least {least} nodes or more, got {size}")
    return base, motifs


def _houses(base: int, motifs: int, random_: random.Random) -> drawing.GraphSketch:
    return _with_motifs(
        drawing.GraphSketch.barabasi_albert(base, BA_EDGES, random_), drawing.HOUSE, motifs, random_
    )


def _house_roles(base: int, motifs: int) -> npt.NDArray[np.int64]:
    roles = np.concatenate([np.zeros(base), np.tile(HOUSE_ROLES, motifs)])
    return roles.astype(np.int64)


def _with_motifs(
    sketch: drawing.GraphSketch, motif: drawing.Motif, count: int, random_: random.Random
) -> drawing.GraphSketch:
    """Attaches motifs at even distances along the base, then adds random edges."""
    base = sketch.num_nodes
    for number in range(count):
        sketch.attach(motif, number * max(1, base // count) % base)
    edges = np.concatenate([block for block, _ in sketch.edge_blocks])
    every = range(sketch.num_nodes)
    noise = _new_edges(edges, int(NOISE * len(edges)), random_, every, every)
    sketch.add_edges([(int(u), int(v)) for u, v in noise])
    return sketch


def _new_edges(
    edges: drawing.EdgeArray, count: int, random_: random.Random, ends: range, other_ends: range
) -> drawing.EdgeArray:
    """Random edges between two ranges of nodes, none of them among ``edges`` or twice."""
    taken = {frozenset(edge) for edge in edges.tolist()}
    found: list[tuple[int, int]] = []
    while len(found) < count:
        edge = (random_.choice(ends), random_.choice(other_ends))
        if edge[0] != edge[1] and frozenset(edge) not in taken:
            taken.add(frozenset(edge))
            found.append(edge)
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _finished(
    store: GraphStore,
    y: npt.NDArray[np.int64],
    explained: npt.NDArray[np.bool_],
    x: npt.NDArray[np.float64] | None = None,
) -> GraphStore:
    """The graph with labels, features, all ones unless given, and the explained nodes marked."""
    x = np.ones((int(store.sizes[0]), NUM_FEATURES)) if x is None else x
    node = {"y": y, "x": x.astype(np.float32), "explained": explained}
    return store.with_attributes(node={k: torch.from_numpy(v) for k, v in node.items()})


INFOS = (
    entry(
        "BA-Shapes",
        "node of a BA graph with 80 houses; its role: base, below roof, ground, roof",
        build_ba_shapes,
        num_classes=4,
        num_graphs=SHAPES.num_nodes,
        level="node",
    ),
    entry(
        "BA-Community",
        "node of two joined BA-Shapes with features that tell them apart; role in half",
        build_ba_community,
        num_classes=8,
        num_graphs=COMMUNITY.num_nodes,
        level="node",
    ),
    entry(
        "Tree-Grid",
        "node of a binary tree with 80 grids; of a grid (1) or of the tree (0)",
        build_tree_grid,
        num_classes=2,
        num_graphs=TREE_GRID.num_nodes,
        level="node",
    ),
)
