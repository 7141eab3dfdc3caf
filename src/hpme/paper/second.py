"""HPME on the same models, trained anew from other weights and in another order."""

from hpme.paper.shared.blocks import by_task
from hpme.paper.shared.suite import CLASSIFICATION, REGRESSION, Suite, each

SUITE = Suite(
    "second",
    "HPME on a second target, trained with another seed",
    each(CLASSIFICATION + REGRESSION, ["hpme"], target_seed=1),
    by_task,
)
