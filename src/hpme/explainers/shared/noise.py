"""Noise that belongs to a graph, not to the order in which numbers are drawn."""

from __future__ import annotations

import torch
from torch import Tensor

from hpme.graphs import GraphBatch
from hpme.graphs.segment import segment_mean, segment_sum

ROUNDS = 8
"""Rounds of colour refinement."""


def pair_noise(graphs: GraphBatch, index: Tensor, seed: int, *, part_twins: bool = False) -> Tensor:
    """Uniform noise in :math:`(0, 1)` for pairs of nodes, another for every seed.

    So that it is the same alone as in a batch, however nodes are numbered, it is a hash of the
    seed, of the whole graph and of each pair's place in it (colour refinement in integer
    arithmetic, which has no rounding). With ``part_twins`` nodes that look alike get different
    noise, by their order.
    """
    color = _colors(graphs, seed, part_twins=part_twins)
    graph = segment_sum(_hash(color), graphs.batch, graphs.num_graphs)
    pair = _hash(color[index[0]]) + _hash(color[index[1]]) + graph[graphs.batch[index[0]]]
    return uniform(pair)


def node_keys(graphs: GraphBatch, seed: int) -> Tensor:
    """Integers :math:`[N]` that belong to nodes, different for twins; their sums belong to sets."""
    return _hash(_colors(graphs, seed, part_twins=True))


def uniform(key: Tensor) -> Tensor:
    """Uniform noise in :math:`(0, 1)`, a hash of integers."""
    whole = (_hash(key) >> 16 & 0x7FFFFF).to(torch.get_default_dtype())
    return (whole + 0.5) / 2**23  # exact in single precision, and never 0 or 1


def pair_classes(graphs: GraphBatch, index: Tensor, of_edge: Tensor) -> Tensor:
    """The class of every pair; no message passing tells pairs of one class of a graph apart."""
    source, target = graphs.edge_index
    color = _looks(graphs)
    if graphs.anchor_order is not None:
        color = color + 7 * graphs.anchor_order
    code = _edge_looks(graphs)
    for factor, values in ((11, graphs.edge_attr), (13, graphs.edge_weight)):
        if values is not None:
            code = code + factor * _rows_hash(values.view(len(values), -1))
    for _ in range(ROUNDS):
        heard = segment_sum(_hash(color[source] + code), target, len(color))
        said = segment_sum(_hash(17 * color[target] + code), source, len(color))
        color = _hash(color + 3 * heard + 19 * said)
    edge = _hash(23 * color[source] + 29 * color[target] + code)
    pair = segment_sum(edge, of_edge, index.shape[1]) + 31 * graphs.batch[index[0]]
    classes: Tensor = torch.unique(_hash(pair), return_inverse=True)[1]
    return classes


def pair_normal(graphs: GraphBatch, index: Tensor, seed: int, classes: Tensor) -> Tensor:
    """Standard normal :func:`pair_noise`, the same for all pairs of a class."""
    parted, plain = (pair_noise(graphs, index, seed, part_twins=part) for part in (True, False))
    alone = torch.bincount(classes)[classes] == 1
    return 2**0.5 * torch.erfinv(2 * torch.where(alone, parted, plain) - 1)


def _colors(graphs: GraphBatch, seed: int, *, part_twins: bool) -> Tensor:
    """Colour refinement: what a node looks like in its graph."""
    source, target = graphs.edge_index
    color, code = _looks(graphs) + seed, _edge_looks(graphs)
    for _ in range(ROUNDS):
        color = _hash(color + 3 * segment_sum(_hash(color[source] + code), target, len(color)))
    if part_twins:
        color = _hash(color + 5 * _place_among_equals(color, graphs))
    return color


def _looks(graphs: GraphBatch) -> Tensor:
    """A number for every node, by its features and its type."""
    color = _rows_hash(graphs.kinds)
    return color if graphs.node_type is None else color + _hash(37 + graphs.node_type)


def _edge_looks(graphs: GraphBatch) -> Tensor:
    """A number for every edge, by its type; 0 without types."""
    if graphs.edge_type is None:
        return torch.zeros_like(graphs.edge_index[0])
    return _hash(41 + graphs.edge_type)


def _place_among_equals(color: Tensor, graphs: GraphBatch) -> Tensor:
    """Place among nodes of its colour in its graph; in space by the distance from the centre."""
    batch, spot = graphs.batch, graphs.node.get("pos")
    order = torch.arange(len(color), device=color.device)
    if spot is not None and not graphs.has_x:
        centre = segment_mean(spot.double(), batch, graphs.num_graphs)
        order = (spot - centre[batch]).norm(dim=1).argsort(stable=True)
    order = order[torch.argsort(color[order], stable=True)]
    order = order[torch.argsort(batch[order], stable=True)]
    color, batch = color[order], batch[order]
    first = torch.ones_like(batch, dtype=torch.bool)
    first[1:] = (color[1:] != color[:-1]) | (batch[1:] != batch[:-1])
    position = torch.arange(order.numel(), device=order.device)
    place = torch.empty_like(order)
    place[order] = position - torch.where(first, position, 0).cummax(0).values
    return place


def _rows_hash(values: Tensor) -> Tensor:
    """A number for every row, by its bits in single precision, or by its integers."""
    if values.is_floating_point():
        bits = values.to(torch.float32).contiguous().view(torch.int32).long()
    else:
        bits = values.long()
    if not bits.shape[1]:  # zero would stay zero however often it is mixed
        return bits.new_ones(len(bits))
    return _hash(bits + torch.arange(bits.shape[1], device=bits.device)).sum(1)


def _hash(value: Tensor) -> Tensor:
    """Mixes the bits of integers; multiplication wraps around on purpose."""
    for factor in (-7046029254386353131, -4658895280553007687):
        value = (value ^ (value >> 29)) * factor
    return value ^ (value >> 32)
