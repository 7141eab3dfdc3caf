"""HPME as printed, by weight of the BCE."""

from hpme.paper.shared.blocks import sensitivity
from hpme.paper.shared.names import PRINTED
from hpme.paper.shared.suite import Suite, each

DATASETS = ("ba-houseandgrid", "benzene", "ba-motif-volume", "house-grid-volume")
WEIGHTS = [{"bce_weight": step / 10} for step in range(1, 11)]
"""In the paper's unit: the BCE is summed over the edges of a graph."""

SUITE = Suite(
    "beta",
    "HPME as printed by weight of the BCE",
    each(DATASETS, [PRINTED], options=WEIGHTS),
    sensitivity("bce_weight", r"weight $\beta$ of the BCE"),
)
