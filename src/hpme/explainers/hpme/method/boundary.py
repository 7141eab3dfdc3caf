"""How an inserted subgraph and what is left of its host are joined: where boundary edges go.

A boundary edge has one end inside a pooled subgraph; that of the host loses its inner end. What is
more to do in heterogeneous graphs stands at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from hpme.explainers.hpme.method.pool import Selection
from hpme.graphs import GraphBatch
from hpme.graphs.segment import at, exclusive_cumsum

GOLDEN_RATIO = 0.6180339887498949


@dataclass(frozen=True)
class Side:
    """One of the two batches of graphs of a mixup, and its pooled nodes."""

    graphs: GraphBatch
    pooled: Selection

    @cached_property
    def inside(self) -> Tensor:
        """Which ends of all pairs are pooled, boolean ``[2, P]``."""
        return at(self.pooled.keep, self.graphs.pairs.index)

    @cached_property
    def boundary(self) -> Tensor:
        """Numbers of the pairs with one end inside."""
        return (self.inside[0] != self.inside[1]).nonzero().squeeze(1)

    @cached_property
    def ends(self) -> Tensor:
        """The end of every boundary pair that is inside."""
        index = self.graphs.pairs.index.index_select(1, self.boundary)
        return torch.where(at(self.inside[0], self.boundary), index[0], index[1])

    @property
    def group(self) -> Tensor:
        """The graph of every boundary pair, told apart by whether its end is an anchor."""
        graphs, graph = self.graphs, at(self.graphs.pairs.graph, self.boundary)
        if graphs.anchor_order is None:
            return graph
        return graph * (1 + graphs.anchors_per_graph) + graphs.anchor_order[self.ends]

    def shuffled(self, pairs: Tensor, group: Tensor, generator: torch.Generator | None) -> Tensor:
        """A random order of pairs within their groups; without a generator always the same one."""
        if generator is not None:
            noise = torch.rand(pairs.shape, generator=generator).to(pairs.device).double()
        else:  # multiples of the golden ratio look random, and know nothing of other graphs
            own = self.graphs.pairs
            noise = ((pairs - own.start[own.graph[pairs]] + 1).double() * GOLDEN_RATIO).frac()
        return (group + noise).argsort()


@dataclass(frozen=True)
class Places:
    """Where nodes are in the mixup graphs."""

    source: Tensor  # places of the source's nodes, if they are inserted
    host: Tensor  # of the host's nodes; of removed ones that of the node that takes theirs
    origin: Tensor  # for every node its row in all host nodes followed by all source nodes
    inserted: Tensor  # number of inserted nodes of every graph
    sizes: Tensor  # number of nodes of every graph


@dataclass(frozen=True)
class HostPairs:
    """What is left of the hosts."""

    pairs: Tensor  # numbers of pairs of the hosts
    index: Tensor  # their nodes [2, P] in the mixup graphs
    boundary: Tensor  # which of them were boundary pairs


def swapped(
    source: Side, host: Side, places: Places, generator: torch.Generator | None, *, alike: bool
) -> HostPairs:
    """Boundary pairs of the host go to inner ends of those of the source, ``alike`` ones first."""
    gone = host.inside
    outer = (~(gone[0] | gone[1])).nonzero().squeeze(1)
    inner_end, partner = _meeting(source, host, generator, alike)
    host_index = at(places.host, host.graphs.pairs.index)
    joined = torch.where(
        gone.index_select(1, partner),
        at(places.source, inner_end),
        host_index.index_select(1, partner),
    )
    index = torch.cat([host_index.index_select(1, outer), joined], dim=1)
    boundary = torch.arange(outer.numel(), index.shape[1], device=outer.device)
    return HostPairs(torch.cat([outer, partner]), index, boundary)


def by_rank(source: Side, host: Side, places: Places) -> HostPairs:
    """Boundary pairs of the host go to the inserted node of the rank of the removed one."""
    gone, pairs, host_at = host.inside, host.graphs.pairs, places.host
    touched = gone[0] | gone[1]
    # A host pair goes with the removed subgraph, or if nothing was inserted to attach to.
    dropped = (places.inserted == 0)[pairs.graph]
    if host.graphs.schema is not None:
        host_at, alone = _ranked_in_type(source, host, places)
        dropped = dropped | alone[pairs.index].any(0)
    outer = (~gone.all(0) & ~(touched & dropped)).nonzero().squeeze(1)
    index = at(host_at, pairs.index).index_select(1, outer)
    return HostPairs(outer, index, at(touched, outer).nonzero().squeeze(1))


def _meeting(
    source: Side, host: Side, generator: torch.Generator | None, alike: bool
) -> tuple[Tensor, Tensor]:
    """Inner ends of the boundary edges of the source, and for each a boundary pair of its host."""
    # Both are shuffled, and meet in turns; those at an anchor meet those at the same anchor.
    groups = source.graphs.num_graphs * (1 + source.graphs.anchors_per_graph)
    keys = [(source.group, host.group, groups)]
    if source.graphs.schema is not None:
        # An edge of another type, to an end of the same, is better than none to the host.
        assert source.graphs.node_type is not None and host.graphs.node_type is not None
        edges = _edge_types(source, source.boundary), _edge_types(host, host.boundary)
        nodes = source.graphs.node_type[source.ends], host.graphs.node_type[host.ends]
        keys = [_told_apart(keys[0], *edges), _told_apart(keys[0], *nodes)]
    if alike:  # in edges and ends; in edges and ends outside; in edges; or not
        own, other = _kinds(source), _kinds(host)
        sums = [(own[:n].sum(0), other[:n].sum(0)) for n in (3, 2, 1)]
        keys = [k for key in keys for k in (*(_told_apart(key, *both) for both in sums), key)]
    ends, partners = [], []
    left = torch.arange(source.boundary.numel(), device=source.boundary.device)
    for ours_in, theirs_in, several in keys:
        order = source.shuffled(at(source.boundary, left), at(ours_in, left), generator)
        left = at(left, order)
        wanting = host.shuffled(host.boundary, theirs_in, generator)
        group = at(ours_in, left)
        supply = torch.bincount(group, minlength=several)
        demand = torch.bincount(theirs_in, minlength=several)
        turn = torch.arange(left.numel(), device=group.device)
        turn = turn - at(exclusive_cumsum(supply), group)
        wanted = at(demand, group)
        served = (wanted > 0).nonzero().squeeze(1)
        group, turn = at(group, served), at(turn, served)
        ends.append(at(source.ends, at(left, served)))
        place = at(exclusive_cumsum(demand), group) + turn % at(wanted, served)
        partners.append(at(host.boundary, at(wanting, place)))
        left = left[wanted == 0]
    return torch.cat(ends), torch.cat(partners)


Groups = tuple[Tensor, Tensor, int]
"""The group of every boundary pair of source and host, and the number of groups."""


def _told_apart(groups: Groups, own: Tensor, other: Tensor) -> Groups:
    """Groups cut by a property of their pairs, of the source's and of the host's."""
    ours, theirs, several = groups
    kinds, number = torch.unique(torch.cat([own, other]), return_inverse=True)
    mine, its = number.split([len(ours), len(theirs)])
    return ours * len(kinds) + mine, theirs * len(kinds) + its, several * max(1, len(kinds))


def _kinds(side: Side) -> Tensor:
    """Numbers that tell features of boundary edges, and of their ends outside and inside, apart."""
    graphs, pairs = side.graphs, side.graphs.pairs
    assert pairs is not None
    outside = pairs.index.index_select(1, side.boundary).sum(0) - side.ends
    edge = torch.maximum(at(pairs.forward, side.boundary), at(pairs.backward, side.boundary))
    node = _fingerprint(graphs.x, 1)
    kind = torch.zeros_like(node[:1]).expand(len(edge))
    if graphs.edge_attr is not None:
        kind = at(_fingerprint(graphs.edge_attr, 2), edge)
    return torch.stack([kind, at(node, outside), 3 * at(node, side.ends)])


def _fingerprint(rows: Tensor, start: int) -> Tensor:
    """A number for every row; equal ones have the same, others hardly ever."""
    rows = rows.unsqueeze(1).flatten(1).double()
    weight = torch.arange(1, rows.shape[1] + 1, device=rows.device).double() + start
    return (rows @ (weight * GOLDEN_RATIO).frac()).mul(2**32).round()


def merged(left: HostPairs, host: Side, total: int) -> tuple[Tensor, Tensor]:
    """Makes one pair of boundary pairs that fall together in ``total`` nodes; only they can.

    Returns nodes of the pairs, and their forward and backward edges ``[2, P]``, -1 for none, those
    of the first that has one.
    """
    index, place, pairs = left.index, left.boundary, host.graphs.pairs
    ways = torch.stack([at(pairs.forward, left.pairs), at(pairs.backward, left.pairs)])
    one, other = index.index_select(1, place)
    key = torch.minimum(one, other) * total + torch.maximum(one, other)
    if host.graphs.schema is not None and len(place):  # types tell pairs of the same nodes apart
        kinds = _edge_types(host, left.pairs[place])
        key = key * (int(kinds.max()) + 1) + kinds
    key, order = key.sort(stable=True)
    is_first = torch.ones_like(key, dtype=torch.bool)
    is_first[1:] = key[1:] != key[:-1]
    if bool(is_first.all()):
        return index, ways
    pair = at(place, order)
    if bool((ways < 0).any()):
        # The first of the pairs that fall together gets the directions that only others have.
        group, first = is_first.cumsum(0) - 1, pair[is_first]
        turned = index[0, pair] != index[0, first[group]]
        mine = torch.where(turned, ways[:, pair].flip(0), ways[:, pair])
        none = pair.numel()
        position = torch.where(mine < 0, none, torch.arange(none, device=pair.device))
        best = position.new_full((2, first.numel()), none)
        best = best.scatter_reduce(1, group.expand(2, -1), position, "amin")
        ways[:, first] = torch.cat([mine, mine.new_full((2, 1), -1)], dim=1).gather(1, best)
    once = torch.ones_like(ways[0], dtype=torch.bool)
    once[pair[~is_first]] = False
    kept = once.nonzero().squeeze(1)
    return index.index_select(1, kept), ways.index_select(1, kept)


# Heterogeneous graphs ##########################################################################


def _edge_types(side: Side, pairs: Tensor) -> Tensor:
    """Types of the edges of some pairs, seen from the end inside the subgraph; 0 is no edge."""
    graphs = side.graphs
    assert graphs.schema is not None and graphs.edge_type is not None
    kinds = torch.cat([graphs.edge_type + 1, graphs.edge_type.new_zeros(1)])  # -1 is no edge
    forward, backward = kinds[graphs.pairs.forward[pairs]], kinds[graphs.pairs.backward[pairs]]
    first_inside = side.inside[0][pairs]
    leaving = torch.where(first_inside, forward, backward)
    entering = torch.where(first_inside, backward, forward)
    return leaving * (len(graphs.schema.edge_types) + 1) + entering


def _ranked_in_type(source: Side, host: Side, places: Places) -> tuple[Tensor, Tensor]:
    """Places of hosts' nodes, by type and rank of removed ones; and which of these found none."""
    (ours, our_cell), (theirs, their_cell) = _ranked_nodes(source), _ranked_nodes(host)
    assert source.graphs.schema is not None
    cells = source.graphs.num_graphs * len(source.graphs.schema.node_types)
    supply, demand = (torch.bincount(cell, minlength=cells) for cell in (our_cell, their_cell))
    rank = torch.arange(len(theirs), device=theirs.device) - exclusive_cumsum(demand)[their_cell]
    count, start = supply[their_cell], exclusive_cumsum(supply)[their_cell]
    alone = torch.zeros_like(host.pooled.keep)
    alone[theirs[count == 0]] = True
    found = count > 0
    partner = ours[start[found] + rank[found] % count[found]]
    host_at = places.host.clone()
    host_at[theirs[found]] = places.source[partner]
    return host_at, alone


def _ranked_nodes(side: Side) -> tuple[Tensor, Tensor]:
    """Pooled nodes by graph, type and order, and their cell of graph and type."""
    graphs, order = side.graphs, side.pooled.order
    assert graphs.schema is not None and graphs.node_type is not None
    nodes = side.pooled.keep.nonzero().squeeze(1)
    cell = graphs.batch[nodes] * len(graphs.schema.node_types) + graphs.node_type[nodes]
    sequence = (cell * graphs.num_nodes + order[nodes]).argsort()
    return nodes[sequence], cell[sequence]
