"""What settings and what the size of the ground truth are worth.

Baselines with one setting for all datasets, with one chosen for each, and with the best; methods
that use a size with that of the ground truth and without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from hpme.bench.experiment import Experiment
from hpme.data.dataset import DEFAULT_POOL_RATIO
from hpme.explainers import EXPLAINERS
from hpme.paper.shared.blocks import annex, score_tables
from hpme.paper.shared.cells import Cells, Results
from hpme.paper.shared.comparison import comparison
from hpme.paper.shared.document import Block
from hpme.paper.shared.names import OURS, OWN_SIZE, PRINTED, explainer_title, method_title
from hpme.paper.shared.suite import GRAPH_DATASETS, Options, Suite, each, together
from hpme.paper.tune import GRIDS, Rule, setting

NOTE = (
    "Default: the setting of the explainer, one for all datasets. Chosen: one for each, found "
    "without ground truth by the hard mix. Oracle: one for each, found by the ground truth of "
    "another seed, which nobody can do who does not know the answer. HPME finds its size by "
    "itself here and has one setting for all datasets."
)
SIZED = ("matchexplainer", PRINTED, OURS)
TOLD_NOTE = (
    "Told: the size of the ground truth. Not told: HPME chooses a share from the graphs and the "
    "model alone; MatchExplainer and HPME as printed, which have no way to choose, take "
    f"{DEFAULT_POOL_RATIO:g} everywhere. SubgraphX, which is told it in the main table, is left "
    "out; no other method uses one."
)


def experiments(seeds: Sequence[int]) -> list[Experiment]:
    """Every method with each of its settings once, and HPME with its own size."""
    found = []
    for dataset in GRAPH_DATASETS:
        for method in GRIDS:
            options = [setting(method, dataset, rule) for rule in get_args(Rule)]
            distinct = [o for place, o in enumerate(options) if o not in options[:place]]
            found += each([dataset], [method], options=distinct)(seeds)
        found += each([dataset], [OURS], options=[OWN_SIZE])(seeds)
    return found


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


def untold(method: str) -> Options:
    """Options of a method that is told nothing about the ground truth."""
    return OWN_SIZE if EXPLAINERS[method].chooses_size else {"ratio": DEFAULT_POOL_RATIO}


def told_blocks(cells: Cells, _: Results) -> list[Block]:
    """A table for each task."""
    titles = {method_title(name): f"{explainer_title(name)}, told" for name in SIZED}
    titles |= {
        method_title(name, untold(name)): f"{explainer_title(name)}, not told" for name in SIZED
    }
    return [TOLD_NOTE, *score_tables(cells.renamed(titles), "Edge ROC-AUC, graph {}", ["auc"])]


BASELINES = Suite("baselines", "Baselines: default, chosen and best settings", experiments, blocks)
TOLD = Suite(
    "told",
    "What the size of the ground truth is worth",
    together(*(
        each(GRAPH_DATASETS, [method], options=[{}, untold(method)]) for method in SIZED
    )),
    told_blocks,
)  # fmt: skip
