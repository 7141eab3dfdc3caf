"""Heterogeneous graphs: small ones of authors, papers and venues, a large one with fraud rings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from hpme.data.info import PAPER, entry
from hpme.data.synthetic.drawing import CYCLE, HOUSE, GraphSketch, flatten, private_generators
from hpme.errors import InputError
from hpme.graphs import GraphStore
from hpme.graphs.schema import EDGE_TYPE, NODE_TYPE, EdgeType, Schema
from hpme.graphs.transforms import shuffled

BASE_SIZE = 20
MOTIF_WIDTHS = {"author": 4, "paper": 3, "venue": 2}
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
        # None is of the type of its parent, which has a smaller number.
        parent = {max(edge): min(edge) for edge in sketch.edge_blocks[0][0].tolist()}
        base: list[int] = []
        for node in range(sketch.num_nodes):
            taken = base[parent[node]] if node in parent else None
            base.append(random_.choice([k for k in range(len(MOTIF_WIDTHS)) if k != taken]))
        free = [node for node, kind in enumerate(base) if kind != MOTIF_KINDS[0]]
        sketches.append(sketch.attach((CYCLE, HOUSE)[label], random_.choice(free)))
        kinds += [*base, *MOTIF_KINDS]
    store = flatten(sketches).with_attributes(graph={"y": y})
    back = tuple((target, f"rev_{name}", source) for source, name, target in RELATIONS)
    schema, node_type = _schema(MOTIF_WIDTHS, RELATIONS + back), torch.tensor(kinds)
    number = torch.zeros(len(MOTIF_WIDTHS), len(MOTIF_WIDTHS), dtype=torch.long)
    number[tuple(schema.ends())] = torch.arange(len(schema.edge_types))
    source, target = node_type[store.edge_index]
    own = torch.arange(schema.width) < torch.tensor(schema.widths)[node_type].unsqueeze(1)
    store = store.with_attributes(
        node={"x": CONSTANT * own, NODE_TYPE: node_type}, edge={EDGE_TYPE: number[source, target]}
    )
    return shuffled(replace(store, schema=schema), rng)


ACCOUNT, DEVICE, MERCHANT = range(3)
FRAUD_WIDTHS = {"account": 3, "device": 2, "merchant": 2}
FRAUD_EDGE_TYPES: tuple[EdgeType, ...] = (
    ("account", "uses", "device"),
    ("account", "pays", "merchant"),
    ("device", "rev_uses", "account"),
    ("merchant", "rev_pays", "account"),
)
NUM_ACCOUNTS = 7_000
ACCOUNTS_PER_MERCHANT = 7
RING = range(5, 9)
"""Accounts of a ring, and of an office, which shares a device as well."""
RINGS, OFFICES = 0.08, 0.08
"""Share of all accounts that belong to a ring, and to an office."""
NEW = 0.15
"""Share of new accounts among all that belong to no ring; those of a ring are all new."""
PAYMENTS = 2
Array = npt.NDArray[np.int64]


def build_hetero_fraud(_variant: str, seed: int, size: int) -> GraphStore:
    """A ring is a device that several accounts use, all of them new; their class is 1.

    Neither part is enough: offices share a device, too, between old and new accounts, and many new
    accounts belong to nobody. The ground truth are the edges between the device of an account's own
    ring and its accounts. ``size`` is the number of accounts.
    """
    _, rng = private_generators("hetero-fraud", seed)
    if size < 200:
        raise InputError(f"'hetero-fraud' needs at least 200 accounts, got {size}")
    group, ring = _groups(size, rng)
    account = np.arange(size)
    new = np.where(ring[account], True, rng.random(size) < NEW)
    devices = int(group.max()) + 1
    merchants = max(2, size // ACCOUNTS_PER_MERCHANT)
    paid = rng.integers(merchants, size=(size, PAYMENTS))
    paid[:, 1] = np.where(paid[:, 0] == paid[:, 1], (paid[:, 1] + 1) % merchants, paid[:, 1])
    uses = np.stack([account, size + group])
    pays = np.stack([account.repeat(PAYMENTS), size + devices + paid.reshape(-1)])
    edges = [uses, pays, uses[::-1], pays[::-1]]
    truth = ring.astype(bool)
    in_ring = np.concatenate([truth, np.repeat(False, pays.shape[1])])
    total = size + devices + merchants
    kinds = np.repeat([ACCOUNT, DEVICE, MERCHANT], [size, devices, merchants])
    x = rng.normal(size=(total, max(FRAUD_WIDTHS.values())))
    x[:size, 0] = np.where(new, -1.0, 1.0) + 0.3 * x[:size, 0]
    x *= np.arange(x.shape[1]) < np.array(list(FRAUD_WIDTHS.values()))[kinds][:, None]
    node_mask = np.zeros(total, dtype=bool)
    node_mask[uses[:, truth].reshape(-1)] = True
    y = np.concatenate([truth, np.zeros(total - size, dtype=bool)])
    counts = torch.tensor([part.shape[1] for part in edges])
    store = GraphStore(
        sizes=torch.tensor([total]),
        edge_counts=counts.sum().view(1),
        local_edge_index=torch.from_numpy(np.concatenate(edges, axis=1)),
        node={
            "x": torch.from_numpy(x).float(),
            "y": torch.from_numpy(y).long(),
            "explained": torch.from_numpy(y),
            "node_mask": torch.from_numpy(node_mask),
            NODE_TYPE: torch.from_numpy(kinds),
        },
        edge={
            "edge_mask": torch.from_numpy(np.tile(in_ring, 2)),
            EDGE_TYPE: torch.repeat_interleave(counts),
        },
        schema=_schema(FRAUD_WIDTHS, FRAUD_EDGE_TYPES),
    )
    return shuffled(store, rng)


def _groups(size: int, rng: np.random.Generator) -> tuple[Array, npt.NDArray[np.bool_]]:
    """The device of every account, and whether the account belongs to a ring."""
    group, ring = np.empty(size, dtype=np.int64), np.zeros(size, dtype=bool)
    done = number = 0
    for share, planted in ((RINGS, True), (OFFICES, False)):
        stop = done + int(share * size)
        while done < stop:
            count = int(rng.integers(RING.start, RING.stop))
            group[done : done + count], ring[done : done + count] = number, planted
            done, number = done + count, number + 1
    # One or two of the others share a device.
    rest = np.repeat(np.arange(size), rng.integers(1, 3, size=size))[: size - done]
    group[done:] = number + rest
    return group, ring


def _schema(widths: dict[str, int], edge_types: tuple[EdgeType, ...]) -> Schema:
    """Types whose edges have no features."""
    return Schema(tuple(widths), edge_types, tuple(widths.values()), (None,) * len(edge_types))


INFOS = (
    entry(
        "Hetero-Motifs",
        "tree of authors, papers and venues with a typed five-cycle (0) or house (1)",
        build_hetero_motifs,
        num_classes=2,
        num_graphs=1_000,
        variants=(PAPER,),
    ),
    entry(
        "Hetero-Fraud",
        "account of a graph of accounts, devices and merchants; in a fraud ring (1) or not (0)",
        build_hetero_fraud,
        num_classes=2,
        num_graphs=NUM_ACCOUNTS,
        level="node",
        own_motif=True,
        variants=(PAPER,),
    ),
)
