"""Sets of Barabási-Albert graphs with house and grid motifs: BA-HouseGrid and its relatives."""

from __future__ import annotations

import random

import numpy as np
import torch
from torch import Tensor

from hpme.data.info import DatasetInfo, GraphStats
from hpme.data.synthetic.motifs import GRID, HOUSE
from hpme.data.synthetic.sketch import GraphSketch, flatten, private_generators
from hpme.graphs import GraphStore
from hpme.graphs.segment import segment_sum

BASE_SIZE = 20


def uniform_features(num_nodes: int, rng: np.random.Generator) -> Tensor:
    """One feature per node, uniform on [0, 100]."""
    return torch.from_numpy(rng.uniform(0.0, 100.0, (num_nodes, 1))).float()


def motif_volume(store: GraphStore, x: Tensor) -> Tensor:
    """Sum of all features of the ground-truth nodes of every graph, summed in double precision."""
    value = x.double().sum(1) * store.node["node_mask"]
    return segment_sum(value, store.node_graph, len(store)).float()


def _house_or_grid(random_: random.Random, size: int) -> tuple[GraphStore, Tensor]:
    """One motif per graph, and which: 0 for a house, 1 for a grid."""
    kinds = [random_.randrange(2) for _ in range(size)]
    sketches = [
        GraphSketch.barabasi_albert(BASE_SIZE, 1, random_).attach((HOUSE, GRID)[kind], 0)
        for kind in kinds
    ]
    return flatten(sketches), torch.tensor(kinds)


def _house_and_grid(random_: random.Random, kinds: list[tuple[bool, bool]]) -> GraphStore:
    """For each pair of flags a base with a house at node 0, a grid at node 10, as flagged."""
    sketches = []
    for house, grid in kinds:
        sketch = GraphSketch.barabasi_albert(BASE_SIZE, random_.randint(1, 2), random_)
        if house:
            sketch.attach(HOUSE, 0)
        if grid:
            sketch.attach(GRID, 10)
        sketches.append(sketch)
    return flatten(sketches)


def build_ba_house_grid(_variant: str, seed: int, size: int) -> GraphStore:
    """BA(20, 1) with a house (class 0) or a 3 x 3 grid (class 1), half each on average."""
    random_, rng = private_generators("ba-housegrid", seed)
    store, y = _house_or_grid(random_, size)
    return store.with_attributes(node={"x": _ones(store)}, graph={"y": y}).shuffled(rng)


def build_ba_house_and_grid(_variant: str, seed: int, size: int) -> GraphStore:
    """BA(20, 1 or 2) with both motifs (class 1, half of the graphs) or at most one (class 0)."""
    random_, rng = private_generators("ba-houseandgrid", seed)
    both, at_most_one = (True, True), [(False, False), (True, False), (False, True)]
    kinds = [both if random_.random() < 0.5 else random_.choice(at_most_one) for _ in range(size)]
    store = _house_and_grid(random_, kinds)
    y = torch.tensor([int(house and grid) for house, grid in kinds])
    return store.with_attributes(node={"x": _ones(store)}, graph={"y": y}).shuffled(rng)


def build_house_grid_volume(_variant: str, seed: int, size: int) -> GraphStore:
    """The graphs of BA-HouseGrid with one uniform feature; the label sums it over the motif."""
    random_, rng = private_generators("house-grid-volume", seed)
    store, _ = _house_or_grid(random_, size)
    return _with_volume(store, rng)


def build_house_orgrid_volume(_variant: str, seed: int, size: int) -> GraphStore:
    """BA(20, 1 or 2) with a house, a grid or both, a third each; the label sums the motifs' x.

    BA-HouseOrGrid also has graphs without a motif; their volume is 0 and nothing explains it, so
    they are not generated.
    """
    random_, rng = private_generators("house-orgrid-volume", seed)
    kinds = random_.choices([(True, False), (False, True), (True, True)], k=size)
    return _with_volume(_house_and_grid(random_, kinds), rng)


def _ones(store: GraphStore) -> Tensor:
    return torch.ones(int(store.sizes.sum()), 1)


def _with_volume(store: GraphStore, rng: np.random.Generator) -> GraphStore:
    x = uniform_features(int(store.sizes.sum()), rng)
    return store.with_attributes(node={"x": x}, graph={"y": motif_volume(store, x)}).shuffled(rng)


def _with_both_motifs(stats: GraphStats) -> Tensor:
    """The class "both motifs" only: class 0 is the absence of a motif, which no edge shows."""
    return stats.y == 1


INFOS = (
    DatasetInfo(
        name="ba-housegrid",
        title="BA-HouseGrid",
        task="classification",
        num_classes=2,
        num_graphs=10_000,
        description="BA graph with a house (0) or a 3x3 grid (1)",
        build=build_ba_house_grid,
    ),
    DatasetInfo(
        name="ba-houseandgrid",
        title="BA-HouseAndGrid",
        task="classification",
        num_classes=2,
        num_graphs=10_000,
        description="BA graph with house and grid (1), or only one of them or none (0)",
        build=build_ba_house_and_grid,
        explainable=_with_both_motifs,
    ),
    DatasetInfo(
        name="house-grid-volume",
        title="House-Grid-Volume",
        task="regression",
        num_classes=None,
        num_graphs=10_000,
        description="BA-HouseGrid with random features; sum over the motif's nodes",
        build=build_house_grid_volume,
    ),
    DatasetInfo(
        name="house-orgrid-volume",
        title="House-OrGrid-Volume",
        task="regression",
        num_classes=None,
        num_graphs=10_000,
        description="BA graph with house, grid or both and random features; sum over the motifs",
        build=build_house_orgrid_volume,
    ),
)
