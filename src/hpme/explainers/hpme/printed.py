"""HPME as printed: the paper's Algorithm 1 and nothing else."""

from __future__ import annotations

from typing import Any

import torch

from hpme.explainers.hpme.base import Score
from hpme.explainers.hpme.method.mixup import Attach
from hpme.explainers.hpme.method.pool import Pool
from hpme.explainers.hpme.report import FitReport, report_on
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.search.hosts import Neighbor
from hpme.explainers.hpme.trained import TrainedHPME
from hpme.explainers.shared.context import Context
from hpme.explainers.shared.options import real, table
from hpme.explainers.shared.parametric import EdgeMLP
from hpme.progress import progress_bar


class HPMEPrintedExplainer(TrainedHPME):
    r"""The paper's Algorithm 1: one pool and one edge MLP, trained together from one start.

    :math:`G'` is any graph, boundary edges go by rank, the BCE is summed over the edges of a mixup
    graph (Eq. bce_loss) and an edge scores :math:`p_{ij}`. Nothing is chosen: neither among starts
    nor among checkpoints, and no hard mix is asked; :attr:`report` measures one afterwards. What
    the equations leave open is filled as in :class:`HPMEGradientExplainer`: with
    ``gate=None`` the pool stays as it was drawn.

    Args:
        ratio: Share of nodes that are pooled, :math:`r`, which the paper takes from the ground
            truth; this or ``k`` must be given.
        bce_weight: Weight :math:`\beta` of the summed BCE, in the paper's unit; 0 is the ablation
            w/o BCE.
        score, neighbor, attach: As in :class:`~hpme.explainers.hpme.base.HPMEBase`, with the
            paper's choices as defaults.
        epochs: Epochs, with one step for every ``batch_size`` graphs.
        search_graphs: At most this many of the graphs are trained on.
        **options: Arguments of :class:`~hpme.explainers.hpme.trained.TrainedHPME`.
    """

    slug = "hpme-printed"
    title = "HPME as printed"
    summary = "The paper's algorithm to the letter: one start, summed BCE, scores of the edge MLP."
    typical_seconds = 15.0
    chooses_size = False
    summed = True
    constraints = table(
        ratio=real(above=0, most=1, words=(None,), reason="the paper's algorithm chooses no size")
    )

    def __init__(
        self,
        *,
        ratio: float | None = None,
        bce_weight: float = 0.1,
        score: Score = "edge",
        neighbor: Neighbor = "random",
        attach: Attach = "rank",
        epochs: int = 300,
        search_graphs: int = 512,
        **options: Any,
    ) -> None:
        super().__init__(
            ratio=ratio,
            bce_weight=bce_weight,
            score=score,
            neighbor=neighbor,
            attach=attach,
            epochs=epochs,
            search_graphs=search_graphs,
            **options,
        )

    def _split(self, context: Context, generator: torch.Generator) -> tuple[Context, None]:
        everything = int(context.store.edge_counts.sum())
        return context.sample(self.search_graphs, everything, generator), None

    def _search(
        self, few: HardMix, everything: Context, fresh: HardMix | None, *, progress: bool
    ) -> FitReport:
        channels, device = few.context.h.shape[1], few.context.device
        pool = Pool(channels, 1, self.pool_layers, generator=few.generator).to(device)
        edge_mlp = EdgeMLP(channels, generator=few.generator).to(device)
        betas = [self.bce_weight] * self.epochs
        with progress_bar("training pool and edge MLP", self.epochs, enabled=progress) as advance:
            for _ in self._train(few, pool, edge_mlp, betas, learn_pool=True):
                advance(1)
        self.pool, self.edge_mlp = pool, edge_mlp
        return report_on(few, pool, None, "printed")

    def _calibrate(self, context: Context, generator: torch.Generator) -> None:
        """Shows all of the pool: what of it is needed only a hard mix could tell."""
