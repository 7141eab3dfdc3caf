"""How good explanations are; an undefined metric is NaN and says why."""

from hpme.metrics.auc import (
    edge_auc,
    edge_auc_per_graph,
    explanation_auc,
    explanation_auc_per_graph,
)
from hpme.metrics.value import MetricValue

__all__ = [
    "MetricValue",
    "edge_auc",
    "edge_auc_per_graph",
    "explanation_auc",
    "explanation_auc_per_graph",
]
