"""HPME, the Hard-Perturbation Mixup Explainer, its pool found by search."""

from __future__ import annotations

from typing import Any

from hpme.explainers.hpme.base import HPMEBase
from hpme.explainers.hpme.report import FitReport, report_on
from hpme.explainers.hpme.search.chains import SubsetSearch
from hpme.explainers.hpme.search.distil import fit_edge_mlp
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.shared.checks import at_least
from hpme.progress import progress_bar


class HPMEExplainer(HPMEBase):
    r"""Explains models by hard-perturbation mixup.

    A pooling operator :math:`Q_\phi` picks :math:`m` nodes of :math:`G`; their subgraph replaces
    the pooled subgraph of another real graph :math:`G'`. The pool is found by searching hard
    selections under which the model predicts :math:`f(G)` on the mix, and an edge MLP
    :math:`P_\theta` is distilled from it. :attr:`report` says how good the evidence for the result
    is. :class:`HPMEGradientExplainer` trains both together, as the paper does.

    Args:
        restarts: Independent chains of the search.
        rounds: Rounds of each chain.
        subsets: Proposed subsets per graph and round.
        refine: Steps of the refinement that follows where the rounds leave disagreement; 0 for
            none.
        **options: Arguments of :class:`~hpme.explainers.hpme.base.HPMEBase`.
    """

    slug = "hpme"
    title = "HPME"
    summary = "Hard-perturbation mixup: a pooled subgraph that carries the prediction elsewhere."
    typical_seconds = 9.0

    def __init__(
        self,
        *,
        restarts: int = 4,
        rounds: int = 4,
        subsets: int = 16,
        refine: int = 12,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.restarts, self.rounds, self.subsets, self.refine = restarts, rounds, subsets, refine
        for name, least in (("restarts", 1), ("rounds", 1), ("subsets", 4), ("refine", 0)):
            at_least(name, getattr(self, name), least)

    def _search(self, few: HardMix, everything: HardMix, *, progress: bool) -> FitReport:
        search = SubsetSearch(self.restarts, self.rounds, self.subsets, self.refine)
        with progress_bar("searching the pool", search.steps(), enabled=progress) as advance:
            candidates = search.find(few, advance=advance)
        self.pool, self.rival = candidates.best(), candidates.rival()
        report = report_on(few, self.pool, candidates, "subsets")
        with progress_bar("training the edge MLP", self.epochs, enabled=progress) as advance:
            self.edge_mlp = fit_edge_mlp(
                everything,
                everything.select(everything.scores(self.pool)).keep[0],
                epochs=self.epochs,
                lr=self.lr,
                weight_decay=self.weight_decay,
                batch_size=self.batch_size,
                advance=advance,
            )
        return report
