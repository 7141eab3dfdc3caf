"""What a region relies on: other parts of its graph without which the prediction goes, too.

A region may look sufficient, since hosts happen to have what else is needed, and be necessary, and
still be half of a reason. So everything stays as it is but one part outside the region at a time,
in whose place come nodes of hosts that are unlike it and unlike the region.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from hpme.explainers.hpme.evidence import CARRIES, CONTRIBUTES, Trials, degrees
from hpme.explainers.hpme.method.boundary import GOLDEN_RATIO
from hpme.explainers.hpme.method.mixup import structural_mixup
from hpme.explainers.hpme.method.pool import by_boundary, top_nodes
from hpme.explainers.hpme.search.criterion import outcome, value_of
from hpme.explainers.hpme.transplants import Transplants
from hpme.explainers.shared.context import batches
from hpme.graphs import GraphBatch
from hpme.graphs.segment import rank_in_segment

ROUNDS = 3
"""Times that parts are looked for; each time, those found before belong to the region."""
SIFTED = 4
"""Hosts that say which parts are worth a closer look, which the others give."""
NEAR_WORST = 0.9
"""Of the worst part, what others lose to be taken at the same time."""
CANDIDATES = 32
"""Nodes outside the region that parts are made of, those that the pool ranks next."""


@dataclass(frozen=True)
class Parts:
    """Sets of nodes, each of one graph.

    Args:
        graph: Numbers of their graphs ``[U]``.
        nodes: Boolean ``[U, n]``, by the place of nodes in their graphs.
    """

    graph: Tensor
    nodes: Tensor

    def __getitem__(self, index: Tensor) -> Parts:
        return Parts(self.graph[index], self.nodes[index])

    def __len__(self) -> int:
        return len(self.graph)


@torch.no_grad()
def rest_of(
    transplants: Transplants, chosen: Tensor, carried: Callable[[Tensor, Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Nodes that pooled regions rely on, boolean ``[N]``, and what they carry together ``[count]``.

    Args:
        transplants: The graphs and their hosts, enough for intervals.
        chosen: Graphs that are asked about, boolean ``[count]``.
        carried: Share of the way that nodes ``[N]`` of some graphs ``[count]`` carry.
    """
    kept = transplants.pooled.clone()
    together = torch.full(chosen.shape, torch.nan, dtype=torch.double, device=chosen.device)
    for _ in range(ROUNDS):
        if not bool(chosen.any()):
            break
        parts = parts_of(transplants, kept, chosen)
        graph, place = _flat(parts[needed(transplants, parts, kept)])
        if not len(graph):
            break
        kept[transplants.graphs.ptr[graph] + place] = True
        found = torch.zeros_like(chosen).index_fill(0, graph, True)
        together = torch.where(found, carried(kept, found).to(together), together)
        chosen = found & (together < CARRIES)
    return kept & ~transplants.pooled, together


def _flat(parts: Parts) -> tuple[Tensor, Tensor]:
    unit, place = parts.nodes.nonzero().unbind(1)
    return parts.graph[unit], place


def parts_of(transplants: Transplants, kept: Tensor, chosen: Tensor) -> Parts:
    """Single nodes that are not kept, and all of a graph that are alike.

    Nodes are alike if their features are the same and, of those next to kept nodes, these are; of
    others, all their neighbours. What is there twice may be needed once, which no single one shows.
    """
    graphs, count = transplants.graphs, transplants.count
    allowed = ~kept & transplants.of_graphs(chosen)
    rank = torch.where(allowed, transplants.score[0], transplants.score.min() - 1)
    limit = torch.full_like(graphs.sizes, CANDIDATES + graphs.anchors_per_graph)
    allowed &= top_nodes(rank.unsqueeze(0), graphs, limit).keep[0]
    nodes = allowed.nonzero().view(-1)
    place, width = transplants.node_number[nodes], int(graphs.sizes[:count].max())
    single = torch.zeros(len(nodes), width, dtype=torch.bool, device=nodes.device)
    single[torch.arange(len(nodes), device=nodes.device), place] = True
    kind = _kinds(graphs)
    source, target = graphs.edge_index
    hashed = (kind + 1) * 2_654_435_761 % 2_147_483_647
    near_kept = torch.zeros_like(kind).index_add(0, target, kept[source].long())
    counts = kept[source] | (near_kept == 0)[target]
    around = torch.zeros_like(kind).index_add(0, target, hashed[source] * counts)
    like = torch.stack([graphs.batch, kind, around, (near_kept > 0).long()], dim=1)[nodes]
    groups, member = torch.unique(like, dim=0, return_inverse=True)
    several = torch.zeros(len(groups), width, dtype=torch.bool, device=nodes.device)
    several[member, place] = True
    more = several.sum(1) > 1
    return Parts(
        torch.cat([graphs.batch[nodes], groups[more, 0]]), torch.cat([single, several[more]])
    )


def _kinds(graphs: GraphBatch) -> Tensor:
    """Number of the features of every node, and of its type."""
    seen = graphs.x.flatten(1).double()
    if graphs.node_type is not None:
        seen = torch.cat([seen, graphs.node_type.double().unsqueeze(1)], dim=1)
    if not seen.shape[1]:
        return torch.zeros_like(graphs.batch)
    return torch.unique(seen, dim=0, return_inverse=True)[1]


