"""Link prediction as in the paper: robust fidelity, with the labels of SEAL."""

from hpme.paper import nodes
from hpme.paper.shared.blocks import score_page
from hpme.paper.shared.names import OURS, PRINTED
from hpme.paper.shared.suite import Suite, each

DATASETS = [f"{name}-links" for name in nodes.DATASETS]
METHODS = ("random", "pgexplainer", PRINTED, OURS)
"""There is no ground truth: HPME chooses the pooled size itself, as printed it is told a half."""

SUITE = Suite(
    "links",
    "Robust fidelity for link prediction",
    each(DATASETS, METHODS, model="dgcnn", metrics=("robust_fidelity",)),
    score_page(
        "Robust fidelity, link prediction",
        ("robust_fidelity_plus", "robust_fidelity_minus"),
        "links",
        spread="graphs",
    ),
)
