"""All methods on the same models, trained anew from other weights and in another order."""

from __future__ import annotations

from hpme.paper.shared.blocks import annex, evidence_tables, score_tables
from hpme.paper.shared.cells import Cells, Results
from hpme.paper.shared.comparison import comparison
from hpme.paper.shared.document import Block
from hpme.paper.shared.names import OURS, OWN_SIZE
from hpme.paper.shared.suite import CLASSIFICATION, REGRESSION, Suite, each, together
from hpme.paper.table1 import METHODS

SAME_MODEL = [method for method in METHODS if method != "att"]
"""ATT explains a model of its own, whatever the others are given."""


def blocks(cells: Cells, _: Results) -> list[Block]:
    """Tables by task, and who is better than whom."""
    found = score_tables(cells, "Edge ROC-AUC, graph {}", ["auc"], "table1")
    return [*found, *comparison(cells), *evidence_tables(cells), *annex(cells)]


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
    blocks,
)  # fmt: skip
