"""How good a pool is, without ground truth: does the hard mix keep the prediction?"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hpme.data.batch import GraphBatch
from hpme.explainers.context import TargetContext, batches
from hpme.explainers.hpme.mixup import Selection, select, structural_mixup
from hpme.explainers.hpme.neighbor import NeighborSampler
from hpme.explainers.hpme.pool import Pool, PoolSize, top_nodes


@dataclass(frozen=True)
class PoolCriterion:
    r"""Scores many pools on the same draws of :math:`G'`.

    ``disagreement`` is one minus the correlation of :math:`f(G^{(mix)})` with :math:`f(G)` over
    graphs and draws, ``loss`` is :math:`\mathcal{L}_{pred}` of the hard mix (all weights one).
    Each alone is misled on some dataset: the loss by a confident :math:`f`, the correlation by a
    pool that shifts all predictions alike. Hence the sum of their ranks, :meth:`rank`.

    Args:
        context: The frozen target on the graphs.
        average: :math:`\hat{\mathbf{A}}\mathbf{H}` of all nodes.
        size: Number of pooled nodes.
        generator: Breaks ties of the matching.
        max_nodes: Nodes per forward pass; bounds the memory.
    """

    context: TargetContext
    average: Tensor
    size: PoolSize
    generator: torch.Generator
    max_nodes: int = 200_000

    def draw(self, draws: int, neighbors: NeighborSampler) -> Tensor:
        """Hosts ``[draws, B]`` to be shared by all pools that are compared."""
        ids = torch.arange(len(self.context.store))
        return torch.stack([neighbors.draw(ids) for _ in range(draws)])

    @torch.no_grad()
    def __call__(self, pool: Pool, hosts: Tensor) -> Tensor:
        """``[P, 2]``: disagreement and loss of every pool of the stack; lower is better."""
        graphs = self.context.store.batch()
        share = max(1, self.max_nodes // max(1, graphs.num_nodes * hosts.shape[0]))
        parts = [
            self.of_selections(self.select(pool.pick(index), graphs), hosts)
            for index in batches(torch.arange(pool.count), share)
        ]
        return torch.cat(parts)

    def select(self, pool: Pool, graphs: GraphBatch) -> Selection:
        """Pooled nodes of all graphs by all pools, ``[P, N]``."""
        m = self.size(graphs.sizes)
        keep = top_nodes(pool(self.average, graphs, m), graphs, m)
        return select(keep, graphs, self.generator)

    def of_selections(self, selection: Selection, hosts: Tensor) -> Tensor:
        """Criterion of given selections ``[P, N]``, all in one forward pass of the target."""
        store, task = self.context.store, self.context.task
        count, draws, graphs = selection.keep.shape[0], hosts.shape[0], len(store)
        copies = count * draws
        source = store.batch(torch.arange(graphs).repeat(copies), with_pairs=True)
        host = store.batch(hosts.flatten().repeat(count), with_pairs=True)
        mix = structural_mixup(
            source, _tile(selection, source, draws * graphs), host,
            _tile(selection, host, draws * graphs),
        )  # fmt: skip
        output = self.context.predict(mix.graphs)
        loss = task.loss(output, self._repeat(self.context.target, copies))
        kept, wanted = task.values(output), self._repeat(self.context.values, copies)
        kept, wanted = kept.view(count, -1, kept.shape[1]), wanted.view(count, -1, kept.shape[1])
        kept, wanted = kept - kept.mean(1, keepdim=True), wanted - wanted.mean(1, keepdim=True)
        norm = kept.flatten(1).norm(dim=1) * wanted.flatten(1).norm(dim=1)
        correlation = (kept * wanted).flatten(1).sum(1) / (norm + 1e-9)
        return torch.stack([1 - correlation, loss.view(count, -1).mean(1)], dim=1)

    @staticmethod
    def rank(values: Tensor) -> Tensor:
        """Joint rank of pools by both parts, ties by disagreement; the lowest is the best."""
        ranks: Tensor = values.argsort(dim=0, stable=True).argsort(dim=0).sum(1)
        return ranks + 1e-3 * values[:, 0]

    @staticmethod
    def _repeat(rows: Tensor, copies: int) -> Tensor:
        return rows.repeat(copies, *[1] * (rows.dim() - 1))


def _tile(selection: Selection, graphs: GraphBatch, per_pool: int) -> Selection:
    """The selections at the nodes of a batch whose first ``per_pool`` graphs belong to pool 0, ..."""
    assert graphs.node_ids is not None
    pool = graphs.batch // per_pool
    return Selection(selection.keep[pool, graphs.node_ids], selection.order[pool, graphs.node_ids])
