"""What the page says of an explainer beside predictions: scores, AUC, and how good its fit is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.explainers.hpme.quality import Quality
from hpme.explainers.hpme.report import FitReport
from hpme.graphs import GraphStore, Pairs
from hpme.metrics import explanation_auc_per_graph
from hpme.page.template import Column, decimals, shares, whole_numbers
from hpme.viz.style import directions

Truth = dict[str, Tensor]
"""Whether each ``graph`` has ground truth, each ``pair`` of joined nodes is, and each ``node``."""
VERDICT, ABSENCE = "verdict", "absence"
TOLD = ("carried", "lost", "effect", "random", "removal", "p", "stable")
"""Numbers of a :class:`Quality` that are shown on demand, and by which graphs can be sorted."""


def truth_of(graphs: Sequence[Any], pairs: Pairs) -> Truth | None:
    """Reads ``edge_mask`` and ``node_mask`` of graphs; ``None`` if no edge is marked."""
    edges = [_mask(graph, "edge_mask", graph.num_edges) for graph in graphs]
    nodes = [_mask(graph, "node_mask", graph.num_nodes) for graph in graphs]
    has = torch.tensor([bool(mask.any()) for mask in edges])
    if not has.any():
        return None
    return {"graph": has, "pair": pairs.any(torch.cat(edges)), "node": torch.cat(nodes)}


def _auc(truth: Truth, explanations: Sequence[Any], graphs: Sequence[Any]) -> Tensor:
    """AUC of every graph, NaN where there is no ground truth."""
    values = torch.full((len(graphs),), torch.nan, dtype=torch.double)
    chosen = truth["graph"].nonzero().view(-1).tolist()
    found = explanation_auc_per_graph(
        [explanations[i] for i in chosen], [graphs[i] for i in chosen]
    )
    values[chosen] = torch.as_tensor(found, dtype=torch.double)
    return values


def _mask(graph: Any, name: str, count: int) -> Tensor:
    mask = graph.get(name)
    if mask is None or mask.shape != (count,):
        return torch.zeros(count, dtype=torch.bool)
    chosen: Tensor = mask.bool()
    return chosen


def edge_scores(explanations: Sequence[Any], store: GraphStore, name: str) -> Tensor:
    """Scores of all directed edges, end to end.

    Raises:
        InputError: If an explanation does not fit its graph.
    """
    if len(explanations) != len(store):
        raise InputError(
            f"one explanation per graph is needed, got {len(explanations)} of '{name}' for "
            f"{len(store)} graphs"
        )
    masks = [explanation.get("edge_mask") for explanation in explanations]
    for number, (mask, edges) in enumerate(zip(masks, store.edge_counts.tolist(), strict=True)):
        if mask is None or mask.shape != (edges,):
            found = "no edge_mask" if mask is None else f"an edge_mask of shape {tuple(mask.shape)}"
            raise InputError(
                f"explanation {number} of '{name}' has {found}, its graph {edges} edges; pass "
                "explanations in the order of the graphs"
            )
    return torch.cat([mask.detach() for mask in masks]).double()


def entry(
    explanations: Sequence[Any], score: Tensor, graphs: Sequence[Any], truth: Truth | None
) -> dict[str, Any]:
    """What the page knows about an explainer beside predictions."""
    finite = score[score.isfinite()]
    low, high = (float(finite.min()), float(finite.max())) if finite.numel() else (0.0, 1.0)
    metrics = {"AUC": decimals(_auc(truth, explanations, graphs))} if truth else {}
    given = [explanation.get("quality") for explanation in explanations]
    qualities = [_by_name(quality) for quality in given]
    for name in dict.fromkeys(name for quality in qualities for name in quality if name != VERDICT):
        metrics[str(name)] = numbers([q.get(name, math.nan) for q in qualities])
    sentences = [q.sentence() if isinstance(q, Quality) else None for q in given]
    pooled, rest = pooled_nodes(explanations), pooled_nodes(explanations, "rest")
    verdicts = [quality.get(VERDICT) for quality in qualities]
    return {
        "score": shares(score, low, high),
        "broken": int((~score.isfinite()).sum()),
        "pooled": None if pooled is None else whole_numbers(pooled),
        "rest": None if rest is None or not bool(rest.any()) else whole_numbers(rest),
        "verdicts": verdicts if any(verdicts) else None,
        "sentences": sentences if any(sentences) else None,
        "points": _points(given),
        "direction": _directions(explanations),
        "metrics": metrics,
    }


def _points(qualities: Sequence[Any]) -> list[Column] | None:
    """How far regions carry predictions into other graphs, and how far random regions do."""
    if not any(isinstance(quality, Quality) for quality in qualities):
        return None
    none = (math.nan, math.nan)
    shares = [q.shares if isinstance(q, Quality) else none for q in qualities]
    return [numbers(column) for column in zip(*shares, strict=True)]


def _directions(explanations: Sequence[Any]) -> Column | None:
    """Nodes that lower the output (0), do not clearly change it (1), and raise it (2)."""
    found = [directions(explanation) for explanation in explanations]
    if any(one is None for one in found) or not found:
        return None
    return whole_numbers(torch.cat([one + 1 for one in found if one is not None]))


def _by_name(quality: Any) -> dict[str, Any]:
    """What ``HPMEExplainer.quality`` says, or a mapping."""
    if isinstance(quality, Quality):
        return {name: getattr(quality, name) for name in (VERDICT, *TOLD)}
    return dict(quality or {})


def pooled_nodes(explanations: Sequence[Any], name: str = "pooled") -> Tensor | None:
    """Pooled nodes of all graphs, if all explanations have them; none where there is nothing."""
    masks = [explanation.get(name) for explanation in explanations]
    if any(mask is None for mask in masks):
        return None
    qualities = [_by_name(explanation.get("quality")) for explanation in explanations]
    # Where a prediction rests on something missing, scattered nodes would only mislead.
    missing = [quality.get(VERDICT) == ABSENCE for quality in qualities]
    return torch.cat([mask & (not gone) for mask, gone in zip(masks, missing, strict=True)]).bool()


def evidence(report: Any) -> dict[str, Any]:
    """A line to show (``evidence``), its warnings, and whether it is ``good``."""
    if report is None:
        return {"evidence": None, "warnings": [], "good": None}
    text = _in_words(report) if isinstance(report, FitReport) else str(report.summary())
    warnings = [str(warning) for warning in report.warnings]
    return {"evidence": text, "warnings": warnings, "good": not warnings}


def _in_words(report: FitReport) -> str:
    parts = [
        "Planted in other graphs, the nodes it chose should carry the prediction with them. They "
        f"fail to in {report.disagreement:.2f} of a scale where 0 means never and 1 that the nodes "
        f"say nothing; random regions score {report.random_disagreement:.2f} "
        f"(p = {report.p_value:.2g})."
    ]
    if report.agreement is not None:
        parts.append(
            f"Independent searches agree on the nodes by {report.agreement:.2f} (0 is chance, 1 "
            "the same nodes)."
        )
    where = f"{report.held_out} graphs it had not seen" if report.held_out else "its own graphs"
    parts.append(f"Measured on {where}: {', '.join(map(str, report.effects))}; 1 is all of it.")
    if report.guarantee is not None:
        parts.append(report.guarantee.sentence())
    return " ".join(parts)


def numbers(values: Sequence[float]) -> Column:
    """A column of numbers of any type."""
    return decimals(torch.tensor([float(value) for value in values], dtype=torch.double))


def text_or_none(value: Any) -> str | None:
    """A text that says something."""
    return value if isinstance(value, str) and value else None
