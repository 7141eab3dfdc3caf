"""HPME by one of its settings: the weight of the BCE as printed, the pooling ratio."""

from hpme.paper.shared.blocks import sensitivity
from hpme.paper.shared.names import OWN_SIZE, PRINTED
from hpme.paper.shared.suite import Options, Suite, each

WEIGHTS = [{"bce_weight": weight} for weight in (0.1, 0.3, 0.5, 0.7, 1.0)]
"""Half of the paper's, in its unit: the BCE is summed over the edges of a graph."""
RATIOS: list[Options] = [{}, OWN_SIZE, *({"ratio": step / 10} for step in range(1, 11))]
"""Without an option the ratio is that of the ground truth."""

BETA = Suite(
    "beta",
    "HPME as printed by weight of the BCE",
    each(
        ("ba-houseandgrid", "benzene", "ba-motif-volume", "house-grid-volume"),
        [PRINTED],
        options=WEIGHTS,
    ),
    sensitivity("bce_weight", r"weight $\beta$ of the BCE"),
)
RATIO = Suite(
    "ratio",
    "HPME by pooling ratio",
    each(
        ("benzene", "ba-housegrid", "ba-motif-volume", "ba-motif-counting"),
        ["hpme"],
        options=RATIOS,
    ),
    sensitivity("ratio", "pooling ratio $r$", mark_truth=True),
)
