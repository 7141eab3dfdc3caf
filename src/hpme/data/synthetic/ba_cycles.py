"""Sets with five-cycles on Barabási-Albert graphs: BA-2Motifs, BA-Motif-Volume, BA-Motif-Counting.

Their published forms are fixed data: a file for BA-2Motifs, a recipe seeded by the graph's number
for the other two. The functions that return them keep the published node order; builders
shuffle it.
"""

from __future__ import annotations

import random
import zipfile
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from hpme.data.info import PUBLISHED, DatasetInfo
from hpme.data.sources import find_data_file
from hpme.data.synthetic.ba import BASE_SIZE, motif_volume, uniform_features
from hpme.data.synthetic.motifs import CYCLE, HOUSE
from hpme.data.synthetic.sketch import GraphSketch, flatten, flatten_undirected, private_generators
from hpme.errors import InputError, StorageError
from hpme.graphs import GraphStore

NUM_FEATURES = 10
COUNTING_SIZE = 120
PUBLISHED_GRAPHS = 1_000


def constant_features(store: GraphStore) -> Tensor:
    """Ten features of 0.1 per node: nothing but structure tells nodes apart."""
    return torch.full((int(store.sizes.sum()), NUM_FEATURES), 0.1)


def build_ba_2motifs(variant: str, seed: int, size: int) -> GraphStore:
    """BA(20, 1) with a five-cycle (class 0, the first half) or a house (class 1) at node 0."""
    random_, rng = private_generators("ba-2motifs", seed)
    if variant == PUBLISHED:
        if size != PUBLISHED_GRAPHS:
            raise InputError(
                f"the published BA-2Motifs has exactly {PUBLISHED_GRAPHS} graphs, not {size}; "
                "leave size out, or use variant='paper'"
            )
        return published_ba_2motifs().shuffled(rng)
    y = torch.arange(size) * 2 // size
    store = flatten(
        [
            GraphSketch.barabasi_albert(BASE_SIZE, 1, random_).attach((CYCLE, HOUSE)[label], 0)
            for label in y.tolist()
        ]
    )
    return store.with_attributes(node={"x": constant_features(store)}, graph={"y": y}).shuffled(rng)


def published_ba_2motifs() -> GraphStore:
    """The published graphs, read from ``ba_2motifs.npz`` (see :func:`find_data_file`).

    In 40 of them the attachment is missing and node 20 has a self-loop instead; the self-loop is
    kept, and is not ground truth.

    Raises:
        StorageError: If the file is missing or is not what it should be.
    """
    path = find_data_file("official", "ba_2motifs.npz")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            counts, u, v, y = (arrays[key].astype(np.int64) for key in ("n_edges", "u", "v", "y"))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise StorageError(
            f"'{path}' cannot be read ({error}); replace it by an intact copy with the arrays "
            "n_edges, u, v and y"
        ) from error
    size = BASE_SIZE + CYCLE.num_nodes
    fits = len(counts) == len(y) == PUBLISHED_GRAPHS and counts.sum() == len(u) == len(v)
    if not fits or min(u.min(), v.min()) < 0 or max(u.max(), v.max()) >= size:
        raise StorageError(
            f"'{path}' does not hold {PUBLISHED_GRAPHS} graphs of {size} nodes; replace it by an "
            "intact copy of the published set"
        )
    store = flatten_undirected(
        sizes=np.full(len(counts), size),
        counts=counts,
        edges=np.stack([u, v], axis=1),
        edge_mask=(u >= BASE_SIZE) & (v >= BASE_SIZE) & (u != v),
        node_mask=np.tile(np.arange(size) >= BASE_SIZE, len(counts)),
    )
    return store.with_attributes(
        node={"x": constant_features(store)}, graph={"y": torch.from_numpy(y)}
    )


