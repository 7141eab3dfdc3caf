"""What settings are worth: one for all datasets, one chosen for each, and the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from hpme.bench.experiment import Experiment
from hpme.paper.shared.blocks import annex, score_tables
from hpme.paper.shared.cells import Cells, Results
from hpme.paper.shared.comparison import comparison
from hpme.paper.shared.document import Block
from hpme.paper.shared.names import OURS, OWN_SIZE, explainer_title
from hpme.paper.shared.suite import GRAPH_DATASETS, Suite, by_target, each
from hpme.paper.table1 import TARGETS
from hpme.paper.tune import GRIDS, Rule, setting

NOTE = (
    "Default: the setting of the explainer, one for all datasets. Chosen: one for each, found "
    "without ground truth by the hard mix. Oracle: one for each, found by the ground truth of "
    "another seed, which nobody can do who does not know the answer. HPME finds its size by "
    "itself here and has one setting for all datasets."
)


def experiments(seeds: Sequence[int]) -> list[Experiment]:
    """Every method with each of its settings once, and HPME with its own size."""
    found = []
    for dataset in GRAPH_DATASETS:
        for method in GRIDS:
            options = [setting(method, dataset, rule) for rule in get_args(Rule)]
            distinct = [o for place, o in enumerate(options) if o not in options[:place]]
            found += each([dataset], [method], options=distinct, targets=TARGETS)(seeds)
        found += each([dataset], [OURS], options=[OWN_SIZE], targets=TARGETS)(seeds)
    return by_target(found)


def blocks(cells: Cells, _: Results) -> list[Block]:
    """A table for each task; a result stands in the row of every rule that leads to it."""
    every = [
        replace(cell, row=f"{explainer_title(method)}, {rule}")
        for rule in get_args(Rule)
        for method in GRIDS
        for cell in cells.every
        if cell.template.explainer == method
        and dict(cell.template.options) == setting(method, cell.template.dataset, rule)
    ]
    ours = [cell for cell in cells.every if cell.template.explainer == OURS]
    named = Cells(cells.suite, (*every, *ours))
    found = score_tables(named, "Edge ROC-AUC by how settings are found, graph {}", ["auc"])
    return [NOTE, *found, *comparison(named), *annex(named)]


BASELINES = Suite("baselines", "Baselines: default, chosen and best settings", experiments, blocks)
