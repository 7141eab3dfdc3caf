"""Which row of a column is the best, if its seeds tell it from all others."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from scipy import stats

from hpme.paper.shared.cells import Cell
from hpme.paper.shared.names import BOUNDS, metric_of

LEVEL = 0.05
"""Of significance."""


def best_row(cells: Sequence[Cell], column: str, metric: str) -> str | None:
    """The row that is better than every other of a column; ``None`` if it is not told from one.

    That all tests agree is less probable by chance than that one does, so their number needs no
    correction.
    """
    higher = metric_of(metric).higher
    if higher is None:
        return None
    found = {
        cell.row: cell.stat(metric).by_seed
        for cell in cells
        if cell.column == column and cell.template.explainer not in BOUNDS
    }
    found = {row: values for row, values in found.items() if values}
    if len(found) < 2:
        return None
    means = {row: statistics.fmean(values.values()) for row, values in found.items()}
    best = max(means, key=lambda row: means[row] if higher else -means[row])
    others = (values for row, values in found.items() if row != best)
    return best if all(is_better(found[best], values, higher=higher) for values in others) else None


def is_better(ours: Mapping[int, float], theirs: Mapping[int, float], *, higher: bool) -> bool:
    """Whether a paired t-test on the seeds that both have tells that the first is better."""
    sign = 1 if higher else -1
    differences = [sign * (ours[seed] - theirs[seed]) for seed in ours if seed in theirs]
    if len(differences) < 2 or statistics.fmean(differences) <= 0:
        return False
    if statistics.pstdev(differences) == 0:  # nothing was drawn at random
        return True
    return float(stats.ttest_1samp(differences, 0.0).pvalue) < LEVEL
