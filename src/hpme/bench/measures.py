"""Metric sets by name: what an experiment can be asked to measure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch_geometric.explain import Explanation

from hpme.bench.experiment import GROUND_TRUTH
from hpme.bench.outcome import Outcome, without_ground_truth
from hpme.data import GraphStore
from hpme.explainers import MixingExplainer
from hpme.metrics import (
    GraphScores,
    MetricValue,
    accuracy,
    explanation_auc,
    explanation_auc_per_graph,
    macro_f1,
    mape,
    precision_at_k,
    rmse,
    truth_shift,
    truth_sizes,
)
from hpme.metrics import fidelity as plain_fidelity
from hpme.metrics import robust_fidelity as robust
from hpme.metrics import shift as shift_between
from hpme.metrics import simoar as simoar_of
from hpme.metrics.selection import Size
from hpme.metrics.simoar import simoar_references
from hpme.models import TargetGNN, predict


class Measured(NamedTuple):
    """A metric of an experiment.

    Args:
        value: The value, ``None`` if undefined.
        spread: Standard deviation over graphs, if the value is a mean over graphs.
        reason: Why the value is undefined.
    """

    value: float | None
    spread: float | None = None
    reason: str | None = None

    @classmethod
    def of(cls, result: MetricValue | GraphScores) -> Measured:
        """From what a metric returns."""
        value = result.mean if isinstance(result, GraphScores) else result
        if value.reason is not None:
            return cls(None, None, value.reason)
        return cls(float(value), float(result.std) if isinstance(result, GraphScores) else None)


def auc(outcome: Outcome) -> dict[str, Measured]:
    """Edge ROC-AUC against the ground truth, pooled over all edges and as a mean over graphs."""
    explanations, graphs = outcome.explanations, outcome.graphs
    mean = explanation_auc(explanations, graphs, reduction="per_graph")
    single = GraphScores(explanation_auc_per_graph(explanations, graphs), mean.reason or "")
    return {
        "auc": Measured.of(explanation_auc(explanations, graphs)),
        "auc_per_graph": Measured.of(single) if mean.reason is None else Measured.of(mean),
    }


def precision(outcome: Outcome) -> dict[str, Measured]:
    """Share of ground truth among as many of the best edges as the ground truth has."""
    return {"precision": Measured.of(precision_at_k(outcome.explanations, outcome.graphs))}


def fidelity(outcome: Outcome) -> dict[str, Measured]:
    """What deleting the explanation, or all else, does to the prediction."""
    result = plain_fidelity(*_explained(outcome), **_task(outcome))
    return {"fidelity_plus": Measured.of(result.plus), "fidelity_minus": Measured.of(result.minus)}


def robust_fidelity(outcome: Outcome) -> dict[str, Measured]:
    """Fidelity under small random deletions, with the paper's parameters."""
    result = robust(*_explained(outcome), **_task(outcome))
    return {
        "robust_fidelity_plus": Measured.of(result.plus),
        "robust_fidelity_minus": Measured.of(result.minus),
    }


def simoar(outcome: Outcome) -> dict[str, Measured]:
    """SimOAR with the paper's parameters; of random and of no explanations for comparison."""
    references = simoar_references(*_explained(outcome), **_task(outcome))
    return {
        "simoar": Measured.of(simoar_of(*_explained(outcome), **_task(outcome))),
        "simoar_random": Measured.of(references.random),
        "simoar_empty": Measured.of(references.empty),
    }


def shift(outcome: Outcome) -> dict[str, Measured]:
    """Cosine similarity and Euclidean distance of graph embeddings to what stands for the graph.

    That is the mixup graph of explainers that make one, the ground-truth subgraph for the ground
    truth, and for all others the graph with its edges weighted by the explanation.
    """
    model = outcome.target.model
    if outcome.experiment.explainer == GROUND_TRUTH:
        result = truth_shift(model, outcome.graphs)
    elif isinstance(outcome.explainer, MixingExplainer):
        graphs = without_ground_truth(outcome.graphs + outcome.companions)
        mixups = outcome.explainer.mixup_graphs(model, graphs, mode=outcome.mode)
        result = shift_between(model, graphs, mixups.graphs, mixups.edge_weight)
    else:
        graphs = without_ground_truth(outcome.graphs)
        weight = torch.cat([explanation.edge_mask for explanation in outcome.explanations])
        result = shift_between(model, graphs, graphs, weight)
    count = len(outcome.graphs)  # companions are there to be mixed with
    return {
        name: Measured.of(GraphScores(scores.per_graph[:count], scores.why))
        for name, scores in (("cosine", result.cosine), ("euclidean", result.euclidean))
    }


def target(outcome: Outcome) -> dict[str, Measured]:
    """What the target scores on its test split."""
    dataset = outcome.dataset
    store = GraphStore.from_graphs([dataset[int(i)] for i in dataset.split["test"]])
    output, labels = predict(outcome.target.model, store), store.y
    assert labels is not None
    if dataset.info.task == "regression":
        scores = {"rmse": rmse(output, labels), "mape": mape(output, labels)}
    else:
        scores = {"accuracy": accuracy(output, labels), "macro_f1": macro_f1(output, labels)}
    return {name: Measured.of(value) for name, value in scores.items()}


def _explained(outcome: Outcome) -> tuple[TargetGNN, list[Explanation], Size]:
    """Explanations have as many edges as the ground truth, if there is one."""
    truth = outcome.dataset.has_ground_truth
    size = truth_sizes(outcome.graphs) if truth else outcome.dataset.pool_ratio
    return outcome.target.model, outcome.explanations, size


def _task(outcome: Outcome) -> dict[str, Any]:
    return {"mode": outcome.mode, "seed": outcome.experiment.seed}


MEASURES: dict[str, Callable[[Outcome], dict[str, Measured]]] = {
    measure.__name__: measure
    for measure in (auc, precision, fidelity, robust_fidelity, simoar, shift, target)
}
"""All metric sets by name."""
