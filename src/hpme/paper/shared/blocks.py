"""Blocks that several pages have."""

from __future__ import annotations

from collections.abc import Sequence

from hpme.paper.shared.annex import annex
from hpme.paper.shared.cells import Cells
from hpme.paper.shared.document import Block
from hpme.paper.shared.names import metric_of
from hpme.paper.shared.numbers import PaperTable, paper_table
from hpme.paper.shared.scores import score_table
from hpme.paper.shared.suite import CLASSIFICATION, REGRESSION

TASKS = {"classification": CLASSIFICATION, "regression": REGRESSION}


def by_task(cells: Cells) -> list[Block]:
    """AUC on graphs, beside the paper's."""
    paper = paper_table("table1")
    return [
        score_table(
            f"{cells.suite}-{task}", f"Edge ROC-AUC, graph {task}", part, ["auc"], paper=paper
        )
        for task, datasets in TASKS.items()
        if (part := cells.part(datasets))
    ]


def graph_means(
    cells: Cells, caption: str, metrics: Sequence[str], paper: PaperTable
) -> list[Block]:
    """Tables of metrics that are means over graphs, by task; those of no task come first."""
    rest = set(cells.columns.values()) - {*CLASSIFICATION, *REGRESSION}
    tables: list[Block] = []
    for task, datasets in {"": rest, **TASKS}.items():
        if part := cells.part(datasets):
            name = f"{cells.suite}-{task}" if task else cells.suite
            text = f"{caption}, {task}" if task else caption
            tables.append(score_table(name, text, part, metrics, paper=paper, spread="graphs"))
    return [*tables, *annex(cells)]


def all_metrics(cells: Cells, title: str) -> list[Block]:
    """All that was measured, a table for each metric."""
    metrics = dict.fromkeys(name for record in cells.records() for name in record.values)
    tables = [
        score_table(f"{cells.suite}-{name}", f"{title}: {metric_of(name).title}", cells, [name])
        for name in metrics
    ]
    return [*tables, *annex(cells)]
