r"""How a pool is found: the gradient-trained search, closest to the paper's text."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch

from hpme.explainers.hpme.criterion import criterion, joint_rank
from hpme.explainers.hpme.objective import Objective
from hpme.explainers.hpme.pool import Pool
from hpme.explainers.shared.edge_mlp import EdgeMLP

Advance = Callable[[int], None]


@dataclass(frozen=True)
class GradientSearch:
    r"""Trains :math:`\phi` and :math:`\theta` together from several starts and keeps the best.

    Training a pool by gradient often ends near where it began, so it begins at the best of many
    random pools, and the best checkpoint is chosen by the same criterion.

    Args:
        random_pools: Random pools to begin with.
        starts: How many of them are trained.
        epochs: Epochs of each.
        checkpoints: Evenly spaced states of each run that compete in the end.
        beta: First and last weight of the (mean) BCE; it grows linearly.
        lr: Learning rate of Adam.
        weight_decay: Weight decay of Adam.
        draws: Shared draws of :math:`G'` for the final choice.
    """

    random_pools: int = 64
    starts: int = 6
    epochs: int = 40
    checkpoints: int = 3
    beta: tuple[float, float] = (0.3, 3.0)
    lr: float = 0.01
    weight_decay: float = 5e-4
    draws: int = 3

    def steps(self) -> int:
        """Training steps of a whole search per mini-batch."""
        return self.starts * self.epochs

    def find(
        self, objective: Objective, *, layers: int, batch_size: int, advance: Advance
    ) -> tuple[Pool, EdgeMLP]:
        """The best pool and the edge MLP that was trained with it."""
        mix = objective.mix
        graphs = mix.context.store.batch()
        channels = mix.context.h.shape[1]
        pools = Pool(channels, self.random_pools, layers, generator=mix.generator)
        selection = mix.select(mix.score(pools, graphs), graphs)
        order = joint_rank(criterion(mix, selection, mix.draw(1))).argsort()[: self.starts]
        candidates: list[tuple[Pool, EdgeMLP]] = []
        for start in order:
            pool = pools.pick(start.view(1))
            edge_mlp = EdgeMLP(channels, generator=mix.generator)
            candidates += self._train(objective, pool, edge_mlp, batch_size, advance)
        first, *others = [pool for pool, _ in candidates]
        selection = mix.select(mix.score(first.merge(*others), graphs), graphs)
        choice = joint_rank(criterion(mix, selection, mix.draw(self.draws)))
        return candidates[int(choice.argmin())]

    def _train(
        self,
        objective: Objective,
        pool: Pool,
        edge_mlp: EdgeMLP,
        batch_size: int,
        advance: Advance,
    ) -> list[tuple[Pool, EdgeMLP]]:
        marks = {self.epochs * (i + 1) // self.checkpoints for i in range(self.checkpoints)}
        saved = []
        parameters = [*pool.parameters(), *edge_mlp.parameters()]
        optimiser = torch.optim.Adam(parameters, lr=self.lr, weight_decay=self.weight_decay)
        for epoch in range(self.epochs):
            share = epoch / max(1, self.epochs - 1)
            beta = self.beta[0] + (self.beta[1] - self.beta[0]) * share
            train_epoch(objective, pool, edge_mlp, optimiser, beta, batch_size, gate=True)
            advance(1)
            if epoch + 1 in marks:
                saved.append((copy.deepcopy(pool), copy.deepcopy(edge_mlp)))
        return saved


def train_epoch(
    objective: Objective,
    pool: Pool,
    edge_mlp: EdgeMLP,
    optimiser: torch.optim.Optimizer,
    beta: float,
    batch_size: int,
    *,
    gate: bool,
) -> float:
    """One pass over all graphs in random mini-batches; returns the mean loss."""
    total = len(objective.mix.context.store)
    order = torch.randperm(total, generator=objective.mix.generator)
    summed = 0.0
    for ids in order.split(batch_size):  # type: ignore[no-untyped-call]
        optimiser.zero_grad()
        loss = objective(pool, edge_mlp, ids, beta, gate=gate)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        summed += float(loss.detach()) * ids.numel()
    return summed / total
