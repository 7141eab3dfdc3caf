"""Node classification: edge ROC-AUC."""

from hpme.paper.shared.blocks import score_page
from hpme.paper.shared.names import OURS, PRINTED
from hpme.paper.shared.suite import Suite, each

DATASETS = ("ba-shapes", "ba-community", "tree-grid")
METHODS = (
    *("random", "grad", "gnnexplainer", "pgexplainer", "mixupexplainer"),
    *(PRINTED, OURS),
)

SUITE = Suite(
    "nodes",
    "Edge ROC-AUC for node classification",
    each(DATASETS, METHODS),
    score_page("Edge ROC-AUC, node classification", ["auc"], "nodes"),
)