def build_ba_motif_volume(variant: str, seed: int, size: int) -> GraphStore:
    """BA(20, 1) with a five-cycle and random features; the label is their sum over the motif.

    ``"paper"`` draws the feature from U[0, 100] and repeats it over ten dimensions, as the
    published set does: the label sums all of them, so its scale (standard deviation about 650)
    and the paper's RMSE stay comparable.
    """
    random_, rng = private_generators("ba-motif-volume", seed)
    if variant == PUBLISHED:
        return published_ba_motif_volume(size).shuffled(rng)
    store = flatten(
        [
            GraphSketch.barabasi_albert(BASE_SIZE, 1, random_).attach(
                CYCLE, random_.randrange(BASE_SIZE)
            )
            for _ in range(size)
        ]
    )
    x = uniform_features(int(store.sizes.sum()), rng).repeat(1, NUM_FEATURES)
    return store.with_attributes(node={"x": x}, graph={"y": motif_volume(store, x)}).shuffled(rng)


def published_ba_motif_volume(size: int) -> GraphStore:
    """The published recipe: graph ``i`` depends on ``i`` only."""
    sketches: list[GraphSketch] = []
    values: list[float] = []
    for i in range(size):
        draw = random.Random(i)
        sketch = GraphSketch.barabasi_albert(BASE_SIZE, 1, i)
        base_node, motif_node = draw.randrange(0, 19), draw.randrange(20, 24) - BASE_SIZE
        sketches.append(sketch.attach(CYCLE, base_node, motif_node))
        values.extend(draw.randrange(1, 1000) / 10 for _ in range(sketch.num_nodes))
    store = flatten(sketches)
    x = torch.tensor(values).view(-1, 1).repeat(1, NUM_FEATURES)
    return store.with_attributes(node={"x": x}, graph={"y": motif_volume(store, x)})


def build_ba_motif_counting(variant: str, seed: int, size: int) -> GraphStore:
    """``k`` five-cycles, each held by one edge to a BA base; the label is ``k``.

    The paper states ``k`` in 0..10 but not the size of the base: it has 20 nodes here, as in all
    other BA sets. The published set has 120 nodes in all and ``k`` in 1..19.
    """
    random_, rng = private_generators("ba-motif-counting", seed)
    if variant == PUBLISHED:
        return published_ba_motif_counting(size).shuffled(rng)
    counts = [random_.randint(0, 10) for _ in range(size)]
    return _counting([(k, BASE_SIZE, random_, random_) for k in counts]).shuffled(rng)


def published_ba_motif_counting(size: int) -> GraphStore:
    """The published recipe: ``k`` in 1..19 and the base of graph ``i`` depend on ``i`` only.

    The attachment points of the release are not known; they are drawn from the same source as
    ``k``, uniformly over the base.
    """
    plans = []
    for i in range(size):
        draw = random.Random(i)
        k = draw.randrange(1, 20)
        plans.append((k, COUNTING_SIZE - CYCLE.num_nodes * k, i, draw))
    return _counting(plans)


def _counting(plans: Sequence[tuple[int, int, random.Random | int, random.Random]]) -> GraphStore:
    """Graphs from (number of cycles, size and seed of the base, source of attachment points)."""
    sketches = []
    for k, base_size, base_seed, draw in plans:
        sketch = GraphSketch.barabasi_albert(base_size, 1, base_seed)
        for _ in range(k):
            sketch.attach(CYCLE, draw.randrange(base_size))
        sketches.append(sketch)
    store = flatten(sketches)
    y = torch.tensor([float(k) for k, *_ in plans])
    return store.with_attributes(node={"x": constant_features(store)}, graph={"y": y})


INFOS = (
    DatasetInfo(
        name="ba-2motifs",
        title="BA-2Motifs",
        task="classification",
        num_classes=2,
        num_graphs=PUBLISHED_GRAPHS,
        description="BA graph with a five-cycle (0) or a house (1)",
        build=build_ba_2motifs,
        explained_positions={PUBLISHED: (range(100), range(500, 600))},
    ),
    DatasetInfo(
        name="ba-motif-volume",
        title="BA-Motif-Volume",
        task="regression",
        num_classes=None,
        num_graphs=1_000,
        description="BA graph with a five-cycle and random features; sum over the cycle's nodes",
        build=build_ba_motif_volume,
    ),
    DatasetInfo(
        name="ba-motif-counting",
        title="BA-Motif-Counting",
        task="regression",
        num_classes=None,
        num_graphs=1_000,
        description="BA graph with several five-cycles; their number",
        build=build_ba_motif_counting,
    ),
)
