"""How good explanations are, and predictions; an undefined metric is NaN and says why."""

from hpme.metrics.deletion import DeletionOptions
from hpme.metrics.fidelity import (
    Fidelity,
    SimOARReferences,
    fidelity,
    robust_fidelity,
    simoar,
    simoar_references,
)
from hpme.metrics.prediction import accuracy, macro_f1, mape, rmse
from hpme.metrics.shared import GraphScores, MetricValue, hard_masks, truth_sizes
from hpme.metrics.shift import Shift, shift, truth_shift
from hpme.metrics.truth import (
    edge_auc,
    edge_auc_per_graph,
    explanation_auc,
    explanation_auc_per_graph,
    precision_at_k,
)

__all__ = [
    "DeletionOptions",
    "Fidelity",
    "GraphScores",
    "MetricValue",
    "Shift",
    "SimOARReferences",
    "accuracy",
    "edge_auc",
    "edge_auc_per_graph",
    "explanation_auc",
    "explanation_auc_per_graph",
    "fidelity",
    "hard_masks",
    "macro_f1",
    "mape",
    "precision_at_k",
    "rmse",
    "robust_fidelity",
    "shift",
    "simoar",
    "simoar_references",
    "truth_shift",
    "truth_sizes",
]
