"""What a fit can say about its own trustworthiness, without ground truth."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hpme.explainers.hpme.search.chains import Candidates
from hpme.explainers.hpme.search.criterion import criterion
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.search.ratio import RatioPoint

WEAK_EVIDENCE = 0.25
"""Evidence below this is called weak. On the seeds used for development it was 0.03 on Triangles,
whose explanations are poor, and at least 0.43 on the sets whose explanations are good."""


@dataclass(frozen=True)
class FitReport:
    r"""Evidence for the chosen pool.

    Disagreement is 0 if the hard mix always keeps the prediction and about 1 if it says nothing
    about it; see :func:`~hpme.explainers.hpme.search.criterion.criterion`.

    Args:
        disagreement: Of the chosen pool, on fresh draws of :math:`G'`.
        random_disagreement: Of random selections of the same size.
        complement_disagreement: Of the nodes the chosen pool ranks lowest.
        loss: :math:`\mathcal{L}_{pred}` of the hard mix of the chosen pool.
        random_loss: The same of random selections.
        agreement: Overlap of pooled nodes between independent restarts, 0 for chance and 1 for
            the same nodes; ``None`` if there was one restart.
        pool_ratio: Mean share of pooled nodes.
        embedding: Where node embeddings were taken from, and how edges are weighted.
        search: Name of the search.
        ratio_curve: What the ratio was chosen from, if it was.
    """

    disagreement: float
    random_disagreement: float
    complement_disagreement: float
    loss: float
    random_loss: float
    agreement: float | None
    pool_ratio: float
    embedding: str
    search: str
    ratio_curve: list[RatioPoint] | None = None

    @property
    def separation(self) -> float:
        """Share of the disagreement of random selections that the chosen pool removes."""
        return 1 - self.disagreement / max(self.random_disagreement, 1e-6)

    @property
    def evidence(self) -> float:
        """Separation times agreement: low if the pool explains little, or if restarts differ."""
        agreement = 1.0 if self.agreement is None else max(0.0, self.agreement)
        return self.separation * agreement

    @property
    def warnings(self) -> list[str]:
        """Reasons not to trust the explanations; empty if the evidence is good."""
        if self.evidence >= WEAK_EVIDENCE:
            return []
        restarts = "" if self.agreement is None else f", restarts agree {self.agreement:.2f}"
        return [
            f"weak evidence ({self.evidence:.2f} < {WEAK_EVIDENCE}: separation from random "
            f"selections {self.separation:.2f}{restarts}). The model may not rely on a subgraph of "
            "this size, or on several alike; try another ratio, more restarts, or check the "
            "model's accuracy"
        ]

    def summary(self) -> str:
        """The evidence in one line."""
        agreement = "-" if self.agreement is None else f"{self.agreement:.2f}"
        chosen = f"pools {self.pool_ratio:.0%} of the nodes (chosen without labels); "
        return (chosen if self.ratio_curve else "") + (
            f"hard-mix disagreement {self.disagreement:.2f} (random {self.random_disagreement:.2f},"
            f" complement {self.complement_disagreement:.2f}), restarts agree {agreement}: "
            + ("trust with care" if self.warnings else "good evidence")
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, with the derived ones."""
        derived = {"separation": self.separation, "evidence": self.evidence}
        return {**asdict(self), **derived, "warnings": self.warnings}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> FitReport:
        """The report :meth:`to_dict` came from."""
        given = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        if given.get("ratio_curve"):
            given["ratio_curve"] = [RatioPoint(**point) for point in given["ratio_curve"]]
        return cls(**given)


def report_on(
    mix: HardMix, pool: nn.Module, candidates: Candidates | None, search: str, *, draws: int = 2
) -> FitReport:
    """Compares a pool with random selections and with its complement on fresh draws."""
    score = mix.scores(pool)
    noise = torch.rand(3, score.shape[1], generator=mix.generator).to(score)
    selection = mix.select(torch.cat([score, -score, noise]))
    values = criterion(mix, selection, mix.draw(draws)).tolist()
    random = torch.tensor(values[2:]).mean(0).tolist()
    return FitReport(
        disagreement=values[0][0],
        complement_disagreement=values[1][0],
        random_disagreement=random[0],
        loss=values[0][1],
        random_loss=random[1],
        agreement=None if candidates is None else _agreement(candidates),
        pool_ratio=float((mix.m / mix.graphs.sizes).mean()),
        embedding=mix.context.adapter.describe(),
        search=search,
    )


def _agreement(candidates: Candidates) -> float | None:
    """Mean overlap above chance between the best pools of chains, no two of which share a start."""
    mix, best = candidates.mix, candidates.finished()
    if len(best) < 2:
        return None
    keep = [mix.select(mix.scores(candidates.pool(number))).keep[0] for number in best]
    pairs = [_above_chance(a, b) for i, a in enumerate(keep) for b in keep[:i]]
    return sum(pairs) / len(pairs)


def _above_chance(a: Tensor, b: Tensor) -> float:
    """Overlap of two node masks, 0 for that of random ones and 1 for equal ones."""
    chance = float((a.float().mean() + b.float().mean()) / 2)
    shared = float((a & b).sum()) / max(1.0, float(a.sum()))
    return (shared - chance) / max(1e-6, 1 - chance)
