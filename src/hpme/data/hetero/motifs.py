"""Graphs of authors, papers and venues with a typed house or cycle, for graph classification."""

from __future__ import annotations

import random
from dataclasses import replace

import torch

from hpme.data.info import PAPER, entry
from hpme.data.synthetic.sketch import CYCLE, HOUSE, GraphSketch, flatten, private_generators
from hpme.graphs import GraphStore
from hpme.graphs.schema import EDGE_TYPE, NODE_TYPE, EdgeType, Schema
from hpme.graphs.transforms import shuffled

BASE_SIZE = 20
WIDTHS = {"author": 4, "paper": 3, "venue": 2}
"""Types of nodes and their features, all of them constant."""
RELATIONS: tuple[EdgeType, ...] = (
    ("author", "writes", "paper"),
    ("paper", "appears_in", "venue"),
    ("author", "chairs", "venue"),
)
"""Every edge is stored in both directions; the other one is called ``rev_...``."""
MOTIF_KINDS = (0, 1, 0, 1, 2)
"""Cycle and house both have two authors, two papers and a venue, in this order."""
CONSTANT = 0.1


def build_hetero_motifs(_variant: str, seed: int, size: int) -> GraphStore:
    """BA(20, 1) of random types with a cycle (class 0, the first half) or a house (class 1).

    No two nodes of one type are joined. Cycle and house have nodes of the same types, so that
    numbers of nodes do not tell the classes apart.
    """
    random_, rng = private_generators("hetero-motifs", seed)
    y = torch.arange(size) * 2 // size
    sketches: list[GraphSketch] = []
    kinds: list[int] = []
    for label in y.tolist():
        sketch = GraphSketch.barabasi_albert(BASE_SIZE, 1, random_)
        base = _kinds_of_tree(sketch, random_)
        free = [node for node, kind in enumerate(base) if kind != MOTIF_KINDS[0]]
        sketches.append(sketch.attach((CYCLE, HOUSE)[label], random_.choice(free)))
        kinds += [*base, *MOTIF_KINDS]
    store = flatten(sketches).with_attributes(graph={"y": y})
    return shuffled(_with_types(store, kinds), rng)


def _kinds_of_tree(sketch: GraphSketch, random_: random.Random) -> list[int]:
    """Random types of the nodes of a tree, none that of its parent, which has a smaller number."""
    parent = {max(edge): min(edge) for edge in sketch.edge_blocks[0][0].tolist()}
    kinds: list[int] = []
    for node in range(sketch.num_nodes):
        taken = kinds[parent[node]] if node in parent else None
        kinds.append(random_.choice([kind for kind in range(len(WIDTHS)) if kind != taken]))
    return kinds


def _with_types(store: GraphStore, kinds: list[int]) -> GraphStore:
    back = tuple((target, f"rev_{name}", source) for source, name, target in RELATIONS)
    edge_types = RELATIONS + back
    schema = Schema(tuple(WIDTHS), edge_types, tuple(WIDTHS.values()), (None,) * len(edge_types))
    node_type = torch.tensor(kinds)
    number = torch.zeros(len(WIDTHS), len(WIDTHS), dtype=torch.long)
    number[tuple(schema.ends())] = torch.arange(len(edge_types))
    source, target = node_type[store.edge_index]
    own = torch.arange(schema.width) < torch.tensor(schema.widths)[node_type].unsqueeze(1)
    typed = store.with_attributes(
        node={"x": CONSTANT * own, NODE_TYPE: node_type}, edge={EDGE_TYPE: number[source, target]}
    )
    return replace(typed, schema=schema)


INFOS = (
    entry(
        "Hetero-Motifs",
        "tree of authors, papers and venues with a typed five-cycle (0) or house (1)",
        build_hetero_motifs,
        num_classes=2,
        num_graphs=1_000,
        variants=(PAPER,),
    ),
)
