r"""The paper's objective :math:`\mathcal{L} = \mathcal{L}_{pred} + \beta \mathcal{L}_{BCE}`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from hpme.data.batch import GraphBatch
from hpme.explainers.context import TargetContext
from hpme.explainers.edge_mlp import EdgeMLP, binary_concrete
from hpme.explainers.hpme.mixup import Mix, Selection, select, structural_mixup
from hpme.explainers.hpme.neighbor import NeighborSampler
from hpme.explainers.hpme.pool import Pool, PoolSize, top_nodes


@dataclass(frozen=True)
class Objective:
    r"""One evaluation of the loss on a mini-batch of graphs.

    Args:
        context: The frozen target on the fitted graphs.
        average: :math:`\hat{\mathbf{A}}\mathbf{H}` of all nodes.
        size: Number of pooled nodes.
        neighbors: How :math:`G'` is drawn.
        mixup: If false, the target sees the pooled subgraph alone (the paper's w/o Mix).
        gated: Whether transplanted features are multiplied by :math:`\tanh(s)`. A hard selection
            has no gradient; this is the path by which :math:`\phi` learns.
        temperature: :math:`\tau` of the binary concrete distribution.
        generator: Source of all randomness.
    """

    context: TargetContext
    average: Tensor
    size: PoolSize
    neighbors: NeighborSampler
    generator: torch.Generator
    mixup: bool = True
    gated: bool = True
    temperature: float = 1.0

    def __call__(
        self, pool: Pool, edge_mlp: EdgeMLP, ids: Tensor, beta: float, *, gate: bool = True
    ) -> Tensor:
        """Mean loss over the graphs ``ids``; ``gate=False`` trains the edge MLP alone."""
        store = self.context.store
        graphs = store.batch(ids, with_pairs=True)
        gate = gate and self.gated
        with torch.set_grad_enabled(gate):
            score, chosen = self.pooled(pool, graphs)
        # Without mixup every graph hosts its own subgraph and the edges outside it weigh nothing.
        host = store.batch(self.neighbors.draw(ids), with_pairs=True) if self.mixup else graphs
        with torch.no_grad():
            removed = self.pooled(pool, host)[1] if self.mixup else chosen
        mix = structural_mixup(graphs, chosen, host, removed)
        mixed = mix.graphs
        if gate:
            factor = mix.per_node(torch.ones_like(host.x[:, 0]), score.tanh())
            mixed = replace(mixed, x=mixed.x * factor.unsqueeze(1))
        logits = edge_mlp(self._embedding(mix, host, graphs), mix.pair_index)
        sample = binary_concrete(logits, self.temperature, self.generator)
        outside = 1 - sample if self.mixup else torch.zeros_like(sample)
        weight = torch.where(mix.transplanted, sample, outside)
        output = self.context.predict(mixed, mix.per_edge(weight))
        loss = self.context.task.loss(output, self.context.target[ids]).mean()
        if beta:
            loss = loss + beta * F.binary_cross_entropy_with_logits(
                logits, mix.transplanted.to(logits.dtype)
            )
        return loss

    def pooled(self, pool: Pool, graphs: GraphBatch) -> tuple[Tensor, Selection]:
        """Scores and pooled nodes of one operator on graphs taken from the store."""
        m = self.size(graphs.sizes)
        score = pool(self.average[graphs.node_ids], graphs, m)
        keep = top_nodes(score.detach(), graphs, m)
        return score[0], select(keep, graphs, self.generator)[0]

    def _embedding(self, mix: Mix, host: GraphBatch, source: GraphBatch) -> Tensor:
        # H moves with its nodes; recomputing it on the mix costs a forward pass and changes little.
        assert host.node_ids is not None and source.node_ids is not None
        return mix.per_node(self.context.h[host.node_ids], self.context.h[source.node_ids])
