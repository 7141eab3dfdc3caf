"""Heterogeneous graphs: edge ROC-AUC."""

from hpme.paper.shared.blocks import score_page
from hpme.paper.shared.suite import Suite, each

DATASETS = ("hetero-motifs", "hetero-fraud")
METHODS = (
    *("random", "grad", "integratedgradients", "occlusion"),
    *("gnnexplainer", "pgexplainer", "hpme"),
)

SUITE = Suite(
    "hetero",
    "Edge ROC-AUC for heterogeneous graphs",
    each(DATASETS, METHODS, model="hetero"),
    score_page("Edge ROC-AUC, heterogeneous graphs", ["auc"]),
)
