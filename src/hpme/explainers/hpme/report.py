"""What a fit can say about its own trustworthiness, without ground truth."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from hpme.errors import ModelError
from hpme.explainers.hpme.effects import Measured
from hpme.explainers.hpme.guarantee import Guarantee
from hpme.explainers.hpme.quality import class_name
from hpme.explainers.hpme.search.chains import Candidates
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.search.ratio import RatioPoint
from hpme.explainers.shared.context import Context
from hpme.explainers.shared.explanation import report_html
from hpme.models.adapter import differ

Evidence = Literal["good", "small", "few", "none"]
WORDS = {"small": "small but certain", "few": "too few graphs", "none": "no evidence"}
SIGNIFICANT, OF_A_CLASS = 0.01, 0.05
"""Larger p-values may be chance: those of all graphs, and of the class that is carried best."""
ANYWAY = 0.4
"""Random regions that disagree less keep predictions by themselves."""
AGAINST = 0.05
"""A class whose effect is certainly below this, the other way, speaks against a pool that is not
certain to save anything."""
SMALL, MANY, SMALL_OF_MANY = 1 / 3, 60, 0.2
"""A pool that may save less than this of the disagreement of random regions may save little; of so
many held-out graphs, which a model can hardly know by heart, less than the other."""
POSSIBLE = 0.25
"""Where it may save as much, but need not, more graphs would tell."""
MUCH = 0.5
"""Of few graphs, which a model may know by heart, it must save as much for certain, and so
it must where random regions keep predictions by themselves."""
FEW = 10
"""Fewer graphs of a prediction tell little."""


@dataclass(frozen=True)
class ClassEffect:
    """What the chosen pool does for graphs of one predicted class.

    Args:
        name: Name of the class; ``None`` for regression, where all graphs are one.
        graphs: Number of graphs.
        effect: How much nearer to its own output the pool brings hosts than random regions do, as
            a share of what is left to these; 1 is all, 0 nothing, below 0 away from it.
        low, high: Ends of its 95 % interval over graphs.
        p_value: How probable so much is by chance, by random signs of the graphs' differences.
        chosen, random: Of every graph, the share of the way from hosts as they are that the pool
            brings them nearer to its output, and that random regions do.
    """

    name: str | None
    graphs: int
    effect: float
    low: float
    high: float
    p_value: float
    chosen: tuple[float, ...] = ()
    random: tuple[float, ...] = ()

    def __str__(self) -> str:
        name = "" if self.name is None else f" on {self.name}"
        return f"effect{name} {self.effect:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True)
class FitReport:
    r"""Evidence for the chosen pool.

    Disagreement is one minus the correlation of outputs on hard mixes with the predictions they
    should keep: 0 if they always do and about 1 if the inserted nodes say nothing about them. It
    has no unit, so a model whose outputs differ by little is judged like any other.

    Args:
        disagreement: Of the chosen pool, among graphs that the search did not use.
        random_disagreement: Of random regions, as large and as connected, in the same places.
        left_low, left_high: Ends of the 95 % interval of :attr:`left` over graphs.
        p_value: How probable so much less is by chance: pools and random regions change places.
        effects: What the pool does for each predicted class.
        held_out: Number of different graphs on which all of this was measured; 0 if it was measured
            on those of the search, since there were too few others.
        edges: Whether the model's output depends on edges.
        agreement: Overlap of pooled nodes between chains, 0 for chance and 1 for the same nodes;
            ``None`` if there was one chain.
        pool_ratio: Mean share of pooled nodes.
        embedding: Where node embeddings were taken from, and how edges are weighted.
        ratio_curve: What the ratio was chosen from, if it was.
        only: The prediction of all graphs, if it is the same.
        crossed: Whether each half of few graphs was measured with what the other half told.
        guarantee: What ``explainer.guarantee`` found, if it was asked.
    """

    disagreement: float
    random_disagreement: float
    left_low: float
    left_high: float
    p_value: float
    effects: tuple[ClassEffect, ...]
    held_out: int
    edges: bool
    agreement: float | None
    pool_ratio: float
    embedding: str
    ratio_curve: list[RatioPoint] | None = None
    only: str | None = None
    crossed: bool = False
    guarantee: Guarantee | None = None

    @property
    def left(self) -> float:
        """Share of the disagreement of random regions that the chosen pool leaves."""
        return self.disagreement / max(self.random_disagreement, 1e-6)

    @property
    def effect(self) -> float:
        """The effect on the class that the pool does most for."""
        return max(one.effect for one in self.effects)

    @property
    def evidence(self) -> Evidence:
        """``"good"``, ``"small"`` but certain, too ``"few"`` graphs to tell, or ``"none"``."""
        return self._judged[0]

    @property
    def warnings(self) -> list[str]:
        """Reasons not to trust the explanations; empty if the evidence is good."""
        evidence, why = self._judged
        edges = "the model's output does not depend on edges, so scores of edges say nothing beyond"
        said = [] if evidence == "good" else [f"{self._words}: {why}"]
        return said if self.edges else [*said, f"{edges} those of their nodes"]

    @property
    def _judged(self) -> tuple[Evidence, str]:
        """What the evidence is, and why."""
        if self.only is not None:
            return "none", (
                f"all graphs have the same prediction ({self.only}), so none can show what carries "
                "it. Fit to graphs of several predictions"
            )
        ends = f"{1 - self.left_high:.0%} and {1 - self.left_low:.0%}"
        saved = f"the chosen nodes save between {ends} of the disagreement of random regions of "
        saved += f"the same size (p = {self.p_value:.2g}, {self._where})"
        if self.random_disagreement < ANYWAY and self.left_high > 1 - MUCH:
            whole = "The model may read the whole graph, or the pool is too large"
            keep = f"keep predictions by themselves (disagreement {self.random_disagreement:.2f})"
            if self.p_value <= SIGNIFICANT and all(one.low > 0 for one in self.effects):
                return "small", f"{saved}, but these {keep}. {whole}"
            return "none", f"random regions of the same size {keep}. {whole}"
        more = "Fit to more different graphs, of all predictions"
        if not self.held_out:
            return "few", f"{saved}, but none of them could be kept from the search. {more}"
        found = any(one.effect > 0 and one.p_value <= OF_A_CLASS for one in self.effects)
        if self.p_value <= SIGNIFICANT and found:
            if self.crossed and self.left_high > 1 - MUCH:
                return "few", f"{saved}, but a model may know so few by heart. {more}"
            part = "They are a part of what the model reads; another ratio may hold more"
            return "small" if self.left_high > 1 - self._little else "good", f"{saved}. {part}"
        against = [one for one in self.effects if one.high < -AGAINST and one.graphs >= FEW]
        if against:
            return "none", (
                f"{', '.join(map(str, against))}, so the chosen nodes change outputs the same way "
                "in graphs of all predictions. The model may count something"
            )
        chance = "which may be chance" if found else "and no class has a certain effect"
        rare = min(one.graphs for one in self.effects) < FEW
        if rare or self.left_low < 1 - POSSIBLE:
            return "few", f"{saved}, {chance}. {more}"
        check = "The model may not rely on a subgraph; check its accuracy, or try another ratio"
        return "none", f"{saved}, {chance}. {check}"

    def summary(self) -> str:
        """The evidence in one line."""
        agreement = "-" if self.agreement is None else f"{self.agreement:.2f}"
        chosen = f"pools {self.pool_ratio:.0%} of the nodes (chosen without labels); "
        return (chosen if self.ratio_curve else "") + (
            f"hard-mix disagreement {self.disagreement:.2f} (random {self.random_disagreement:.2f},"
            f" p = {self.p_value:.2g}, {self._where}), {', '.join(map(str, self.effects))}, "
            f"restarts agree {agreement}: "
            + (self._words or ("trust with care" if self.warnings else "good evidence"))
            + ("" if self.guarantee is None else f". {self.guarantee.sentence()}")
        )

    @property
    def _words(self) -> str:
        perhaps = self.evidence == "small" and 1 - self.left_low > self._little
        return "certain, but perhaps small" if perhaps else WORDS.get(self.evidence, "")

    @property
    def _little(self) -> float:
        return SMALL if self.held_out < MANY else SMALL_OF_MANY

    @property
    def _where(self) -> str:
        return f"{self.held_out} held-out graphs" if self.held_out else "the searched graphs"

    def _repr_html_(self) -> str:
        words = report_html(self.summary(), self.warnings)
        if not any(one.chosen for one in self.effects):
            return words
        from hpme.viz.charts import evidence_chart  # charts are built on reports
        from hpme.viz.style import render

        return words + render(evidence_chart(self.effects), ".svg").decode()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, with the derived ones."""
        derived = {"effect": self.effect, "evidence": self.evidence, "warnings": self.warnings}
        return {**asdict(self), **derived}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> FitReport:
        """The report :meth:`to_dict` came from."""
        given = {name: values[name] for name in cls.__dataclass_fields__ if name in values}
        if given.get("ratio_curve"):
            given["ratio_curve"] = [RatioPoint(**point) for point in given["ratio_curve"]]
        if given.get("guarantee"):
            given["guarantee"] = Guarantee(**given["guarantee"])
        for one in given["effects"]:
            one.update({name: tuple(one.get(name, ())) for name in ("chosen", "random")})
        given["effects"] = tuple(ClassEffect(**one) for one in given["effects"])
        return cls(**given)


