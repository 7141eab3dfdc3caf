"""HPME on the same models, trained anew from other weights and in another order."""

from hpme.paper.shared.blocks import score_page
from hpme.paper.shared.suite import CLASSIFICATION, REGRESSION, Suite, each

SUITE = Suite(
    "second",
    "HPME on a second target, trained with another seed",
    each(CLASSIFICATION + REGRESSION, ["hpme"], target_seed=1),
    score_page("Edge ROC-AUC, graph {}", ["auc"], "table1"),
)
