"""Measures that need no ground truth: SimOAR, robust fidelity, distribution shift."""

from hpme.bench.experiment import GROUND_TRUTH
from hpme.paper.shared.blocks import score_page
from hpme.paper.shared.names import OURS, PRINTED
from hpme.paper.shared.suite import Suite, each, together

BOUNDS = (GROUND_TRUTH, "random")
"""What the paper's methods should lie between."""
OF_CLASSES = ("gnnexplainer", "pgexplainer", "mixupexplainer", "proxyexplainer", PRINTED, OURS)
OF_VALUES = ("mixupexplainer", "regexplainer", PRINTED, OURS)
METRICS = ("simoar", "robust_fidelity", "fidelity", "precision")
SHIFTED_CLASSES = ("ba-housegrid", "ba-houseandgrid", "benzene", "fluoride-carbonyl")
SHIFTED_VALUES = ("ba-motif-volume", "ba-motif-counting", "crippen", "triangles")
SHIFTED_BY = (GROUND_TRUTH, "pgexplainer", "mixupexplainer")

FIDELITY = Suite(
    "fidelity",
    "SimOAR and robust fidelity",
    together(
        each(("alkane-carbonyl", "ba-housegrid"), (*BOUNDS, *OF_CLASSES), metrics=METRICS),
        each(("house-orgrid-volume", "ba-motif-volume"), (*BOUNDS, *OF_VALUES), metrics=METRICS),
    ),
    score_page(
        "SimOAR and robust fidelity, {}",
        ("simoar", "robust_fidelity_plus", "robust_fidelity_minus"),
        "fidelity",
        spread="graphs",
        more=("simoar_random", "simoar_empty", "fidelity_plus", "fidelity_minus", "precision"),
    ),
)
SHIFT = Suite(
    "shift",
    "Distance of graphs to mixup graphs and to the ground truth",
    # The table of the main text is a part of the two in the appendix.
    together(
        each(SHIFTED_CLASSES, (*SHIFTED_BY, "proxyexplainer", PRINTED, OURS), metrics=("shift",)),
        each(SHIFTED_VALUES, (*SHIFTED_BY, "regexplainer", PRINTED, OURS), metrics=("shift",)),
    ),
    score_page(
        "Cosine similarity and Euclidean distance of graph representations to those of the graph"
        ", {}",
        ("cosine", "euclidean"),
        "shift-classification",
        "shift-regression",
        spread="graphs",
        note="shift",
    ),
)
