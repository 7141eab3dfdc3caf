"""Sets of Barabási-Albert graphs with cycles, houses and grids.

The published forms of BA-2Motifs, BA-Motif-Volume and BA-Motif-Counting are fixed data: a file for
the first, a recipe seeded by the graph's number for the others. The functions that return them keep
the published node order; builders shuffle it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from hpme.data.info import PUBLISHED, entry, read_official
from hpme.data.synthetic import drawing
from hpme.errors import InputError, StorageError
from hpme.graphs import GraphStore
from hpme.graphs.segment import segment_sum
from hpme.graphs.transforms import shuffled

BASE_SIZE = 20
NUM_FEATURES = 10
COUNTING_SIZE = 120
PUBLISHED_GRAPHS = 1_000


def build_house_or_grid(name: str, _variant: str, seed: int, size: int) -> GraphStore:
    """BA(20, 1) with a house (class 0) or a 3 x 3 grid (class 1), half each on average.

    House-Grid-Volume has one uniform feature, and labels that sum it over the motif.
    """
    random_, rng = drawing.private_generators(name, seed)
    kinds = [random_.randrange(2) for _ in range(size)]
    store = _with_one(random_, [(drawing.HOUSE, drawing.GRID)[kind] for kind in kinds])
    if name == "house-grid-volume":
        return shuffled(_with_volume(store, _uniform_features(store, rng)), rng)
    return shuffled(_labelled(store, torch.tensor(kinds)), rng)


def build_ba_house_and_grid(_variant: str, seed: int, size: int) -> GraphStore:
    """BA(20, 1 or 2) with both motifs (class 1, half of the graphs) or at most one (class 0)."""
    random_, rng = drawing.private_generators("ba-houseandgrid", seed)
    both, at_most_one = (True, True), [(False, False), (True, False), (False, True)]
    kinds = [both if random_.random() < 0.5 else random_.choice(at_most_one) for _ in range(size)]
    store = _house_and_grid(random_, kinds)
    return shuffled(_labelled(store, torch.tensor([int(kind == both) for kind in kinds])), rng)


def build_house_orgrid_volume(_variant: str, seed: int, size: int) -> GraphStore:
    """BA(20, 1 or 2) with a house, a grid or both, a third each; the label sums the motifs' x."""
    # Nothing would explain the volume of graphs without a motif, as BA-HouseOrGrid has, too.
    random_, rng = drawing.private_generators("house-orgrid-volume", seed)
    kinds = random_.choices([(True, False), (False, True), (True, True)], k=size)
    store = _house_and_grid(random_, kinds)
    return shuffled(_with_volume(store, _uniform_features(store, rng)), rng)


def build_ba_2motifs(variant: str, seed: int, size: int) -> GraphStore:
    """BA(20, 1) with a five-cycle (class 0, the first half) or a house (class 1) at node 0."""
    random_, rng = drawing.private_generators("ba-2motifs", seed)
    if variant == PUBLISHED:
        if size != PUBLISHED_GRAPHS:
            raise InputError(
                f"the published BA-2Motifs has exactly {PUBLISHED_GRAPHS} graphs, not {size}; "
                "leave size out, or use variant='paper'"
            )
        return shuffled(published_ba_2motifs(), rng)
    y = torch.arange(size) * 2 // size
    store = _with_one(random_, [(drawing.CYCLE, drawing.HOUSE)[label] for label in y.tolist()])
    return shuffled(_labelled(store, y, drawing.constant_features(store)), rng)


def published_ba_2motifs() -> GraphStore:
    """The published graphs; 40 have a self-loop at node 20 in place of the attachment."""
    needed = ("n_edges", "u", "v", "y")
    path, arrays = read_official("ba_2motifs.npz", needed)
    counts, u, v, y = (arrays[key].astype(np.int64) for key in needed)
    size = BASE_SIZE + drawing.CYCLE.num_nodes
    fits = len(counts) == len(y) == PUBLISHED_GRAPHS and counts.sum() == len(u) == len(v)
    if not fits or min(u.min(), v.min()) < 0 or max(u.max(), v.max()) >= size:
        raise StorageError(
            f"'{path}' does not hold {PUBLISHED_GRAPHS} graphs of {size} nodes; replace it by an "
            "intact copy of the published set"
        )
    store = drawing.flatten_undirected(
        sizes=np.full(len(counts), size),
        counts=counts,
        edges=np.stack([u, v], axis=1),
        edge_mask=(u >= BASE_SIZE) & (v >= BASE_SIZE) & (u != v),
        node_mask=np.tile(np.arange(size) >= BASE_SIZE, len(counts)),
    )
    return _labelled(store, torch.from_numpy(y), drawing.constant_features(store))


def build_ba_motif_volume(variant: str, seed: int, size: int) -> GraphStore:
    """BA(20, 1) with a five-cycle and random features; the label is their sum over the motif.

    ``"paper"`` repeats the feature over ten dimensions, as the published set does: the label sums
    all of them, so that the paper's RMSE stays comparable.
    """
    random_, rng = drawing.private_generators("ba-motif-volume", seed)
    if variant == PUBLISHED:
        return shuffled(published_ba_motif_volume(size), rng)
    store = _with_one(random_, [drawing.CYCLE] * size, anywhere=True)
    x = _uniform_features(store, rng).repeat(1, NUM_FEATURES)
    return shuffled(_with_volume(store, x), rng)


