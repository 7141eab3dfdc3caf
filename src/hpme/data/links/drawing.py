"""Which pairs of nodes a set of links has, and which part of it each belongs to."""

from __future__ import annotations

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.graphs.enclosing import BaseGraph

SHARES = {"val": 0.05, "test": 0.1}
"""Links that are held out; the rest is for training."""
PARTS = ("train", "val", "test")


def parts_of(count: int) -> Tensor:
    """Parts of links in random order; no part is empty."""
    held = [max(1, int(share * count)) for share in SHARES.values()]
    return torch.arange(len(PARTS)).repeat_interleave(torch.tensor([count - sum(held), *held]))


def non_links(base: BaseGraph, count: int, generator: torch.Generator) -> Tensor:
    """Different pairs of nodes that are not linked."""
    size, linked = base.num_nodes, base.key(*base.links().T)
    free = size * (size - 1) // 2 - len(linked)
    if free < count:
        raise InputError(
            f"{count} pairs of nodes without a link are needed, there are {free}; use a smaller "
            "size"
        )
    keys = linked.new_empty(0)
    while len(keys) < count:
        drawn = torch.randint(size, (2, 2 * count), generator=generator)
        found = base.key(*drawn[:, drawn[0] != drawn[1]])
        keys = torch.unique(torch.cat([keys, found[~torch.isin(found, linked)]]))
    keys = keys[torch.randperm(len(keys), generator=generator)[:count]]
    return torch.stack([keys // size, keys % size], dim=1)
