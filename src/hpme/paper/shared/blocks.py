"""Blocks that several pages have."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hpme.paper.shared.annex import annex
from hpme.paper.shared.cells import Cells
from hpme.paper.shared.document import Block
from hpme.paper.shared.names import metric_of
from hpme.paper.shared.numbers import paper_note, paper_table
from hpme.paper.shared.results import Results
from hpme.paper.shared.scores import score_table
from hpme.paper.shared.suite import CLASSIFICATION, REGRESSION

TASKS = {"classification": CLASSIFICATION, "regression": REGRESSION}


def tables_by_task(cells: Cells) -> list[Block]:
    """AUC on graphs, beside the paper's."""
    paper = paper_table("table1")
    return [
        score_table(
            f"{cells.suite}-{task}", f"Edge ROC-AUC, graph {task}", part, ["auc"], paper=paper
        )
        for task, datasets in TASKS.items()
        if (part := cells.part(datasets))
    ]


def by_task(cells: Cells, _: Results) -> list[Block]:
    """A page of :func:`tables_by_task`."""
    return [*tables_by_task(cells), *annex(cells)]


def graph_means(
    caption: str,
    metrics: Sequence[str],
    *papers: str,
    more: Sequence[str] = (),
    note: str | None = None,
) -> Callable[[Cells, Results], list[Block]]:
    """A page of metrics that are means over graphs, a table by task; those of no task come first.

    Args:
        caption: What the metrics are.
        metrics: Their names.
        papers: Tables of the paper to stand beside them.
        more: Further metrics, for a table of their own.
        note: The table of the paper that the last remark is about.
    """

    def blocks(cells: Cells, _: Results) -> list[Block]:
        paper = {key: value for name in papers for key, value in paper_table(name).items()}
        rest = set(cells.columns.values()) - {*CLASSIFICATION, *REGRESSION}
        found: list[Block] = []
        for task, datasets in {"": rest, **TASKS}.items():
            if part := cells.part(datasets):
                name = f"{cells.suite}-{task}" if task else cells.suite
                text = f"{caption}, {task}" if task else caption
                found.append(score_table(name, text, part, metrics, paper=paper, spread="graphs"))
        text = "Further measures of the same explanations"
        others = score_table(f"{cells.suite}-more", text, cells, more, spread="graphs")
        found[1:1] = [others] if others.columns else []
        remark = paper_note(note) if note else None
        return [*found, *annex(cells), *([remark] if remark else [])]

    return blocks


def all_metrics(cells: Cells, title: str) -> list[Block]:
    """All that was measured, a table for each metric."""
    metrics = dict.fromkeys(name for record in cells.records() for name in record.values)
    tables = [
        score_table(f"{cells.suite}-{name}", f"{title}: {metric_of(name).title}", cells, [name])
        for name in metrics
    ]
    return [*tables, *annex(cells)]
