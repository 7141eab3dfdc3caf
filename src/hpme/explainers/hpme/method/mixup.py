r"""Structural mixup (Eq. str_mixup): the pooled subgraph of :math:`G'` gives way to that of :math:`G`."""  # noqa: E501

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from hpme.explainers.hpme.method.selection import Selection
from hpme.graphs import GraphBatch
from hpme.graphs.segment import at, exclusive_cumsum

Attach = Literal["swap", "rank"]
GOLDEN_RATIO = 0.6180339887498949


@dataclass(frozen=True)
class Mix:
    r"""A batch of mixup graphs :math:`G^{(mix)}`.

    Args:
        graphs: The mixup graphs; edges come as all forward edges, then all backward edges.
        transplanted: Boolean pair mask :math:`\tilde{M}`, true inside the inserted subgraph.
        pair_index: Connected pairs ``[2, P]`` of the mixup graphs.
        pair_of_edge: Pair number of every edge.
        origin: For every node its row in all host nodes followed by all source nodes.
    """

    graphs: GraphBatch
    transplanted: Tensor
    pair_index: Tensor
    pair_of_edge: Tensor
    origin: Tensor

    def per_node(self, host_values: Tensor, source_values: Tensor) -> Tensor:
        """Values of host and source nodes at the nodes of the mixup graphs."""
        return torch.cat([host_values, source_values]).index_select(0, self.origin)

    def per_edge(self, pair_values: Tensor) -> Tensor:
        """Values of pairs at their edges."""
        return pair_values.index_select(0, self.pair_of_edge)


