"""The main table: edge ROC-AUC of all methods on all graph datasets, and what they cost.

Then the same on a second target, trained anew from other weights and in another order; and what the
targets themselves score.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from hpme.bench.experiment import Experiment
from hpme.paper.shared.blocks import annex, evidence_tables, score_tables, target_tables
from hpme.paper.shared.cells import Cells, Results
from hpme.paper.shared.comparison import UNTOLD, comparison, dataset_ranks
from hpme.paper.shared.document import Block, Picture
from hpme.paper.shared.names import OURS, OWN_SIZE, PRINTED, method_title
from hpme.paper.shared.scores import score_table
from hpme.paper.shared.suite import (
    GRAPH_DATASETS,
    VARIANTS,
    Suite,
    each,
    registered_elsewhere,
    together,
)
from hpme.viz.charts import cost_chart

METHODS = (
    *("random", "grad", "att", "metagnn", "gnnexplainer", "pgexplainer", "tagexplainer"),
    *("matchexplainer", "mixupexplainer", "proxyexplainer", "regexplainer"),
    *("occlusion", "integratedgradients", PRINTED, OURS),
)
SLOW, FEW = "subgraphx", 20
"""What takes seconds for a graph explains some of them only."""
METRICS = ("auc", "precision")
GRAPHS = 200
"""Explained by the others."""
SAME_MODEL = [method for method in METHODS if method != "att"]
"""ATT explains a model of its own, whatever the others are given."""


def experiments(seeds: Sequence[int]) -> list[Experiment]:
    """All methods on all graph datasets; HPME with the size of the ground truth and its own."""
    # Methods of other packages, which are not known yet, stand beside the paper's.
    methods = (*METHODS, *registered_elsewhere())
    return together(
        each(GRAPH_DATASETS, methods, metrics=METRICS),
        each(GRAPH_DATASETS, [OURS], options=[OWN_SIZE], metrics=METRICS),
        each(GRAPH_DATASETS, [SLOW], metrics=METRICS, graphs=FEW),
    )(seeds)


def blocks(cells: Cells, _: Results) -> list[Block]:
    """Tables by task, who is better than whom, and what it costs."""
    found = score_tables(cells, "Edge ROC-AUC, graph {}", ["auc"], "table1")
    single = score_table("table1-single", "Mean AUC of single graphs", cells, ["auc_per_graph"])
    caption = "Share of ground truth among as many of the heaviest edges as it has"
    precision = score_table("table1-precision", caption, cells, ["precision"])
    found += [*comparison(cells), *cost_picture(cells), single, precision]
    return [*found, *evidence_tables(cells), *annex(cells)]


def cost_picture(cells: Cells) -> list[Block]:
    """Mean AUC over the datasets that all have against CPU time; nothing without both."""
    scores = cells.means("auc")
    _, common = dataset_ranks(scores)
    points = {}
    for row, means in scores.items():
        runs = [run for run in cells.records(row) if run.cost.get("explainer_cpu_seconds")]
        if runs and common:
            # Of graphs that were not explained, as much again.
            seconds = [
                run.cost["explainer_cpu_seconds"] / run.context["graphs"] * GRAPHS for run in runs
            ]
            points[row] = statistics.median(seconds), statistics.fmean(means[d] for d in common)
    if not points:
        return []
    ours = [row for row in points if row in (method_title(OURS), UNTOLD)]
    figure = cost_chart(
        points, xlabel=f"CPU seconds for {GRAPHS} graphs, fit included", ylabel="AUC", ours=ours
    )
    caption = (
        f"Mean edge ROC-AUC over {len(common)} datasets against the median CPU time of a run, fit "
        "and explanations."
    )
    return [Picture("table1-cost", caption, figure)]


def second_blocks(cells: Cells, _: Results) -> list[Block]:
    """Tables by task, and who is better than whom."""
    found = score_tables(cells, "Edge ROC-AUC, graph {}", ["auc"], "table1")
    return [*found, *comparison(cells), *evidence_tables(cells), *annex(cells)]


def backbones(seeds: Sequence[int]) -> list[Experiment]:
    """Seeds are those the targets are trained with; nothing is explained."""
    return [
        Experiment(
            name, None, seed, model=model, variant=VARIANTS.get(name), target_seed=seed,
            metrics=("target",),
        )
        for name in GRAPH_DATASETS
        for model in ("gcn", "gin", "gat")
        for seed in seeds
    ]  # fmt: skip


def backbone_blocks(cells: Cells, _: Results) -> list[Block]:
    """Tables by task."""
    return list(target_tables("backbones", cells.records()))


TABLE1 = Suite(
    "table1", "Edge ROC-AUC of all methods on the 13 graph datasets", experiments, blocks
)
SECOND = Suite(
    "second",
    "All methods on a second target, trained with another seed",
    together(
        each(GRAPH_DATASETS, SAME_MODEL, target_seed=1),
        each(GRAPH_DATASETS, [OURS], options=[OWN_SIZE], target_seed=1),
    ),
    second_blocks,
)
BACKBONES = Suite(
    "backbones", "Targets GCN, GIN and GAT on their test split", backbones, backbone_blocks, (0,)
)