def published_ba_motif_volume(size: int) -> GraphStore:
    """The published recipe: graph ``i`` depends on ``i`` only."""
    sketches: list[drawing.GraphSketch] = []
    values: list[float] = []
    for i in range(size):
        draw = random.Random(i)
        sketch = drawing.GraphSketch.barabasi_albert(BASE_SIZE, 1, i)
        base_node, motif_node = draw.randrange(0, 19), draw.randrange(20, 24) - BASE_SIZE
        sketches.append(sketch.attach(drawing.CYCLE, base_node, motif_node))
        values.extend(draw.randrange(1, 1000) / 10 for _ in range(sketch.num_nodes))
    return _with_volume(
        drawing.flatten(sketches), torch.tensor(values).view(-1, 1).repeat(1, NUM_FEATURES)
    )


def build_ba_motif_counting(variant: str, seed: int, size: int) -> GraphStore:
    """``k`` five-cycles, each held by one edge to a BA base of 20 nodes; the label is ``k``."""
    random_, rng = drawing.private_generators("ba-motif-counting", seed)
    if variant == PUBLISHED:
        return shuffled(published_ba_motif_counting(size), rng)
    counts = [random_.randint(0, 10) for _ in range(size)]
    return shuffled(_counting([(k, BASE_SIZE, random_, random_) for k in counts]), rng)


def published_ba_motif_counting(size: int) -> GraphStore:
    """The published recipe: graph ``i`` depends on ``i`` only; where it attaches is not known."""
    plans = []
    for i in range(size):
        draw = random.Random(i)
        k = draw.randrange(1, 20)
        plans.append((k, COUNTING_SIZE - drawing.CYCLE.num_nodes * k, i, draw))
    return _counting(plans)


def _counting(plans: Sequence[tuple[int, int, random.Random | int, random.Random]]) -> GraphStore:
    """Graphs from (number of cycles, size and seed of the base, source of attachment points)."""
    sketches = []
    for k, base_size, base_seed, draw in plans:
        sketch = drawing.GraphSketch.barabasi_albert(base_size, 1, base_seed)
        for _ in range(k):
            sketch.attach(drawing.CYCLE, draw.randrange(base_size))
        sketches.append(sketch)
    store = drawing.flatten(sketches)
    y = torch.tensor([float(k) for k, *_ in plans])
    return _labelled(store, y, drawing.constant_features(store))


def _with_one(
    random_: random.Random, motifs: Sequence[drawing.Motif], *, anywhere: bool = False
) -> GraphStore:
    """BA(20, 1) with one motif each, at node 0 or anywhere."""
    sketches = []
    for motif in motifs:
        sketch = drawing.GraphSketch.barabasi_albert(BASE_SIZE, 1, random_)
        sketches.append(sketch.attach(motif, random_.randrange(BASE_SIZE) if anywhere else 0))
    return drawing.flatten(sketches)


def _house_and_grid(random_: random.Random, kinds: list[tuple[bool, bool]]) -> GraphStore:
    """For each pair of flags a base with a house at node 0, a grid at node 10, as flagged."""
    sketches = []
    for house, grid in kinds:
        sketch = drawing.GraphSketch.barabasi_albert(BASE_SIZE, random_.randint(1, 2), random_)
        if house:
            sketch.attach(drawing.HOUSE, 0)
        if grid:
            sketch.attach(drawing.GRID, 10)
        sketches.append(sketch)
    return drawing.flatten(sketches)


def _labelled(store: GraphStore, y: Tensor, x: Tensor | None = None) -> GraphStore:
    """The graphs with labels and features, by default a single one."""
    x = torch.ones(int(store.sizes.sum()), 1) if x is None else x
    return store.with_attributes(node={"x": x}, graph={"y": y})


def _uniform_features(store: GraphStore, rng: np.random.Generator) -> Tensor:
    """One feature per node, uniform on [0, 100]."""
    return torch.from_numpy(rng.uniform(0.0, 100.0, (int(store.sizes.sum()), 1))).float()


def _with_volume(store: GraphStore, x: Tensor) -> GraphStore:
    """Labelled with the sum of the features of ground-truth nodes, taken in double precision."""
    value = x.double().sum(1) * store.node["node_mask"]
    volume = segment_sum(value, store.node_graph, len(store)).float()
    return _labelled(store, volume, x)


INFOS = (
    entry(
        "BA-2Motifs",
        "BA graph with a five-cycle (0) or a house (1)",
        build_ba_2motifs,
        num_classes=2,
        num_graphs=PUBLISHED_GRAPHS,
        explained_positions={PUBLISHED: (range(100), range(500, 600))},
    ),
    entry(
        "BA-Motif-Volume",
        "BA graph with a five-cycle and random features; sum over the cycle's nodes",
        build_ba_motif_volume,
        num_graphs=1_000,
    ),
    entry(
        "BA-Motif-Counting",
        "BA graph with several five-cycles; their number",
        build_ba_motif_counting,
        num_graphs=1_000,
    ),
    entry(
        "BA-HouseGrid",
        "BA graph with a house (0) or a 3x3 grid (1)",
        partial(build_house_or_grid, "ba-housegrid"),
        num_classes=2,
        num_graphs=10_000,
    ),
    entry(
        "BA-HouseAndGrid",
        "BA graph with house and grid (1), or only one of them or none (0)",
        build_ba_house_and_grid,
        num_classes=2,
        num_graphs=10_000,
        # Class 0 is the absence of a motif, which no edge shows.
        explainable=lambda stats: stats.y == 1,
    ),
    entry(
        "House-Grid-Volume",
        "BA-HouseGrid with random features; sum over the motif's nodes",
        partial(build_house_or_grid, "house-grid-volume"),
        num_graphs=10_000,
    ),
    entry(
        "House-OrGrid-Volume",
        "BA graph with house, grid or both and random features; sum over the motifs",
        build_house_orgrid_volume,
        num_graphs=10_000,
    ),
)
