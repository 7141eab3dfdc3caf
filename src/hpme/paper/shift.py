"""Distribution shift: how far mixup graphs and the ground truth are from the graph."""

from hpme.bench.experiment import GROUND_TRUTH
from hpme.paper.shared.blocks import score_page
from hpme.paper.shared.names import OURS, PRINTED
from hpme.paper.shared.suite import Suite, each, together

OF_CLASSES = ("ba-housegrid", "ba-houseandgrid", "benzene", "fluoride-carbonyl")
OF_VALUES = ("ba-motif-volume", "ba-motif-counting", "crippen", "triangles")
COMMON = (GROUND_TRUTH, "pgexplainer", "mixupexplainer")

SUITE = Suite(
    "shift",
    "Distance of graphs to mixup graphs and to the ground truth",
    # The table of the main text is a part of the two in the appendix.
    together(
        each(OF_CLASSES, (*COMMON, "proxyexplainer", PRINTED, OURS), metrics=("shift",)),
        each(OF_VALUES, (*COMMON, "regexplainer", PRINTED, OURS), metrics=("shift",)),
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
