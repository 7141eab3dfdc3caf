"""Node classification: edge ROC-AUC."""

from __future__ import annotations

from hpme.paper.shared.blocks import annex
from hpme.paper.shared.cells import Cells, Results
from hpme.paper.shared.document import Block
from hpme.paper.shared.numbers import paper_table
from hpme.paper.shared.scores import score_table
from hpme.paper.shared.suite import Suite, each

DATASETS = ("ba-shapes", "ba-community", "tree-grid")
METHODS = ("random", "grad", "gnnexplainer", "pgexplainer", "mixupexplainer", "hpme")


def blocks(cells: Cells, _: Results) -> list[Block]:
    """One table."""
    caption = "Edge ROC-AUC, node classification"
    table = score_table("nodes", caption, cells, ["auc"], paper=paper_table("nodes"))
    return [table, *annex(cells)]


SUITE = Suite("nodes", "Edge ROC-AUC for node classification", each(DATASETS, METHODS), blocks)
