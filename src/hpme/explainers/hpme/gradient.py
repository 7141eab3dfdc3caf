"""HPME by gradient: the paper's Algorithm 1 from several starts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from torch import Tensor

from hpme.explainers.hpme.method.pool import Pool
from hpme.explainers.hpme.report import FitReport, evidence
from hpme.explainers.hpme.search.criterion import criterion, joint_rank
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.trained import TrainedHPME
from hpme.explainers.shared.context import Context
from hpme.explainers.shared.options import table, whole
from hpme.explainers.shared.parametric import EdgeMLP
from hpme.progress import progress_bar

RANDOM_POOLS = 64
"""Random pools the starts are chosen from."""
CHECKPOINTS = 3
"""Evenly spaced states of each start that compete in the end."""


class HPMEGradientExplainer(TrainedHPME):
    r"""Trains the pool :math:`Q_\phi` and the edge MLP :math:`P_\theta` on the paper's objective.

    :math:`\mathcal{L} = \mathcal{L}_{pred} + \beta \mathcal{L}_{BCE}` (Eq. finall_loss, Algorithm
    1). Training a pool by gradient often ends near where it began, so it begins at the best of many
    random pools; the best checkpoint is chosen by the criterion of :class:`HPMEExplainer`, and its
    edge MLP is trained on. :class:`HPMEPrintedExplainer` does none of this.

    Args:
        bce_weight: Weight :math:`\beta` of the mean BCE on the chosen pool; while pools are trained
            it grows from 3 % to 30 % of that. 0 is the ablation w/o BCE.
        starts: Pools that are trained.
        start_epochs: Epochs of each.
        **options: Arguments of :class:`~hpme.explainers.hpme.trained.TrainedHPME`.
    """

    slug = "hpme-gradient"
    title = "HPME by gradient"
    summary = "Hard-perturbation mixup trained by gradient, the best of several starts."
    typical_seconds = 10.0
    constraints = table(starts=whole(1), start_epochs=whole(1))

    def __init__(
        self,
        *,
        bce_weight: float = 10.0,
        starts: int = 6,
        start_epochs: int = 40,
        **options: Any,
    ) -> None:
        super().__init__(bce_weight=bce_weight, **options)
        self.starts, self.start_epochs = starts, start_epochs

    def _search(
        self, few: HardMix, everything: Context, fresh: HardMix | None, *, progress: bool
    ) -> FitReport:
        total = self.starts * self.start_epochs + self.epochs
        with progress_bar("training pool and edge MLP", total, enabled=progress) as advance:
            self.pool, self.edge_mlp = self._best_start(few, advance)
            report = evidence(few, fresh, self.pool, None, "gradient")
            betas = [self.bce_weight] * self.epochs
            mix = few if few.context is everything else self._mix(everything, few.generator)
            for _ in self._train(mix, self.pool, self.edge_mlp, betas, learn_pool=False):
                advance(1)
        return report

    def _best_start(self, mix: HardMix, advance: Callable[[int], None]) -> tuple[Pool, EdgeMLP]:
        """The best pool and the edge MLP that was trained with it."""
        channels, epochs = mix.context.h.shape[1], self.start_epochs
        pools = Pool(channels, RANDOM_POOLS, self.pool_layers, generator=mix.generator)
        pools.to(mix.context.device)
        marks = {epochs * (i + 1) // CHECKPOINTS for i in range(CHECKPOINTS)}
        low, high = 0.03 * self.bce_weight, 0.3 * self.bce_weight
        betas = [low + (high - low) * (epoch / max(1, epochs - 1)) for epoch in range(epochs)]
        saved: list[tuple[Pool, EdgeMLP]] = []
        for start in _rank(mix, pools, draws=1).argsort()[: self.starts]:
            edge_mlp = EdgeMLP(channels, generator=mix.generator).to(mix.context.device)
            trained = pools.pick(start.view(1)), edge_mlp
            for epoch in self._train(mix, *trained, betas, learn_pool=True):
                advance(1)
                if epoch in marks:
                    saved.append(copy.deepcopy(trained))
        first, *others = [pool for pool, _ in saved]
        return saved[int(_rank(mix, first.merge(*others), draws=3).argmin())]


def _rank(mix: HardMix, pools: Pool, draws: int) -> Tensor:
    return joint_rank(criterion(mix, mix.select(mix.scores(pools)), mix.draw(draws)))
