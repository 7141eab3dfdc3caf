"""Node classification: edge ROC-AUC."""

from hpme.paper.shared.blocks import score_page
from hpme.paper.shared.names import OURS, OWN_SIZE, PRINTED
from hpme.paper.shared.suite import Suite, each, together

DATASETS = ("ba-shapes", "ba-community", "tree-grid")
METHODS = (
    *("random", "grad", "gnnexplainer", "pgexplainer", "mixupexplainer"),
    *("occlusion", "integratedgradients", PRINTED, OURS),
)

SUITE = Suite(
    "nodes",
    "Edge ROC-AUC for node classification",
    together(*(
        part
        for dataset in DATASETS
        for part in (each([dataset], METHODS), each([dataset], [OURS], options=[OWN_SIZE]))
    )),
    score_page("Edge ROC-AUC, node classification", ["auc"], "nodes"),
)  # fmt: skip
