"""HPME by pooling ratio."""

from hpme.paper.shared.blocks import sensitivity
from hpme.paper.shared.names import OWN_SIZE
from hpme.paper.shared.suite import Options, Suite, each

DATASETS = ("benzene", "ba-housegrid", "ba-motif-volume", "ba-motif-counting")
RATIOS: list[Options] = [{}, OWN_SIZE, *({"ratio": step / 10} for step in range(1, 11))]
"""Without an option the ratio is that of the ground truth."""

SUITE = Suite(
    "ratio",
    "HPME by pooling ratio",
    each(DATASETS, ["hpme"], options=RATIOS),
    sensitivity("ratio", "pooling ratio $r$", mark_truth=True),
)