def report_on(
    mix: HardMix, measured: Measured, candidates: Candidates | None, *, held_out: bool
) -> FitReport:
    """What was measured of the chosen pool, or of pools found in the same way, in numbers."""
    context, generator = mix.context, mix.generator
    return FitReport(
        *measured.disagreement,
        *measured.left(generator),
        p_value=measured.p_value(generator),
        effects=_effects(context, measured, generator),
        held_out=len(measured.wanted) if held_out else 0,
        edges=context.adapter.weighting != "none" or _reads_edges(context),
        agreement=None if candidates is None else _agreement(candidates),
        pool_ratio=float((mix.m / mix.graphs.sizes).mean()),
        embedding=context.adapter.describe(),
    )


def _effects(
    context: Context, measured: Measured, generator: torch.Generator
) -> tuple[ClassEffect, ...]:
    """The effect on every predicted class, or on all graphs of a regression."""
    groups: dict[str | None, Tensor] = {None: torch.ones(len(measured.wanted), dtype=torch.bool)}
    if (classes := measured.classes) is not None:
        groups = {class_name(context, i): classes == i for i in sorted(set(classes.tolist()))}
    return tuple(
        ClassEffect(name, int(own.sum()), *measured.effect(own, generator), *measured.shares(own))
        for name, own in groups.items()
    )


def _agreement(candidates: Candidates) -> float | None:
    """Mean overlap above chance between the best pools of chains, no two of which share a start."""
    mix, best = candidates.mix, candidates.finished()
    if len(best) < 2:
        return None
    keep = [mix.select(mix.scores(candidates.pool(number))).keep[0] for number in best]
    chance = float(keep[0].float().mean())  # pools are equally large
    pairs = [float((a & b).sum() / a.sum()) for i, a in enumerate(keep) for b in keep[:i]]
    return (sum(pairs) / len(pairs) - chance) / max(1e-6, 1 - chance)


@torch.no_grad()
def _reads_edges(context: Context) -> bool:
    """Whether outputs change when all edges are deleted; weights may not reach the model at all."""
    graphs = context.store.batch(torch.arange(min(64, len(context.store))))
    bare = graphs.edges(torch.zeros_like(graphs.edge_index[0], dtype=torch.bool))
    try:
        return differ(context.predict(graphs), context.predict(bare))
    except ModelError:  # it cannot do without edges
        return True
