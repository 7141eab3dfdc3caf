"""HPME as printed, by weight of the BCE."""

from hpme.paper.shared.blocks import sensitivity
from hpme.paper.shared.names import PRINTED
from hpme.paper.shared.suite import Suite, each

DATASETS = ("ba-houseandgrid", "benzene", "ba-motif-volume", "house-grid-volume")
WEIGHTS = [{"bce_weight": weight} for weight in (0.1, 0.3, 0.5, 0.7, 1.0)]
"""Half of the paper's, in its unit: the BCE is summed over the edges of a graph."""

SUITE = Suite(
    "beta",
    "HPME as printed by weight of the BCE",
    each(DATASETS, [PRINTED], options=WEIGHTS),
    sensitivity("bce_weight", r"weight $\beta$ of the BCE"),
)