def needed(transplants: Transplants, parts: Parts, kept: Tensor) -> Tensor:
    """Numbers of parts without which a good share of the way is lost, beyond random ones."""
    if not len(parts):
        return parts.graph
    few = slice(0, SIFTED)
    lost = lost_shares(transplants, parts, kept, few, beyond=False)[:, 0]
    alone = _most_of_one(parts, lost)
    promising = (lost - alone >= CONTRIBUTES).nonzero().view(-1)
    if not len(promising):
        return promising
    others = slice(SIFTED, None) if len(transplants.hosts) > 2 * SIFTED else slice(None)
    mean, low, _ = lost_shares(transplants, parts[promising], kept, others, beyond=True).unbind(1)
    mean, graph = torch.where(low > 0, mean, 0.0), parts.graph[promising]
    worst = mean.new_zeros(transplants.count).scatter_reduce(0, graph, mean, "amax")
    return promising[mean >= (NEAR_WORST * worst).clamp(min=CONTRIBUTES)[graph]]


def _most_of_one(parts: Parts, lost: Tensor) -> Tensor:
    """The most that is lost without one of the nodes of parts of several; 0 for single nodes."""
    single = parts.nodes.sum(1) == 1
    table = lost.new_zeros(int(parts.graph.max()) + 1 if len(parts) else 0, parts.nodes.shape[1])
    graph, place = _flat(parts[single])
    table[graph, place] = lost[single]
    return torch.where(single, 0.0, (table[parts.graph] * parts.nodes).amax(1).clamp(min=0))


def lost_shares(
    transplants: Transplants, parts: Parts, kept: Tensor, hosts: slice, *, beyond: bool
) -> Tensor:
    """Share of the way lost without parts, and its interval ``[U, 3]``.

    Args:
        transplants: The graphs and their hosts.
        parts: The parts.
        kept: Nodes that neutral ones must not be like.
        hosts: Which of the hosts.
        beyond: Whether that of random nodes is subtracted, as many and outside part and region.
    """
    context, graph = transplants.context, parts.graph
    own = value_of(context, context.values[graph].unsqueeze(0), graph)[0]
    numbers = transplants.hosts[hosts][:, graph]
    removed = _without(transplants, parts, kept, numbers)
    spared = own.expand_as(removed)
    if beyond:
        spared = _without(transplants, parts, kept, numbers, random=True)
    nothing = torch.full_like(removed, torch.nan)
    values = value_of(context, context.values[numbers], graph)
    bounded = context.task.classification
    return degrees(Trials(own, values, nothing, nothing, removed, spared, bounded)).lost


def _without(
    transplants: Transplants, parts: Parts, kept: Tensor, hosts: Tensor, *, random: bool = False
) -> Tensor:
    """Outputs ``[D, U]`` of graphs with neutral nodes of hosts ``[D, U]`` in place of parts."""
    context, store, kind = transplants.context, transplants.context.store, _kinds(transplants.graphs)
    kinds = int(kind.max()) + 1
    draws, units = hosts.shape
    draw = torch.arange(1, draws + 1, device=hosts.device).repeat_interleave(units)
    unit, host = torch.arange(units, device=hosts.device).repeat(draws), hosts.flatten()
    size = max(1, transplants.mix.max_nodes // max(1, int(store.sizes.double().mean())))
    found = []
    for rows in batches(torch.arange(len(unit), device=hosts.device), size):
        give = store.batch(parts.graph[unit[rows]], with_pairs=True)
        take = store.batch(host[rows], with_pairs=True)
        assert give.node_ids is not None and take.node_ids is not None
        gone = parts.nodes[unit[rows]][give.batch, _places(give)]
        own = kept[give.node_ids]
        count = torch.bincount(give.batch[gone], minlength=len(rows))
        if random:
            noise = _noise(give, draw[rows]) - 2.0 * own - gone.double()
            gone = rank_in_segment(noise, give.batch, give.ptr) < count[give.batch]
            gone &= ~_anchors(give)
        like = torch.zeros(len(rows), kinds, dtype=torch.bool, device=hosts.device)
        like[give.batch[gone | own], kind[give.node_ids[gone | own]]] = True
        alike = like[take.batch, kind[take.node_ids]]
        noise = _noise(take, draw[rows]) - alike.double() - 2.0 * _anchors(take)
        neutral = rank_in_segment(noise, take.batch, take.ptr) < count[take.batch]
        neutral &= ~_anchors(take)
        mix = structural_mixup(
            give,
            by_boundary(~gone.unsqueeze(0), give, None)[0],
            take,
            by_boundary(~neutral.unsqueeze(0), take, None)[0],
            None,
            transplants.mix.attach,
        )
        found.append(context.predict(mix.graphs))
    output = torch.cat(found)
    graph = parts.graph[unit]
    return outcome(context, output.view(1, len(unit), -1), graph)[0].view(draws, units)


def _places(graphs: GraphBatch) -> Tensor:
    return torch.arange(graphs.num_nodes, device=graphs.batch.device) - graphs.ptr[graphs.batch]


def _noise(graphs: GraphBatch, draw: Tensor) -> Tensor:
    """Numbers from 0 to 1 that look random, by node number and draw alone."""
    step = (GOLDEN_RATIO * draw**1.5)[graphs.batch]
    return ((_places(graphs) + 1).double() * step).frac()


def _anchors(graphs: GraphBatch) -> Tensor:
    if graphs.anchor_order is None:
        return torch.zeros_like(graphs.batch, dtype=torch.bool)
    return graphs.anchor_order < graphs.anchors_per_graph