def structural_mixup(
    source: GraphBatch,
    chosen: Selection,
    host: GraphBatch,
    removed: Selection,
    generator: torch.Generator | None,
    attach: Attach = "swap",
) -> Mix:
    r"""Puts the ``chosen`` subgraph of source :math:`i` in place of the ``removed`` one of host :math:`i`.

    Inside the subgraph and outside it, this is Eq. str_mixup,
    :math:`\mathbf{A}^{(mix)} = \mathbf{A}' - \mathbf{S}'(\mathbf{A}')^*\mathbf{S}'^\top +
    \mathbf{S}'\mathbf{A}^*\mathbf{S}'^\top`. What differs is how the two are joined, that is where a
    boundary edge of the host, one that lost its inner end, is attached:

    * ``attach="swap"``: to the inner end of a boundary edge of the source, at random. Each of these
      is used once: if the host has more, the rest is dropped; if it has fewer, they serve again.
      Inserted nodes have as many edges as they had, so the subgraph looks to the target as it did
      at home.
    * ``attach="rank"``: to the inserted node of the same rank (see
      :func:`~hpme.explainers.hpme.method.selection.by_boundary`), which is the
      paper's equation if both subgraphs have :math:`m` nodes. If they differ in size, rank
      :math:`k` goes to :math:`k \bmod m`, and pairs that fall together are merged.

    Anchors must be among the chosen and among the removed nodes. The anchors of the source take the
    place of those of the host, the first that of the first: boundary edges at an anchor of the
    host are attached to that of the source, and only they are. Further attributes of nodes and
    edges move with them; those of graphs are the source's, which is explained.

    Where graphs have types, boundary edges meet boundary edges of the same type and direction, or
    else such that lost an end of the same type, and ranks are those among the nodes of a type, so
    every edge joins nodes of its own types; what finds no counterpart is dropped.

    Both batches need their pairs.
    """  # noqa: E501
    assert source.pairs is not None and host.pairs is not None
    rest = (~removed.keep).nonzero().squeeze(1)
    inserted = chosen.keep.nonzero().squeeze(1)
    rest_count = torch.bincount(at(host.batch, rest), minlength=host.num_graphs)
    count = torch.bincount(at(source.batch, inserted), minlength=source.num_graphs)
    total = rest.numel() + inserted.numel()
    first_slot = (rest_count + count).cumsum(0) - count
    source_at = at(first_slot, source.batch) + chosen.order
    host_at = at(first_slot, host.batch) + removed.order % at(count.clamp(min=1), host.batch)
    before = at(exclusive_cumsum(count), at(host.batch, rest))
    host_at.scatter_(0, rest, torch.arange(rest.numel(), device=rest.device) + before)
    origin = torch.empty(total, dtype=torch.long, device=rest.device)
    origin.scatter_(0, at(host_at, rest), rest)
    origin.scatter_(0, at(source_at, inserted), host.num_nodes + inserted)

    homeless = torch.zeros_like(removed.keep)
    if attach == "rank" and host.schema is not None:
        host_at, homeless = _ranked_in_type(source, chosen, host, removed, source_at, host_at)

    ours, gone = at(chosen.keep, source.pairs.index), at(removed.keep, host.pairs.index)
    inner = (ours[0] & ours[1]).nonzero().squeeze(1)
    touched = gone[0] | gone[1]
    host_index = at(host_at, host.pairs.index)
    if attach == "swap":
        outer = (~touched).nonzero().squeeze(1)
        inner_end, partner = _swap_boundary(source, ours, host, gone, generator)
        joined = torch.where(
            gone.index_select(1, partner),
            at(source_at, inner_end),
            host_index.index_select(1, partner),
        )
        outer_index = torch.cat([host_index.index_select(1, outer), joined], dim=1)
        boundary = torch.arange(outer.numel(), outer_index.shape[1], device=outer.device)
        outer = torch.cat([outer, partner])
    else:
        # A host pair goes with the removed subgraph, or if nothing was inserted to attach to.
        empty = (count == 0)[host.pairs.graph]
        empty = empty | homeless[host.pairs.index].any(0)
        outer = (~gone.all(0) & ~(touched & empty)).nonzero().squeeze(1)
        outer_index = host_index.index_select(1, outer)
        boundary = at(touched, outer).nonzero().squeeze(1)
    ways = torch.stack([at(host.pairs.forward, outer), at(host.pairs.backward, outer)])
    kinds = None if host.schema is None else _signature(host, outer[boundary], gone[0])
    outer_index, ways = _merge(outer_index, ways, boundary, total, kinds)
    ways = torch.where(ways < 0, ways, ways + source.edge_index.shape[1])

    kept_index = at(source_at, source.pairs.index.index_select(1, inner))
    pair_index = torch.cat([kept_index, outer_index], dim=1)
    # Edge of every pair in the row of all source edges followed by all host edges.
    forward = torch.cat([at(source.pairs.forward, inner), ways[0]])
    backward = torch.cat([at(source.pairs.backward, inner), ways[1]])
    forward_pairs = (forward >= 0).nonzero().squeeze(1)
    backward_pairs = (backward >= 0).nonzero().squeeze(1)
    edges = torch.cat([at(forward, forward_pairs), at(backward, backward_pairs)])
    graphs = GraphBatch(
        x=torch.cat([host.x, source.x]).index_select(0, origin),
        edge_index=torch.cat(
            [
                pair_index.index_select(1, forward_pairs),
                pair_index.index_select(1, backward_pairs).flip(0),
            ],
            dim=1,
        ),
        batch=torch.repeat_interleave(rest_count + count, output_size=total),
        num_graphs=source.num_graphs,
        edge_attr=_carry(source.edge_attr, host.edge_attr, edges),
        edge_weight=_carry(source.edge_weight, host.edge_weight, edges),
        anchors=None if source.anchors is None else source_at[source.anchors],
        node={
            name: torch.cat([host.node[name], value]).index_select(0, origin)
            for name, value in source.node.items()
            if name in host.node
        },
        edge={
            name: torch.cat([value, host.edge[name]]).index_select(0, edges)
            for name, value in source.edge.items()
            if name in host.edge
        },
        graph=source.graph,
        schema=source.schema,
    )
    transplanted = torch.zeros(pair_index.shape[1], dtype=torch.bool, device=pair_index.device)
    transplanted[: inner.numel()] = True
    pair_of_edge = torch.cat([forward_pairs, backward_pairs])
    return Mix(graphs, transplanted, pair_index, pair_of_edge, origin)


