"""What settings are worth: HPME with a part changed or left out, and baselines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from hpme.bench.experiment import Experiment
from hpme.paper.shared.blocks import annex, score_tables, sensitivity
from hpme.paper.shared.cells import Cells, Results
from hpme.paper.shared.comparison import comparison
from hpme.paper.shared.document import Block, Picture
from hpme.paper.shared.names import OURS, OWN_SIZE, PRINTED, explainer_title, method_title
from hpme.paper.shared.scores import score_table
from hpme.paper.shared.suite import GRAPH_DATASETS, Options, Suite, by_target, each, together
from hpme.paper.table1 import TARGETS
from hpme.paper.tune import GRIDS, Rule, setting
from hpme.viz.charts import Bar, bar_chart

BY_SEARCH: dict[str, Options] = {
    "HPME": {},
    "edge scores alone": {"score": "edge"},
    "nodes and edges": {"score": "both"},
    "subgraph without a host": {"mixup": False},
    "one chain": {"restarts": 1},
    "any host": {"neighbor": "random"},
    "boundary by rank": {"attach": "rank"},
    "size chosen without labels": OWN_SIZE,
}
AS_PRINTED: dict[str, Options] = {
    "HPME as printed": {},
    "w/o Mix": {"mixup": False},
    "w/o BCE": {"bce_weight": 0.0},
    "pool not trained": {"gate": None},
}
WEIGHTED = ("ba-houseandgrid", "benzene", "ba-motif-volume", "house-grid-volume")
WEIGHTS = [{"bce_weight": step / 10} for step in range(1, 11)]
"""The paper's, in its unit: the BCE is summed over the edges of a graph."""
SIZED = ("benzene", "ba-housegrid", "ba-motif-volume", "ba-motif-counting")
RATIOS: list[Options] = [{}, OWN_SIZE, *({"ratio": step / 10} for step in range(1, 11))]
"""Without an option the ratio is that of the ground truth."""
PARTS_NOTE = (
    "The first rows change one part of HPME, which searches subsets; its edges are scored by "
    "nodes alone, unless a row says otherwise. The paper's ablations, w/o Mix and "
    "w/o BCE, are of HPME as printed, whose loss has the terms they leave out, and whose edges are "
    "scored by the edge MLP alone: a score by nodes would hide what it has not learned. Without a "
    "host, or w/o Mix, the model is shown the pooled subgraph wherever something is searched, "
    "trained or chosen."
)


def by_part(cells: Cells, _: Results) -> list[Block]:
    """A table, and of the paper's ablations bars."""
    titles = {method_title(OURS, options): row for row, options in BY_SEARCH.items()}
    titles |= {method_title(PRINTED, options): row for row, options in AS_PRINTED.items()}
    cells = cells.renamed(titles)
    caption = "Edge ROC-AUC of HPME and its ablations"
    table = score_table("ablation", caption, cells, ["auc"], notes=[PARTS_NOTE])
    bars: dict[str, dict[str, Bar]] = {column: {} for column in cells.columns}
    for cell in cells.shown():
        if cell.row in (method_title(OURS), *AS_PRINTED):
            stat = cell.stat("auc")
            bars[cell.column][cell.row] = Bar(stat.mean, stat.std)
    caption = (
        "HPME, HPME as printed, and what is left of that without one of its parts; whiskers are "
        "standard deviations over seeds."
    )
    return [table, Picture("ablation", caption, bar_chart(bars, ylabel="AUC")), *annex(cells)]


ABLATION = Suite(
    "ablation",
    "HPME with a part of it changed or left out",
    together(
        each(GRAPH_DATASETS, [OURS], options=list(BY_SEARCH.values())),
        each(GRAPH_DATASETS, [PRINTED], options=list(AS_PRINTED.values())),
    ),
    by_part,
)
BETA = Suite(
    "beta",
    "HPME as printed by weight of the BCE",
    each(WEIGHTED, [PRINTED], options=WEIGHTS),
    sensitivity("bce_weight", r"weight $\beta$ of the BCE"),
)
RATIO = Suite(
    "ratio",
    "HPME by pooling ratio",
    each(SIZED, [OURS], options=RATIOS),
    sensitivity("ratio", "pooling ratio $r$", mark_truth=True),
)
RATIO_PRINTED = Suite(
    "ratio-printed",
    "HPME as printed by pooling ratio",
    each(SIZED, [PRINTED], options=[options for options in RATIOS if options != OWN_SIZE]),
    sensitivity("ratio", "pooling ratio $r$", mark_truth=True),
)


RULES_NOTE = (
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


def by_rule(cells: Cells, _: Results) -> list[Block]:
    """A table for each task; a result stands in the row of every rule that leads to it."""
    run = [cell.template for cell in cells.every if cell.records]
    every = [
        replace(cell, row=f"{explainer_title(method)}, {rule}")
        for rule in get_args(Rule)
        for method in GRIDS
        if _compared(method, run)
        for cell in cells.every
        if cell.template.explainer == method
        and dict(cell.template.options) == setting(method, cell.template.dataset, rule)
    ]
    ours = [cell for cell in cells.every if cell.template.explainer == OURS]
    named = Cells(cells.suite, (*every, *ours))
    found = score_tables(named, "Edge ROC-AUC by how settings are found, graph {}", ["auc"])
    return [RULES_NOTE, *found, *comparison(named), *annex(named)]


def _compared(method: str, run: Sequence[Experiment]) -> bool:
    """Whether chosen settings ran on most datasets of the defaults: ranks are of common ones."""
    default, chosen = (
        {e.dataset for e in run if e.explainer == method
         and dict(e.options) == setting(method, e.dataset, rule)}
        for rule in ("default", "chosen")
    )  # fmt: skip
    return len(chosen) * 2 >= len(default)


BASELINES = Suite("baselines", "Baselines: default, chosen and best settings", experiments, by_rule)
