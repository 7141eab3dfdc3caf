"""The main table: edge ROC-AUC of all methods on all graph datasets."""

from __future__ import annotations

from hpme.paper.shared.blocks import annex, tables_by_task
from hpme.paper.shared.cells import Cells, Results
from hpme.paper.shared.comparison import comparison_table, dataset_ranks, scores_of, tests_of
from hpme.paper.shared.document import Block, Picture
from hpme.paper.shared.names import OURS, method_title
from hpme.paper.shared.suite import (
    CLASSIFICATION,
    REGRESSION,
    Suite,
    each,
    registered_elsewhere,
)
from hpme.viz.charts import rank_chart

METHODS = (
    "random",
    "grad",
    "att",
    "metagnn",
    "gnnexplainer",
    "pgexplainer",
    "tagexplainer",
    "matchexplainer",
    "mixupexplainer",
    "proxyexplainer",
    "regexplainer",
    "hpme",
)
LEVEL = 0.05
"""Of significance."""


def blocks(cells: Cells, _: Results) -> list[Block]:
    """Tables by task, and who is better than whom."""
    found = tables_by_task(cells)
    caption = "Average rank over datasets, and HPME against each other method"
    comparison = comparison_table("table1-ranks", caption, cells, "auc")
    if comparison is not None:
        found += [comparison, *_ranks(cells)]
    return [*found, *annex(cells)]


def _ranks(cells: Cells) -> list[Block]:
    ranks, common = dataset_ranks(scores_of(cells, "auc"))
    if not common:
        return []
    tests = tests_of(cells, "auc")
    equal = [row for row, test in tests.items() if test.p_holm is None or test.p_holm >= LEVEL]
    figure = rank_chart(ranks, ours=method_title(OURS), equal=equal)
    caption = (
        f"Ranks on the {len(common)} datasets where every method has a value. Hollow: Wilcoxon's "
        f"test with Holm's correction does not tell the method from HPME at the level {LEVEL}."
    )
    return [Picture("table1-ranks", caption, figure)]


SUITE = Suite(
    "table1",
    "Edge ROC-AUC of all methods on the 13 graph datasets",
    # Methods of other packages, which are not known yet, stand beside the paper's.
    lambda seeds: each(CLASSIFICATION + REGRESSION, (*METHODS, *registered_elsewhere()))(seeds),
    blocks,
)