def _swap_boundary(
    source: GraphBatch,
    ours: Tensor,
    host: GraphBatch,
    gone: Tensor,
    generator: torch.Generator | None,
) -> tuple[Tensor, Tensor]:
    """Inner ends of the boundary edges of the source, and for each a boundary pair of its host.

    Boundary edges of source and host are shuffled; the first of one meets the first of the other,
    and so on in turns. Those at an anchor meet those at the same anchor, all others meet others.
    Which ends of all pairs are chosen and which are removed say ``ours`` and ``gone``, ``[2, P]``.
    """
    assert source.pairs is not None and host.pairs is not None
    offered = (ours[0] != ours[1]).nonzero().squeeze(1)
    asking = (gone[0] != gone[1]).nonzero().squeeze(1)
    inner_end = _end(source, offered, ours)
    lost_end = _end(host, asking, gone)
    ours_of, theirs_of = _group(source, offered, inner_end), _group(host, asking, lost_end)
    groups = source.num_graphs * (1 + source.anchors_per_graph)
    keys: list[tuple[Tensor, Tensor, int]] = [(ours_of, theirs_of, groups)]
    if source.schema is not None:
        assert source.node_type is not None and host.node_type is not None
        # An edge of another type will do if its end is of the same type: cut off from the host, a
        # subgraph would look to the target as it never did.
        kinds = (
            _numbered(_signature(source, offered, ours[0]), _signature(host, asking, gone[0])),
            _numbered(source.node_type[inner_end], host.node_type[lost_end]),
        )
        keys = [
            (ours_of * several + own, theirs_of * several + other, groups * several)
            for own, other, several in kinds
        ]
    ends, partners = [], []
    left = torch.arange(offered.numel(), device=offered.device)
    for ours_in, theirs_in, several in keys:
        left = at(left, _shuffle(source, at(offered, left), at(ours_in, left), generator))
        wanting = _shuffle(host, asking, theirs_in, generator)
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
        partners.append(at(asking, at(wanting, place)))
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


def _numbered(ours: Tensor, theirs: Tensor) -> tuple[Tensor, Tensor, int]:
    """Numbers of the kinds that there are, in place of theirs among all, and how many."""
    there = torch.bincount(torch.cat([ours, theirs])) > 0
    number = there.cumsum(0) - 1
    return number[ours], number[theirs], int(there.sum())


def _signature(graphs: GraphBatch, pairs: Tensor, first_inside: Tensor) -> Tensor:
    """Types of the edges of some pairs, seen from the end inside the subgraph; 0 is no edge.

    Args:
        graphs: Graphs with types.
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
    source_at: Tensor,
    host_at: Tensor,
) -> tuple[Tensor, Tensor]:
    """Places of removed nodes: those of the inserted nodes of the same type and rank in it.

    Returns:
        Places of all host nodes, and which of the removed ones found none.
    """
    ours, theirs = _ranks(source, chosen), _ranks(host, removed)
    per_cell = torch.bincount(ours.cell, minlength=ours.cells)
    count, start = per_cell[theirs.cell], exclusive_cumsum(per_cell)[theirs.cell]
    homeless = torch.zeros_like(removed.keep)
    homeless[theirs.nodes[count == 0]] = True
    found = count > 0
    partner = ours.nodes[start[found] + theirs.rank[found] % count[found]]
    host_at = host_at.clone()
    host_at[theirs.nodes[found]] = source_at[partner]
    return host_at, homeless


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


def _merge(
    index: Tensor, ways: Tensor, place: Tensor, total: int, kinds: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Makes one pair of boundary pairs that fall together; only they can.

    Args:
        index: Nodes ``[2, P]`` of the pairs.
        ways: Forward and backward edge ``[2, P]`` of the pairs, -1 for none. In each direction
            the first pair that has an edge gives it.
        place: Which of them are boundary pairs.
        total: Number of nodes.
        kinds: What tells boundary pairs of the same nodes apart, if anything does.
    """
    one, other = index.index_select(1, place)
    key = torch.minimum(one, other) * total + torch.maximum(one, other)
    if kinds is not None and len(kinds):
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


def _carry(ours: Tensor | None, theirs: Tensor | None, edges: Tensor) -> Tensor | None:
    if ours is None or theirs is None:
        return None
    return torch.cat([ours, theirs]).index_select(0, edges)
