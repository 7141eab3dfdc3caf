"""What a fit can say about its own trustworthiness, without ground truth."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from hpme.errors import ModelError
from hpme.explainers.hpme.method.pool import Selection
from hpme.explainers.hpme.search.chains import Candidates
from hpme.explainers.hpme.search.criterion import closeness, criterion
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.search.ratio import RatioPoint
from hpme.explainers.shared.context import Context
from hpme.explainers.shared.explanation import report_html
from hpme.models.adapter import differ

WEAK_EFFECT = 0.42
"""A pool that saves less than this of what random nodes lose is called weak."""
SIGNIFICANT = 0.01
"""A larger p-value may be chance."""
FLIPS = 1999
"""Random signs of the differences that the p-value is computed from."""


@dataclass(frozen=True)
class FitReport:
    r"""Evidence for the chosen pool.

    Disagreement is 0 if the hard mix always keeps the prediction and about 1 if it says nothing
    about it; see :func:`~hpme.explainers.hpme.search.criterion.criterion`.

    Args:
        disagreement: Of the chosen pool, on fresh draws of :math:`G'`, among the held-out graphs
            if there are any.
        random_disagreement: Of random selections of the same size.
        complement_disagreement: Of the nodes the chosen pool ranks lowest.
        loss: :math:`\mathcal{L}_{pred}` of the hard mix of the chosen pool.
        random_loss: The same of random selections.
        effect: How much nearer to the prediction the chosen pool brings hosts than as many random
            nodes of the graph, as a share of what is left to these; 1 is all, 0 nothing.
        p_value: How probable such a difference is by chance, by random signs of the graphs'
            differences.
        held_out: Number of graphs the search did not use, on which all of this was measured; 0 if
            it was given too few to hold any out.
        edges: Whether the model's output depends on edges.
        agreement: Overlap of pooled nodes between chains that share no start, 0 for chance and 1
            for the same nodes; ``None`` if there was one chain.
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
    effect: float
    p_value: float
    held_out: int
    edges: bool
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
    def warnings(self) -> list[str]:
        """Reasons not to trust the explanations; empty if the evidence is good."""
        found = []
        if self.effect < WEAK_EFFECT or self.p_value > SIGNIFICANT:
            found.append(
                f"weak evidence (effect {self.effect:.2f}, p = {self.p_value:.2g}; at least "
                f"{WEAK_EFFECT} and at most {SIGNIFICANT} are wanted): the chosen nodes keep the "
                "prediction hardly better than random ones. The model may not rely on a subgraph "
                "of this size; try another ratio, or check the model's accuracy"
            )
        if not self.edges:
            found.append(
                "the model's output does not depend on edges, so scores of edges say nothing "
                "beyond those of their nodes"
            )
        return found

    def summary(self) -> str:
        """The evidence in one line."""
        agreement = "-" if self.agreement is None else f"{self.agreement:.2f}"
        chosen = f"pools {self.pool_ratio:.0%} of the nodes (chosen without labels); "
        return (chosen if self.ratio_curve else "") + (
            f"hard-mix disagreement {self.disagreement:.2f} (random {self.random_disagreement:.2f},"
            f" complement {self.complement_disagreement:.2f}), effect {self.effect:.2f} "
            f"(p = {self.p_value:.2g}, {self._where()}), restarts agree {agreement}: "
            + ("trust with care" if self.warnings else "good evidence")
        )

    def _repr_html_(self) -> str:
        return report_html(self.summary(), self.warnings)

    def _where(self) -> str:
        return f"{self.held_out} held-out graphs" if self.held_out else "the searched graphs"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, with the derived ones."""
        derived = {"separation": self.separation}
        return {**asdict(self), **derived, "warnings": self.warnings}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> FitReport:
        """The report :meth:`to_dict` came from."""
        given = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        if given.get("ratio_curve"):
            given["ratio_curve"] = [RatioPoint(**point) for point in given["ratio_curve"]]
        return cls(**given)


def report_on(
    mix: HardMix,
    pool: nn.Module,
    candidates: Candidates | None,
    search: str,
    *,
    held_out: int = 0,
    draws: int = 3,
) -> FitReport:
    """Compares a pool with random selections and with its complement on fresh draws.

    Args:
        mix: The graphs to measure on.
        pool: The chosen pool.
        candidates: What it was chosen from.
        search: Name of the search.
        held_out: Number of these graphs if the search did not use them.
        draws: Hosts per graph.
    """
    mix = replace(mix, alone=False)
    score = mix.scores(pool)
    noise = torch.rand(3, score.shape[1], generator=mix.generator).to(score)
    selection, hosts = mix.select(torch.cat([score, -score, noise])), mix.draw(draws)
    values = criterion(mix, selection, hosts).tolist()
    random = torch.tensor(values[2:]).mean(0).tolist()
    effect, p_value = _effect(mix, selection[torch.tensor([0, 2, 3, 4])], hosts)
    return FitReport(
        disagreement=values[0][0],
        complement_disagreement=values[1][0],
        random_disagreement=random[0],
        loss=values[0][1],
        random_loss=random[1],
        effect=effect,
        p_value=p_value,
        held_out=held_out,
        edges=mix.context.adapter.weighting != "none" or _reads_edges(mix.context),
        agreement=None if candidates is None else _agreement(candidates),
        pool_ratio=float((mix.m / mix.graphs.sizes).mean()),
        embedding=mix.context.adapter.describe(),
        search=search,
    )


def _effect(mix: HardMix, selection: Selection, hosts: Tensor) -> tuple[float, float]:
    """Effect and p-value of the first selection against the others, random ones.

    All of them fill the same gaps, those of the first.
    """
    count, (draws, graphs) = len(selection.keep), hosts.shape
    rows = torch.arange(count).repeat_interleave(draws)
    own = torch.arange(graphs, device=hosts.device).expand(count * draws, -1)
    gaps = selection[torch.zeros_like(rows)]
    output = mix.predict(own, selection[rows], hosts.repeat(count, 1), gaps)
    near = closeness(mix.context, output, own).view(count, draws, graphs).mean(1)
    chance = near[1:].mean(0)
    difference = (near[0] - chance).double().cpu()
    sign = torch.rand(FLIPS, graphs, generator=mix.generator).round().double() * 2 - 1
    by_chance = (sign * difference).mean(1) >= difference.mean() - 1e-12
    p_value = (1 + int(by_chance.sum())) / (1 + FLIPS)
    left = max(float(1 - chance.mean()), 1e-6)
    return float(difference.mean()) / left if left > 1e-3 else 0.0, p_value


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


@torch.no_grad()
def _reads_edges(context: Context) -> bool:
    """Whether outputs change when all edges are deleted; weights may not reach the model at all."""
    graphs = context.store.batch(torch.arange(min(64, len(context.store))))
    bare = graphs.edges(torch.zeros_like(graphs.edge_index[0], dtype=torch.bool))
    try:
        return differ(context.predict(graphs), context.predict(bare))
    except ModelError:  # it cannot do without edges
        return True
