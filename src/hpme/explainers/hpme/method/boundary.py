"""How an inserted subgraph and what is left of its host are joined: where boundary edges go.

A boundary edge has one end inside a pooled subgraph; that of the host loses its inner end. What is
more to do in heterogeneous graphs stands at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hpme.explainers.hpme.method.pool import Selection
from hpme.graphs import GraphBatch
from hpme.graphs.segment import at, exclusive_cumsum

GOLDEN_RATIO = 0.6180339887498949


@dataclass(frozen=True)
class Places:
    """Where nodes are in the mixup graphs.

    Args:
        source: Places of the source's nodes, if they are inserted.
        host: Places of the host's nodes; of removed ones that of the node that takes theirs.
        origin: For every node its row in all host nodes followed by all source nodes.
        inserted: Number of inserted nodes of every graph.
        sizes: Number of nodes of every graph.
    """

    source: Tensor
    host: Tensor
    origin: Tensor
    inserted: Tensor
    sizes: Tensor

    @property
    def total(self) -> int:
        """Number of nodes of all graphs."""
        return self.origin.numel()


@dataclass(frozen=True)
class HostPairs:
    """What is left of the hosts.

    Args:
        pairs: Numbers of pairs of the hosts.
        index: Their nodes ``[2, P]`` in the mixup graphs.
        boundary: Which of them were boundary pairs.
    """

    pairs: Tensor
    index: Tensor
    boundary: Tensor


def swapped(
    source: GraphBatch,
    ours: Tensor,
    host: GraphBatch,
    gone: Tensor,
    places: Places,
    generator: torch.Generator | None,
) -> HostPairs:
    """Boundary pairs of the host go to the inner ends of those of the source.

    Which ends of all pairs are chosen and which are removed say ``ours`` and ``gone``, ``[2, P]``.
    """
    outer = (~(gone[0] | gone[1])).nonzero().squeeze(1)
    inner_end, partner = _meeting(source, ours, host, gone, generator)
    host_index = at(places.host, host.pairs.index)
    joined = torch.where(
        gone.index_select(1, partner),
        at(places.source, inner_end),
        host_index.index_select(1, partner),
    )
    index = torch.cat([host_index.index_select(1, outer), joined], dim=1)
    boundary = torch.arange(outer.numel(), index.shape[1], device=outer.device)
    return HostPairs(torch.cat([outer, partner]), index, boundary)


def by_rank(
    source: GraphBatch,
    chosen: Selection,
    host: GraphBatch,
    removed: Selection,
    gone: Tensor,
    places: Places,
) -> HostPairs:
    """Boundary pairs of the host go to the inserted node of the rank of the removed one."""
    host_at, touched = places.host, gone[0] | gone[1]
    # A host pair goes with the removed subgraph, or if nothing was inserted to attach to.
    dropped = (places.inserted == 0)[host.pairs.graph]
    if host.schema is not None:
        host_at, alone = _ranked_in_type(source, chosen, host, removed, places)
        dropped = dropped | alone[host.pairs.index].any(0)
    outer = (~gone.all(0) & ~(touched & dropped)).nonzero().squeeze(1)
    index = at(host_at, host.pairs.index).index_select(1, outer)
    return HostPairs(outer, index, at(touched, outer).nonzero().squeeze(1))


def _meeting(
    source: GraphBatch,
    ours: Tensor,
    host: GraphBatch,
    gone: Tensor,
    generator: torch.Generator | None,
) -> tuple[Tensor, Tensor]:
    """Inner ends of the boundary edges of the source, and for each a boundary pair of its host.

    Boundary edges of source and host are shuffled; the first of one meets the first of the other,
    and so on in turns. Those at an anchor meet those at the same anchor, all others meet others.
    """
    offered = (ours[0] != ours[1]).nonzero().squeeze(1)
    open_ = (gone[0] != gone[1]).nonzero().squeeze(1)
    inner_end, lost_end = _end(source, offered, ours), _end(host, open_, gone)
    groups = source.num_graphs * (1 + source.anchors_per_graph)
    keys = [(_group(source, offered, inner_end), _group(host, open_, lost_end), groups)]
    if source.schema is not None:
        types = _types_of_ends(source, offered, inner_end, ours, host, open_, lost_end, gone)
        ((own, other, groups),) = keys
        keys = [(own * n + mine, other * n + theirs, groups * n) for mine, theirs, n in types]
    ends, partners = [], []
    left = torch.arange(offered.numel(), device=offered.device)
    for ours_in, theirs_in, several in keys:
        left = at(left, _shuffle(source, at(offered, left), at(ours_in, left), generator))
        wanting = _shuffle(host, open_, theirs_in, generator)
        group = at(ours_in, left)
        supply = torch.bincount(group, minlength=several)
        demand = torch.bincount(theirs_in, minlength=several)
        turn = torch.arange(left.numel(), device=group.device)
        turn = turn - at(exclusive_cumsum(supply), group)
        wanted = at(demand, group)
        served = (wanted > 0).nonzero().squeeze(1)
        group, turn = at(group, served), at(turn, served)
        ends.append(at(inner_end, at(left, served)))
        place = at(exclusive_cumsum(demand), group) + turn % at(wanted, served)
        partners.append(at(open_, at(wanting, place)))
        left = left[wanted == 0]
    return torch.cat(ends), torch.cat(partners)


def _end(graphs: GraphBatch, pairs: Tensor, inside: Tensor) -> Tensor:
    """The end of some pairs that is inside, where ``inside`` ``[2, P]`` is about all pairs."""
    index = graphs.pairs.index.index_select(1, pairs)
    return torch.where(at(inside[0], pairs), index[0], index[1])


def _group(graphs: GraphBatch, pairs: Tensor, ends: Tensor) -> Tensor:
    """The graph of every pair, told apart by whether its end is an anchor, and which."""
    graph = at(graphs.pairs.graph, pairs)
    if graphs.anchor_order is None:
        return graph
    return graph * (1 + graphs.anchors_per_graph) + graphs.anchor_order[ends]


def _shuffle(
    graphs: GraphBatch, pairs: Tensor, group: Tensor, generator: torch.Generator | None
) -> Tensor:
    """A random order of pairs within their groups; without a generator always the same one."""
    if generator is not None:
        noise = torch.rand(pairs.shape, generator=generator).to(pairs.device).double()
    else:  # multiples of the golden ratio look random, and know nothing of other graphs
        place = pairs - graphs.pairs.start[graphs.pairs.graph[pairs]]
        noise = ((place + 1).double() * GOLDEN_RATIO).frac()
    return (group + noise).argsort()


def merged(left: HostPairs, host: GraphBatch, gone: Tensor, total: int) -> tuple[Tensor, Tensor]:
    """Makes one pair of boundary pairs that fall together; only they can.

    Args:
        left: What is left of the hosts.
        host: The hosts.
        gone: Which ends of all their pairs are removed, ``[2, P]``.
        total: Number of nodes of the mixup graphs.

    Returns:
        Nodes of the pairs, and their forward and backward edges ``[2, P]``, -1 for none. In each
        direction the first of several pairs that has an edge gives it.
    """
    index, place = left.index, left.boundary
    ways = torch.stack([at(host.pairs.forward, left.pairs), at(host.pairs.backward, left.pairs)])
    one, other = index.index_select(1, place)
    key = torch.minimum(one, other) * total + torch.maximum(one, other)
    if host.schema is not None and len(place):  # types tell pairs of the same nodes apart
        kinds = _signature(host, left.pairs[place], gone[0])
        key = key * (int(kinds.max()) + 1) + kinds
    key, order = key.sort(stable=True)
    is_first = torch.ones_like(key, dtype=torch.bool)
    is_first[1:] = key[1:] != key[:-1]
    if bool(is_first.all()):
        return index, ways
    pair = at(place, order)
    if bool((ways < 0).any()):
        ways = _gather_ways(index, ways, pair, is_first)
    once = torch.ones_like(ways[0], dtype=torch.bool)
    once[pair[~is_first]] = False
    kept = once.nonzero().squeeze(1)
    return index.index_select(1, kept), ways.index_select(1, kept)


def _gather_ways(index: Tensor, ways: Tensor, pair: Tensor, is_first: Tensor) -> Tensor:
    """Gives the first of the pairs that fall together the directions that only others have."""
    group, first = is_first.cumsum(0) - 1, pair[is_first]
    turned = index[0, pair] != index[0, first[group]]
    mine = torch.where(turned, ways[:, pair].flip(0), ways[:, pair])
    none = pair.numel()
    position = torch.where(mine < 0, none, torch.arange(none, device=pair.device))
    best = position.new_full((2, first.numel()), none)
    best = best.scatter_reduce(1, group.expand(2, -1), position, "amin")
    gathered = torch.cat([mine, mine.new_full((2, 1), -1)], dim=1).gather(1, best)
    ways = ways.clone()
    ways[:, first] = gathered
    return ways


# Heterogeneous graphs ##########################################################################


def _types_of_ends(
    source: GraphBatch,
    offered: Tensor,
    inner_end: Tensor,
    ours: Tensor,
    host: GraphBatch,
    open_: Tensor,
    lost_end: Tensor,
    gone: Tensor,
) -> tuple[tuple[Tensor, Tensor, int], ...]:
    """Types by which boundary pairs of source and host may meet, the strictest first.

    An edge of another type will do if its end is of the same type: cut off from the host, a
    subgraph would look to the model as it never did.
    """
    assert source.node_type is not None and host.node_type is not None
    return (
        _numbered(_signature(source, offered, ours[0]), _signature(host, open_, gone[0])),
        _numbered(source.node_type[inner_end], host.node_type[lost_end]),
    )


def _numbered(ours: Tensor, theirs: Tensor) -> tuple[Tensor, Tensor, int]:
    """Numbers of the kinds that there are, in place of theirs among all, and how many."""
    there = torch.bincount(torch.cat([ours, theirs])) > 0
    number = there.cumsum(0) - 1
    return number[ours], number[theirs], int(there.sum())


def _signature(graphs: GraphBatch, pairs: Tensor, first_inside: Tensor) -> Tensor:
    """Types of the edges of some pairs, seen from the end inside the subgraph; 0 is no edge.

    Args:
        graphs: Heterogeneous graphs.
        pairs: The pairs.
        first_inside: Boolean, for all pairs: whether the first node is that end.
    """
    assert graphs.schema is not None and graphs.edge_type is not None
    kinds = torch.cat([graphs.edge_type + 1, graphs.edge_type.new_zeros(1)])  # -1 is no edge
    forward, backward = kinds[graphs.pairs.forward[pairs]], kinds[graphs.pairs.backward[pairs]]
    first_inside = first_inside[pairs]
    leaving = torch.where(first_inside, forward, backward)
    entering = torch.where(first_inside, backward, forward)
    return leaving * (len(graphs.schema.edge_types) + 1) + entering


def _ranked_in_type(
    source: GraphBatch,
    chosen: Selection,
    host: GraphBatch,
    removed: Selection,
    places: Places,
) -> tuple[Tensor, Tensor]:
    """Places of removed nodes: those of the inserted nodes of the same type and rank in it.

    Returns:
        Places of all host nodes, and which of the removed ones found none.
    """
    ours, theirs = _ranks(source, chosen), _ranks(host, removed)
    per_cell = torch.bincount(ours.cell, minlength=ours.cells)
    count, start = per_cell[theirs.cell], exclusive_cumsum(per_cell)[theirs.cell]
    alone = torch.zeros_like(removed.keep)
    alone[theirs.nodes[count == 0]] = True
    found = count > 0
    partner = ours.nodes[start[found] + theirs.rank[found] % count[found]]
    host_at = places.host.clone()
    host_at[theirs.nodes[found]] = places.source[partner]
    return host_at, alone


@dataclass(frozen=True)
class _Ranks:
    """Selected nodes by graph, type and order: their cell of graph and type, and rank in it."""

    nodes: Tensor
    cell: Tensor
    rank: Tensor
    cells: int


def _ranks(graphs: GraphBatch, selection: Selection) -> _Ranks:
    assert graphs.schema is not None and graphs.node_type is not None
    kinds = len(graphs.schema.node_types)
    nodes = selection.keep.nonzero().squeeze(1)
    nodes = nodes[selection.order[nodes].argsort(stable=True)]
    cell = graphs.batch[nodes] * kinds + graphs.node_type[nodes]
    order = cell.argsort(stable=True)
    nodes, cell = nodes[order], cell[order]
    cells = graphs.num_graphs * kinds
    first = exclusive_cumsum(torch.bincount(cell, minlength=cells))
    rank = torch.arange(len(nodes), device=nodes.device) - first[cell]
    return _Ranks(nodes, cell, rank, cells)
