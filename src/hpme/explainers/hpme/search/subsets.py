"""Search over node subsets: which subset of each graph carries its prediction elsewhere?"""

from __future__ import annotations

import torch
from torch import Tensor

from hpme.explainers.hpme.method.pool import Selection, by_boundary, top_nodes
from hpme.explainers.hpme.search.criterion import bounded_loss
from hpme.explainers.hpme.search.distil import standardise
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.graphs import GraphBatch
from hpme.graphs.segment import rank_in_segment


def propose_subsets(mix: HardMix, score: Tensor, count: int) -> Tensor:
    """Proposals ``[count, N]``, each of the pooled size.

    Four fifths grow at random along edges, the others follow ``score`` and are free of edges; the
    last is the selection of ``score`` itself. All hold the anchors, if any.
    """
    graphs, m = mix.graphs, mix.m
    number = torch.arange(count, device=score.device)
    free = number >= 0.8 * count
    guide = torch.where(free, 1.0 + (number % 2 == 0), 0.0)
    die = torch.randint(6, (count, graphs.num_graphs), generator=mix.generator).to(m)
    seeds = torch.where(free.unsqueeze(1), m, (die - 2).clamp(min=1))
    guided = standardise(score.unsqueeze(0), graphs) * guide.unsqueeze(1)
    keep = _grow(guided, graphs, m, seeds, mix.generator)
    keep[-1] = top_nodes(score.unsqueeze(0), graphs, m).keep[0]
    return keep


def random_subset(mix: HardMix) -> Selection:
    """A region of every graph, grown at random along edges to the pooled size."""
    nothing = mix.features.new_zeros(1, mix.graphs.num_nodes)
    keep = _grow(nothing, mix.graphs, mix.m, torch.ones_like(mix.m), mix.generator)
    return by_boundary(keep, mix.graphs, mix.generator)


def _grow(
    score: Tensor, graphs: GraphBatch, m: Tensor, seeds: Tensor, generator: torch.Generator
) -> Tensor:
    """Samples ``m`` nodes by the softmax of ``score``; all but the first ``seeds`` touch others.

    Anchors are the first nodes, together they count as one. Large subsets take several nodes at a
    time, so the number of steps is bounded.
    """
    source, target = graphs.edge_index
    rows = torch.arange(score.shape[0], device=score.device).unsqueeze(1)
    segment = (rows * graphs.num_graphs + graphs.batch).flatten()
    ptr = (rows * graphs.num_nodes + graphs.ptr).flatten()
    keep = torch.zeros_like(score, dtype=torch.bool)
    if graphs.anchors is not None:
        keep[:, graphs.anchors.flatten()] = True
        seeds = seeds + graphs.anchors_per_graph - 1
    # Where there are no edges nothing touches another, and any node may be the next.
    seeds = torch.where(graphs.edge_counts == 0, m, seeds)
    steps = min(int(m.max()), 12)
    for step in range(1, steps + 1):
        quota = (m * step / steps).ceil().long()
        size = score.new_zeros(score.shape[0], graphs.num_graphs).index_add(
            1, graphs.batch, keep.float()
        )
        missing = quota - size
        touching = torch.zeros_like(score).index_add(
            1, target, keep.index_select(1, source).to(score.dtype)
        )
        free = size < seeds
        allowed = ~keep & ((touching > 0) | free.index_select(1, graphs.batch))
        uniform = torch.rand(score.shape, generator=generator).clamp(1e-6, 1 - 1e-6).to(score)
        value = torch.where(allowed, score - (-uniform.log()).log(), -1e9)
        rank = rank_in_segment(value.flatten(), segment, ptr).view_as(value)
        keep |= allowed & (rank < missing.index_select(1, graphs.batch))
    return keep


@torch.no_grad()
def search_subsets(mix: HardMix, score: Tensor, subsets: int) -> tuple[Tensor, Tensor]:
    """One round: proposes subsets, inserts each into another graph, labels the nodes.

    Inserted into a host whose region (by ``score``) was removed, a good subset brings the
    prediction of its graph. All subsets of all graphs are one batch.

    Returns:
        Labels ``[N]``, the share of the best subsets that hold a node minus that of all proposals,
        and how much better the best subsets of a graph are than its average one, ``[B]``.
    """
    graphs = mix.graphs
    keep = propose_subsets(mix, score, subsets)
    region = mix.select(score.unsqueeze(0))
    rows = torch.zeros(subsets, dtype=torch.long, device=score.device)
    own = torch.arange(graphs.num_graphs, device=score.device)
    ids, hosts = (row.expand(subsets, -1) for row in (own, mix.draw(1)[0]))
    inserted = by_boundary(keep, graphs, mix.generator)
    loss = bounded_loss(mix.context, mix.predict(ids, inserted, hosts, region[rows]), ids)
    best = loss <= loss.kthvalue(max(2, subsets // 8), dim=0).values
    share, kept = best / best.sum(0), keep.to(score.dtype)
    frequency = (share.index_select(1, graphs.batch) * kept).sum(0)
    gain = (loss.mean(0) - (share * loss).sum(0)).clamp(min=0) + 1e-3
    return frequency - kept.mean(0), gain
