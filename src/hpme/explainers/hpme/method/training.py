r"""Training by gradient: the losses (Eqs. bce_loss and finall_loss) and Algorithm 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from hpme.explainers.hpme.method.mixer import Mixer
from hpme.explainers.hpme.method.mixup import mix_mask
from hpme.explainers.hpme.method.pool import Pool
from hpme.explainers.shared.context import Context, batches
from hpme.explainers.shared.parametric import EdgeMLP, binary_concrete


def prediction_loss(context: Context, output: Tensor, ids: Tensor) -> Tensor:
    r""":math:`\mathcal{L}_{pred}(f(G), f(G^{(mix)}))` of graphs: cross entropy, or MSE."""
    return context.task.loss(output, context.prediction[ids])


def bce_loss(logits: Tensor, inside: Tensor, num_graphs: int | None = None) -> Tensor:
    r""":math:`\mathcal{L}_{BCE}` (Eq. bce_loss) of :math:`w_{ij}` and whether pairs are ``inside``.

    Of so many graphs the mean of their sums, as printed; if ``None``, the mean over edges.
    """
    reduction = "mean" if num_graphs is None else "sum"
    loss = F.binary_cross_entropy_with_logits(logits, inside.to(logits), reduction=reduction)
    return loss / (num_graphs or 1)


PAIRS = 20_000
"""Pairs of nodes an edge MLP learns from when the pool is given; more teach it little."""


EPOCHS, LR, WEIGHT_DECAY = 50, 0.01, 5e-4
"""Training of the edge MLP where the pool is given."""


def fit_edge_mlp(mix: Mixer, keep: Tensor, epochs: int, advance: Callable[[int], None]) -> EdgeMLP:
    """Edge MLP that tells pairs inside pooled nodes ``keep`` ``[N]`` from others (Eq. bce_loss).

    Every step takes all of at most :data:`PAIRS` pairs.
    """
    pairs = mix.context.store.batch().pairs.proper.index
    if pairs.shape[1] > PAIRS:
        order = torch.randperm(pairs.shape[1], generator=mix.generator)[:PAIRS]
        pairs = pairs[:, order.to(pairs.device)]
    inside = keep[pairs].all(0)
    nodes, pairs = torch.unique(pairs, return_inverse=True)
    h = mix.h[nodes]
    edge_mlp = EdgeMLP(h.shape[1], generator=mix.generator).to(h.device)
    optimiser = torch.optim.Adam(edge_mlp.parameters(), lr=LR, weight_decay=WEIGHT_DECAY)
    for _ in range(epochs if pairs.numel() else 0):
        optimiser.zero_grad()
        bce_loss(edge_mlp(h, pairs), inside).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        advance(1)
    return edge_mlp


def final_loss(prediction: Tensor, bce: Tensor, beta: float) -> Tensor:
    r""":math:`\mathcal{L} = \mathcal{L}_{pred} + \beta \mathcal{L}_{BCE}` (Eq. finall_loss)."""
    loss = prediction.mean()
    return loss + beta * bce if beta else loss


@dataclass(frozen=True)
class Objective:
    r"""The loss of a mini-batch of graphs (lines 4 to 9 of Algorithm 1).

    A hard selection has no gradient; by :math:`\tanh(s)` at transplanted features :math:`\phi`
    learns.
    """

    mixer: Mixer
    beta: float = 1.0  # \beta of the paper; 0 is w/o BCE
    mixup: bool = True  # if false, the model sees the pooled subgraph alone (w/o Mix)
    gated: bool = True  # whether transplanted features are multiplied by \tanh(s)
    temperature: float = 1.0  # \tau of the binary concrete distribution

    def __call__(self, pool: Pool, edge_mlp: EdgeMLP, ids: Tensor) -> Tensor:
        """Mean loss over the graphs ``ids``."""
        mixer, context = self.mixer, self.mixer.context
        hosts = mixer.draw_hosts if self.mixup else None
        pooled = mixer.pooled_mixup(pool, ids, hosts, learn=self.gated)
        mix, mixed = pooled.mix, pooled.mix.graphs
        numbers = None
        if self.gated:
            numbers = context.adapter.node_input(mixed)
            numbers = numbers * pooled.gate.to(numbers).unsqueeze(1)
        logits = edge_mlp(pooled.h, mix.pair_index)
        sample = binary_concrete(logits, self.temperature, mixer.generator)
        weight = mix.per_edge(mix_mask(sample, mix.transplanted, mixup=self.mixup))
        if not self.mixup:
            weight = weight[pooled.inserted[mixed.edge_index].all(0)]
            mixed = mixed.nodes(pooled.inserted)
            numbers = None if numbers is None else numbers[pooled.inserted]
        output = context.predict(mixed, weight, numbers)
        prediction = prediction_loss(context, output, ids)
        inside = mix.per_edge(mix.transplanted)
        return final_loss(prediction, bce_loss(mix.per_edge(logits), inside, len(ids)), self.beta)


def train(
    objective: Objective,
    pool: Pool,
    edge_mlp: EdgeMLP,
    optimiser: torch.optim.Optimizer,
    epochs: int,
    batch_size: int,
) -> Iterator[None]:
    r"""Training Explainer (Algorithm 1) of :math:`Q_\phi` and :math:`P_\theta`, epoch by epoch."""
    total, generator = len(objective.mixer.context.store), objective.mixer.generator
    for _ in range(epochs):
        for ids in batches(torch.randperm(total, generator=generator), batch_size):
            optimiser.zero_grad()
            objective(pool, edge_mlp, ids).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        yield
