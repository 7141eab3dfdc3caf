r"""The paper's objective :math:`\mathcal{L} = \mathcal{L}_{pred} + \beta \mathcal{L}_{BCE}`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from hpme.explainers.hpme.hardmix import HardMix
from hpme.explainers.hpme.mixup import structural_mixup
from hpme.explainers.hpme.pool import Pool
from hpme.explainers.shared.edge_mlp import EdgeMLP, binary_concrete


@dataclass(frozen=True)
class Objective:
    r"""One evaluation of the loss on a mini-batch of graphs.

    Args:
        mix: The frozen target, its graphs and how they are mixed.
        mixup: If false, the target sees the pooled subgraph alone (the paper's w/o Mix).
        gated: Whether transplanted features are multiplied by :math:`\tanh(s)`. A hard selection
            has no gradient; this is the path by which :math:`\phi` learns.
        temperature: :math:`\tau` of the binary concrete distribution.
    """

    mix: HardMix
    mixup: bool = True
    gated: bool = True
    temperature: float = 1.0

    def __call__(
        self, pool: Pool, edge_mlp: EdgeMLP, ids: Tensor, beta: float, *, gate: bool = True
    ) -> Tensor:
        """Mean loss over the graphs ``ids``; ``gate=False`` trains the edge MLP alone."""
        hard, context = self.mix, self.mix.context
        graphs = context.store.batch(ids, with_pairs=True)
        gate = gate and self.gated
        with torch.set_grad_enabled(gate):
            score = hard.score(pool, graphs)
        chosen = hard.select_one(score, graphs)
        # Without mixup every graph hosts its own subgraph and the edges outside it weigh nothing.
        host, removed = graphs, chosen
        if self.mixup:
            host = context.store.batch(hard.neighbors.draw(ids), with_pairs=True)
            with torch.no_grad():
                removed = hard.select_one(hard.score(pool, host), host)
        mix = structural_mixup(graphs, chosen, host, removed, hard.generator, hard.attach)
        mixed = mix.graphs
        if gate:
            gates = score[0].tanh()
            if graphs.anchors is not None:  # they are pooled whatever their score
                gates = gates.index_fill(0, graphs.anchors.flatten(), 1.0)
            factor = mix.per_node(torch.ones_like(host.x[:, 0]), gates)
            mixed = replace(mixed, x=mixed.x * factor.unsqueeze(1))
        # H moves with its nodes; recomputing it costs a forward pass and changes little.
        h = mix.per_node(context.h[host.node_ids], context.h[graphs.node_ids])
        logits = edge_mlp(h, mix.pair_index)
        sample = binary_concrete(logits, self.temperature, hard.generator)
        outside = 1 - sample if self.mixup else torch.zeros_like(sample)
        weight = torch.where(mix.transplanted, sample, outside)
        output = context.predict(mixed, mix.per_edge(weight))
        loss = context.task.loss(output, context.target[ids]).mean()
        if beta:
            loss = loss + beta * F.binary_cross_entropy_with_logits(
                logits, mix.transplanted.to(logits.dtype)
            )
        return loss
