"""Training by gradient (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from hpme.explainers.hpme.method.mask import mix_mask
from hpme.explainers.hpme.method.mixer import Mixer
from hpme.explainers.hpme.method.mixup import Mix
from hpme.explainers.hpme.method.objective import (
    bce_loss,
    final_loss,
    prediction_loss,
    summed_bce_loss,
)
from hpme.explainers.hpme.method.pool import Pool
from hpme.explainers.shared.context import batches
from hpme.explainers.shared.parametric import EdgeMLP, binary_concrete


@dataclass(frozen=True)
class Objective:
    r"""The loss of a mini-batch of graphs (lines 4 to 9 of Algorithm 1).

    Args:
        mixer: The frozen target, its graphs and how they are mixed.
        mixup: If false, the target sees the pooled subgraph alone (the paper's w/o Mix).
        gated: Whether transplanted features are multiplied by :math:`\tanh(s)`. A hard selection
            has no gradient; this is the path by which :math:`\phi` learns.
        temperature: :math:`\tau` of the binary concrete distribution.
        summed: Whether the BCE is the sum over the edges of a graph, as printed, in place of the
            mean over pairs.
    """

    mixer: Mixer
    mixup: bool = True
    gated: bool = True
    temperature: float = 1.0
    summed: bool = False

    def __call__(
        self, pool: Pool, edge_mlp: EdgeMLP, ids: Tensor, *, beta: float, gate: bool = True
    ) -> Tensor:
        """Mean loss over the graphs ``ids``; ``gate=False`` trains the edge MLP alone."""
        mixer, context = self.mixer, self.mixer.context
        gate = gate and self.gated
        hosts = mixer.draw_hosts if self.mixup else None
        pooled = mixer.pooled_mixup(pool, ids, hosts, learn=gate)
        mix, mixed = pooled.mix, pooled.mix.graphs
        if gate:
            mixed = replace(mixed, x=mixed.x * pooled.gate.to(mixed.x).unsqueeze(1))
        logits = edge_mlp(pooled.h, mix.pair_index)
        sample = binary_concrete(logits, self.temperature, mixer.generator)
        weight = mix.per_edge(mix_mask(sample, mix.transplanted, mixup=self.mixup))
        if not self.mixup:
            weight = weight[pooled.inserted[mixed.edge_index].all(0)]
            mixed = mixed.nodes(pooled.inserted)
        prediction = prediction_loss(context, context.predict(mixed, weight), ids)
        return final_loss(prediction, self._bce(mix, logits, ids.numel()), beta)

    def _bce(self, mix: Mix, logits: Tensor, count: int) -> Tensor:
        if self.summed:
            return summed_bce_loss(mix.per_edge(logits), mix.per_edge(mix.transplanted), count)
        return bce_loss(logits, mix.transplanted)


def train(
    objective: Objective,
    pool: Pool,
    edge_mlp: EdgeMLP,
    optimiser: torch.optim.Optimizer,
    betas: Iterable[float],
    batch_size: int,
    *,
    gate: bool,
) -> Iterator[int]:
    r"""Training Explainer (Algorithm 1).

    Args:
        objective: The loss.
        pool: :math:`Q_\phi`.
        edge_mlp: :math:`P_\theta`.
        optimiser: Of the parameters that learn.
        betas: :math:`\beta` of every epoch.
        batch_size: Graphs per step.
        gate: Whether the pool is among what learns.

    Yields:
        The number of epochs done, after each.
    """
    total, generator = len(objective.mixer.context.store), objective.mixer.generator
    for number, beta in enumerate(betas, 1):
        loss = partial(objective, pool, edge_mlp, beta=beta, gate=gate)
        train_epoch(optimiser, loss, total, batch_size, generator)
        yield number


def train_epoch(
    optimiser: torch.optim.Optimizer,
    loss: Callable[[Tensor], Tensor],
    total: int,
    batch_size: int,
    generator: torch.Generator,
) -> None:
    """Steps on the loss of random mini-batches, given by their graph numbers, of all graphs."""
    for ids in batches(torch.randperm(total, generator=generator), batch_size):
        optimiser.zero_grad()
        loss(ids).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
