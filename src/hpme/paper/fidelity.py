"""SimOAR and robust fidelity."""

from hpme.bench.experiment import GROUND_TRUTH
from hpme.paper.shared.blocks import score_page
from hpme.paper.shared.names import OURS, PRINTED
from hpme.paper.shared.suite import Suite, each, together

BOUNDS = (GROUND_TRUTH, "random")
"""What the paper's methods should lie between."""
OF_CLASSES = (
    *("gnnexplainer", "pgexplainer", "mixupexplainer", "proxyexplainer"),
    *(PRINTED, OURS),
)
OF_VALUES = ("mixupexplainer", "regexplainer", PRINTED, OURS)
METRICS = ("simoar", "robust_fidelity", "fidelity", "precision")

SUITE = Suite(
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
