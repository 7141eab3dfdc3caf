"""Node classification: edge ROC-AUC."""

from __future__ import annotations

from collections.abc import Sequence

from hpme.bench.experiment import Experiment
from hpme.paper.shared.annex import annex
from hpme.paper.shared.cells import Cells
from hpme.paper.shared.document import Block
from hpme.paper.shared.numbers import paper_table
from hpme.paper.shared.results import Results
from hpme.paper.shared.scores import score_table
from hpme.paper.shared.suite import Suite, experiments_of

DATASETS = ("ba-shapes", "ba-community", "tree-grid")
METHODS = ("random", "grad", "gnnexplainer", "pgexplainer", "mixupexplainer", "hpme")


def experiments(seeds: Sequence[int]) -> list[Experiment]:
    """The paper's methods, and random explanations."""
    return experiments_of(DATASETS, METHODS, seeds)


def blocks(cells: Cells, _: Results) -> list[Block]:
    """One table."""
    caption = "Edge ROC-AUC, node classification"
    table = score_table("nodes", caption, cells, ["auc"], paper=paper_table("nodes"))
    return [table, *annex(cells)]


SUITE = Suite("nodes", "Edge ROC-AUC for node classification", experiments, blocks=blocks)
