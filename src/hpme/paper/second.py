"""All methods on the same models, trained anew from other weights and in another order."""

from hpme.paper.shared.blocks import score_page
from hpme.paper.shared.names import OURS, OWN_SIZE
from hpme.paper.shared.suite import CLASSIFICATION, REGRESSION, SEEDS, Suite, each, together
from hpme.paper.table1 import METHODS

SAME_MODEL = [method for method in METHODS if method != "att"]
"""ATT explains a model of its own, whatever the others are given."""

SUITE = Suite(
    "second",
    "All methods on a second target, trained with another seed",
    together(*(
        part
        for dataset in CLASSIFICATION + REGRESSION
        for part in (
            each([dataset], SAME_MODEL, target_seed=1),
            each([dataset], [OURS], options=[OWN_SIZE], target_seed=1),
        )
    )),
    score_page("Edge ROC-AUC, graph {}", ["auc"], "table1"),
    SEEDS[:5],
)  # fmt: skip
