"""The frozen model on graphs with edges deleted, many replicas of each graph at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hpme.graphs import GraphStore, Pairs
from hpme.graphs.perturb import chunks, keep_edges
from hpme.graphs.segment import concatenated_ranges, exclusive_cumsum
from hpme.models.adapter import ModelAdapter
from hpme.models.task import check_rows


@dataclass(frozen=True)
class Replicas:
    """Several graphs, some of them repeatedly, seen as their pairs.

    Args:
        ids: Graph number of every replica.
        pairs: Number of every pair in the table of all graphs.
        owner: Replica of every pair, non-decreasing.
        ptr: Position of the first pair of every replica.
    """

    ids: Tensor
    pairs: Tensor
    owner: Tensor
    ptr: Tensor


Keep = Callable[[Replicas], Tensor]
"""Which pairs of replicas stay, as a boolean tensor."""


def replicate(table: Pairs, ids: Tensor) -> Replicas:
    """The pairs of replicas of the graphs with the given numbers."""
    pairs, owner = concatenated_ranges(table.start[ids], table.counts[ids])
    return Replicas(ids, pairs, owner, exclusive_cumsum(table.counts[ids]))


def outputs(
    adapter: ModelAdapter,
    store: GraphStore,
    table: Pairs,
    keep: Keep,
    samples: int = 1,
    *,
    drop_isolated: bool = False,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Graph numbers and outputs of replicas, all replicas of the first graph first.

    Deletion is real: no model sees a deleted edge. How the replicas are cut into forward passes
    does not change what ``keep`` draws, as long as it draws one number per pair.

    Args:
        adapter: Calls the model.
        store: The graphs.
        table: Their pairs.
        keep: Which pairs of each replica stay.
        samples: Replicas per graph.
        drop_isolated: See :func:`~hpme.graphs.perturb.keep_edges`.
    """
    ids = torch.arange(len(store), device=store.sizes.device).repeat_interleave(samples)
    for part in chunks(store, ids):
        replicas = replicate(table, part)
        edges, owner = store.edges_of(part)
        of_edge = table.of_edge[edges]
        shift = (replicas.ptr - table.start[part])[owner]
        place = torch.where(of_edge < 0, of_edge, of_edge + shift)
        kept = replace(table, of_edge=place).per_edge(keep(replicas), loops=True)
        graphs = keep_edges(store.batch(part), kept, drop_isolated=drop_isolated)
        output = adapter.predict(graphs)
        check_rows(output, part.numel())
        yield part, output
