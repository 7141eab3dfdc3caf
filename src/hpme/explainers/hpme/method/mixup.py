r"""Structural mixup (Eq. str_mixup): the pooled subgraph of :math:`G'` gives way to that of :math:`G`."""  # noqa: E501

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from hpme.explainers.hpme.method.boundary import Places, Side, by_rank, merged, swapped
from hpme.explainers.hpme.method.pool import Selection
from hpme.graphs import GraphBatch
from hpme.graphs.batch import both
from hpme.graphs.segment import at, exclusive_cumsum, segment_mean, segment_sum

Attach = Literal["kind", "swap", "rank"]
POSITION = "pos"
"""PyG's name for where nodes are in space."""


@dataclass(frozen=True)
class Mix:
    r"""A batch of mixup graphs :math:`G^{(mix)}`."""

    graphs: GraphBatch  # edges come as all forward edges, then all backward edges
    transplanted: Tensor  # boolean pair mask, true inside the inserted subgraph
    pair_index: Tensor  # connected pairs [2, P] of the mixup graphs
    pair_of_edge: Tensor  # pair number of every edge
    origin: Tensor  # for every node its row in all host nodes followed by all source nodes

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
      is used once, so inserted nodes have as many edges as they had: if the host has more, the rest
      is dropped; if it has fewer, they serve again.
    * ``attach="kind"``: the same, but those meet first whose edges and ends have equal features.
    * ``attach="rank"``: to the inserted node of the same rank by :func:`by_boundary`, which is the
      paper's equation if both subgraphs have :math:`m` nodes; else rank :math:`k` goes to
      :math:`k \bmod m`, and pairs that fall together are merged.

    Anchors must be among the chosen and among the removed nodes. The anchors of the source take the
    place of those of the host, the first that of the first: boundary edges at an anchor of the
    host are attached to that of the source, and only they are. Further attributes of nodes and
    edges move with them; those of graphs are the source's, which is explained. Positions ``pos`` in
    space move as a rigid body, see :func:`aligned`.

    In heterogeneous graphs, boundary edges meet boundary edges of the same type and direction, or
    else such that lost an end of the same type, and ranks are those among the nodes of a type, so
    every edge joins nodes of its own types; what finds no counterpart is dropped.

    Both batches need their pairs.
    """  # noqa: E501
    assert source.pairs is not None and host.pairs is not None
    places = _placed(source, chosen, host, removed)
    ours, theirs = Side(source, chosen), Side(host, removed)
    # S'A*S'^T, the inserted subgraph: pairs of the source with both ends among the chosen nodes.
    inner = (ours.inside[0] & ours.inside[1]).nonzero().squeeze(1)
    # A' - S'(A')*S'^T, what is left of the host: its other pairs, boundary edges attached anew.
    if attach == "rank":
        left = by_rank(ours, theirs, places)
    else:
        left = swapped(ours, theirs, places, generator, alike=attach == "kind")
    outer_index, outer_ways = merged(left, theirs, len(places.origin))
    # Their sum. Edges are counted through all of the source, then all of the host.
    inner_index = at(places.source, source.pairs.index.index_select(1, inner))
    inner_ways = at(source.pairs.forward, inner), at(source.pairs.backward, inner)
    outer_ways = torch.where(outer_ways < 0, outer_ways, outer_ways + source.edge_index.shape[1])
    pair_index = torch.cat([inner_index, outer_index], dim=1)
    forward, backward = (torch.cat(both) for both in zip(inner_ways, outer_ways, strict=True))
    there, back = ((ways >= 0).nonzero().squeeze(1) for ways in (forward, backward))
    ends = pair_index.index_select(1, there), pair_index.index_select(1, back).flip(0)
    edge_index, pair_of_edge = torch.cat(ends, dim=1), torch.cat([there, back])
    edges = torch.cat([at(forward, there), at(backward, back)])
    transplanted = torch.arange(pair_index.shape[1], device=edges.device) < inner.numel()
    if POSITION in source.node and POSITION in host.node:
        moved = aligned(source, chosen, host, removed)
        source = replace(source, node={**source.node, POSITION: moved})
    own, other = source.groups(), host.groups()
    graphs = GraphBatch.of(
        both(other["node"], own["node"], places.origin),
        both(own["edge"], other["edge"], edges),
        edge_index=edge_index,
        batch=torch.repeat_interleave(places.sizes, output_size=len(places.origin)),
        num_graphs=source.num_graphs,
        anchors=None if source.anchors is None else places.source[source.anchors],
        graph=source.graph,
        schema=source.schema,
    )
    return Mix(graphs, transplanted, pair_index, pair_of_edge, places.origin)


def aligned(source: GraphBatch, chosen: Selection, host: GraphBatch, removed: Selection) -> Tensor:
    r"""Positions of source nodes, every graph moved so that its chosen region fits the removed one.

    The centroids fall together, and a proper rotation (no mirror image: that would be another
    molecule) brings chosen nodes as near as possible to the removed ones of the same rank (Kabsch).
    """
    ours, theirs = source.node[POSITION], host.node[POSITION]
    own, other = (
        segment_mean(pos[part.keep].double(), graphs.batch[part.keep], graphs.num_graphs)
        for pos, part, graphs in ((ours, chosen, source), (theirs, removed, host))
    )
    centred = ours.double() - own[source.batch]
    # Removed nodes by their ranks; where there is none of a rank, zeros leave it out of account.
    width = int(torch.maximum(source.sizes, host.sizes).max()) if source.num_graphs else 0
    table = theirs.new_zeros(host.num_graphs * width, theirs.shape[1], dtype=torch.double)
    slot = (host.batch * width + removed.order)[removed.keep]
    table[slot] = (theirs.double() - other[host.batch])[removed.keep]
    slot = (source.batch * width + chosen.order)[chosen.keep]
    products = centred[chosen.keep].unsqueeze(2) * table[slot].unsqueeze(1)
    covariance = segment_sum(products, source.batch[chosen.keep], source.num_graphs)
    left, _, right = torch.linalg.svd(covariance)
    proper = (left @ right).det().sign().view(-1, 1, 1)
    turn = torch.cat([left[:, :, :-1], left[:, :, -1:] * proper], dim=2) @ right
    moved = (centred.unsqueeze(1) @ turn[source.batch]).squeeze(1) + other[source.batch]
    fitted: Tensor = moved.to(ours)
    return fitted


def _placed(source: GraphBatch, chosen: Selection, host: GraphBatch, removed: Selection) -> Places:
    """Every mixup graph lists what is left of the host, then the inserted nodes in their order."""
    rest = (~removed.keep).nonzero().squeeze(1)
    inserted = chosen.keep.nonzero().squeeze(1)
    rest_count = torch.bincount(at(host.batch, rest), minlength=host.num_graphs)
    count = torch.bincount(at(source.batch, inserted), minlength=source.num_graphs)
    first_slot = (rest_count + count).cumsum(0) - count
    source_at = at(first_slot, source.batch) + chosen.order
    host_at = at(first_slot, host.batch) + removed.order % at(count.clamp(min=1), host.batch)
    before = at(exclusive_cumsum(count), at(host.batch, rest))
    host_at.scatter_(0, rest, torch.arange(rest.numel(), device=rest.device) + before)
    origin = rest.new_empty(rest.numel() + inserted.numel())
    origin.scatter_(0, at(host_at, rest), rest)
    origin.scatter_(0, at(source_at, inserted), host.num_nodes + inserted)
    return Places(source_at, host_at, origin, count, rest_count + count)


def mix_mask(weight: Tensor, transplanted: Tensor, *, mixup: bool = True) -> Tensor:
    r""":math:`\mathbf{M}^{(mix)} = (1 - \mathbf{W}) \odot (\mathbf{A}' - \mathbf{S}'(\mathbf{A}')^*\mathbf{S}'^\top) + \mathbf{W} \odot (\mathbf{S}'\mathbf{A}^*\mathbf{S}'^\top)`.

    An edge of the inserted subgraph weighs :math:`\hat{w}_{ij}`, an edge of the host what that
    leaves.

    Args:
        weight: :math:`\hat{w}_{ij}` of every pair, or its expectation :math:`p_{ij}`.
        transplanted: Boolean pair mask :math:`\tilde{\mathbf{M}}` of the inserted subgraph.
        mixup: If false, edges outside the inserted subgraph weigh nothing (the paper's w/o Mix).
    """  # noqa: E501
    outside = 1 - weight if mixup else torch.zeros_like(weight)
    return torch.where(transplanted, weight, outside)
