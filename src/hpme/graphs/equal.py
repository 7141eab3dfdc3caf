"""Which graphs of a store are the same, however their nodes are numbered."""

from __future__ import annotations

import torch
from torch import Tensor

from hpme.graphs.segment import segment_sum
from hpme.graphs.store import GraphStore

ROUNDS = 4
ODD = 0x5851F42D4C957F2D


def equal_groups(store: GraphStore) -> Tensor:
    """The number of the group of every graph ``[B]``: copies and renumbered copies share one."""
    group: Tensor = torch.unique(graph_codes(store), return_inverse=True)[1]
    return group


def graph_codes(store: GraphStore) -> Tensor:
    """A whole number for every graph ``[B]``, the same for copies and renumbered copies.

    By Weisfeiler-Lehman codes, so that graphs that message passing cannot tell apart are the same
    as well. Labels do not count. Codes are whole numbers that wrap: sums do not depend on order.
    """
    graphs = store.batch()
    code = torch.zeros_like(graphs.batch)
    for name, values in store.node.items():
        code = code if name == "y" else _mixed(code + _rows(values).to(code))
    if graphs.anchor_order is not None:
        code = _mixed(code + graphs.anchor_order)
    source, target = graphs.edge_index
    kind = torch.zeros_like(source)
    for values in store.edge.values():
        kind = _mixed(kind + _rows(values).to(kind))
    for _ in range(ROUNDS):
        heard = _mixed(code.index_select(0, source) + kind)
        code = _mixed(3 * code + segment_sum(heard, target, graphs.num_nodes))
    return segment_sum(_mixed(code), graphs.batch, graphs.num_graphs)


def _rows(values: Tensor) -> Tensor:
    """A code of every row, by the bits of its numbers."""
    table = values.reshape(len(values), -1)
    if table.is_floating_point():
        table = table.double().add(0.0).view(torch.int64)  # there are two zeros
    place = torch.arange(1, table.shape[1] + 1, device=table.device)
    return (_mixed(table.long() + place) * (2 * _mixed(place) + 1)).sum(1)


def _mixed(code: Tensor) -> Tensor:
    """Other codes for other numbers, without order or pattern."""
    code = (code ^ (code >> 32)) * ODD
    return (code ^ (code >> 29)) * ODD
