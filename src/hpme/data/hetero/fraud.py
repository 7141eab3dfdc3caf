"""One graph of accounts, devices and merchants with fraud rings, for node classification."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from hpme.data.info import PAPER, entry
from hpme.data.synthetic.sketch import private_generators
from hpme.errors import InputError
from hpme.graphs import GraphStore
from hpme.graphs.schema import EDGE_TYPE, NODE_TYPE, EdgeType, Schema
from hpme.graphs.transforms import shuffled

ACCOUNT, DEVICE, MERCHANT = range(3)
WIDTHS = {"account": 3, "device": 2, "merchant": 2}
EDGE_TYPES: tuple[EdgeType, ...] = (
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
    accounts belong to nobody. All accounts pay random merchants. The ground truth are the edges
    between the device of an account's own ring and its accounts: another ring, three hops away by
    a merchant, does not make the account part of one. ``size`` is the number of accounts; devices
    and merchants add about half as many nodes.
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
    x = rng.normal(size=(total, max(WIDTHS.values())))
    x[:size, 0] = np.where(new, -1.0, 1.0) + 0.3 * x[:size, 0]
    x *= np.arange(x.shape[1]) < np.array(list(WIDTHS.values()))[kinds][:, None]
    node_mask = np.zeros(total, dtype=bool)
    node_mask[uses[:, truth].reshape(-1)] = True
    y = np.concatenate([truth, np.zeros(total - size, dtype=bool)])
    return shuffled(_store(edges, kinds, x, y, np.tile(in_ring, 2), node_mask), rng)


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


def _store(
    edges: Sequence[Array],
    kinds: Array,
    x: npt.NDArray[np.float64],
    y: npt.NDArray[np.bool_],
    edge_mask: npt.NDArray[np.bool_],
    node_mask: npt.NDArray[np.bool_],
) -> GraphStore:
    schema = Schema(tuple(WIDTHS), EDGE_TYPES, tuple(WIDTHS.values()), (None,) * len(EDGE_TYPES))
    counts = torch.tensor([part.shape[1] for part in edges])
    return GraphStore(
        sizes=torch.tensor([len(kinds)]),
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
            "edge_mask": torch.from_numpy(edge_mask),
            EDGE_TYPE: torch.repeat_interleave(counts),
        },
        schema=schema,
    )


INFOS = (
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
