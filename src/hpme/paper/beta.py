"""HPME by gradient, by weight of the BCE."""

from hpme.paper.shared.blocks import sensitivity
from hpme.paper.shared.suite import Suite, each

DATASETS = ("ba-houseandgrid", "benzene", "ba-motif-volume", "house-grid-volume")
WEIGHTS = [{"bce_weight": step / 10} for step in range(1, 11)]

SUITE = Suite(
    "beta",
    "HPME by weight of the BCE",
    each(DATASETS, ["hpme-gradient"], options=WEIGHTS),
    sensitivity("bce_weight", r"weight $\beta$ of the BCE"),
)
