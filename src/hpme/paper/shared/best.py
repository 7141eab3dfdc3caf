"""Which rows of a column are the best, if seeds tell them from all others."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from scipy import stats

from hpme.paper.shared.cells import Cell
from hpme.paper.shared.names import BOUNDS, OURS, OWN_SIZE, method_title, metric_of

LEVEL = 0.05
"""Of significance."""


def best_rows(cells: Sequence[Cell], column: str, metric: str) -> set[str]:
    """The rows of a column that are better than those of every other method; often none.

    HPME with the size of the ground truth and with its own is one method in two rows, and both may
    be the best. That all tests agree is less probable by chance than that one does, so their number
    needs no correction.
    """
    higher = metric_of(metric).higher
    if higher is None:
        return set()
    found = {
        cell.row: (_method(cell), values)
        for cell in cells
        if cell.column == column
        and cell.template.explainer not in BOUNDS
        and (values := cell.stat(metric).by_seed)
    }
    methods = {method for method, _ in found.values()}
    return {
        row
        for row, (method, values) in found.items()
        if len(methods) > 1
        and all(
            is_better(values, others, higher=higher)
            for other, others in found.values()
            if other != method
        )
    }


def _method(cell: Cell) -> str:
    """Equal for rows that are not told apart."""
    return method_title(OURS) if cell.row == method_title(OURS, OWN_SIZE) else cell.row


def is_better(ours: Mapping[int, float], theirs: Mapping[int, float], *, higher: bool) -> bool:
    """Whether a paired t-test on the seeds that both have tells that the first is better."""
    sign = 1 if higher else -1
    differences = [sign * (ours[seed] - theirs[seed]) for seed in ours if seed in theirs]
    if len(differences) < 2 or statistics.fmean(differences) <= 0:
        return False
    if statistics.pstdev(differences) == 0:  # nothing was drawn at random
        return True
    return float(stats.ttest_1samp(differences, 0.0).pvalue) < LEVEL
