"""Is one method better than the others? Ranks over datasets, and paired tests."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy import stats

from hpme.paper.shared.cells import Cells
from hpme.paper.shared.document import MISSING, Column, Entry, Table
from hpme.paper.shared.names import OURS, method_title, metric_of
from hpme.paper.shared.scores import join_words

Pair = tuple[str, int]
"""A dataset and a seed."""


@dataclass(frozen=True)
class PairedTest:
    """A method against another on the same datasets and seeds.

    Args:
        pairs: Number of pairs with both values.
        wins: How often the first is better.
        losses: How often it is worse.
        median: Median difference, first minus second.
        p: Two-sided Wilcoxon signed-rank test; ``None`` without a difference to test.
        p_holm: The same after Holm's correction for the number of tests.
    """

    pairs: int
    wins: int
    losses: int
    median: float | None
    p: float | None
    p_holm: float | None = None

    @property
    def ties(self) -> int:
        """How often both are equal."""
        return self.pairs - self.wins - self.losses


def dataset_ranks(
    scores: Mapping[str, Mapping[str, float]], *, higher: bool = True
) -> tuple[dict[str, list[float]], list[str]]:
    """Ranks of every method on each of the datasets that all have, and these datasets.

    A rank is 1 for the best, ties are shared. A rank among fewer methods would be easier to get.

    Args:
        scores: Scores by method and dataset.
        higher: Whether higher is better.
    """
    seen = dict.fromkeys(dataset for values in scores.values() for dataset in values)
    common = [d for d in seen if all(d in values for values in scores.values())]
    ranks: dict[str, list[float]] = {method: [] for method in scores}
    sign = -1 if higher else 1
    for dataset in common:
        order = stats.rankdata([sign * values[dataset] for values in scores.values()])
        for method, rank in zip(scores, order, strict=True):
            ranks[method].append(float(rank))
    return ranks, common


def paired_tests(
    ours: Mapping[Pair, float],
    others: Mapping[str, Mapping[Pair, float]],
    *,
    higher: bool = True,
) -> dict[str, PairedTest]:
    """Wilcoxon's signed-rank test of ours against each of the others, on the pairs both have."""
    tests = {name: _test(ours, values, higher) for name, values in others.items()}
    corrected = holm([test.p for test in tests.values()])
    return {
        name: PairedTest(t.pairs, t.wins, t.losses, t.median, t.p, p)
        for (name, t), p in zip(tests.items(), corrected, strict=True)
    }


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction; tests without a value do not count."""
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    result: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for step, (p, place) in enumerate(known):
        highest = max(highest, min(1.0, (len(known) - step) * p))
        result[place] = highest
    return result


def _test(ours: Mapping[Pair, float], theirs: Mapping[Pair, float], higher: bool) -> PairedTest:
    pairs = [pair for pair in ours if pair in theirs]
    differences = [ours[pair] - theirs[pair] for pair in pairs]
    better = [d > 0 if higher else d < 0 for d in differences if d]
    p = None
    if better:
        p = float(stats.wilcoxon(differences, zero_method="wilcox").pvalue)
    return PairedTest(
        pairs=len(pairs),
        wins=sum(better),
        losses=len(better) - sum(better),
        median=statistics.median(differences) if pairs else None,
        p=p,
    )


def scores_of(cells: Cells, metric: str) -> dict[str, dict[str, float]]:
    """Mean scores by row and column."""
    scores: dict[str, dict[str, float]] = {}
    for cell in cells.shown():
        mean = cell.stat(metric).mean
        if mean is not None:
            scores.setdefault(cell.row, {})[cell.column] = mean
    return scores


def tests_of(cells: Cells, metric: str) -> dict[str, PairedTest]:
    """HPME against every other row, over pairs of dataset and seed; none without HPME."""
    pairs: dict[str, dict[Pair, float]] = {row: {} for row in cells.rows}
    for cell in cells.shown():
        by_seed = cell.stat(metric).by_seed
        pairs[cell.row] |= {(cell.column, seed): value for seed, value in by_seed.items()}
    ours = method_title(OURS)
    if ours not in pairs:
        return {}
    higher = metric_of(metric).higher is not False
    return paired_tests(pairs.pop(ours), pairs, higher=higher)


def comparison_table(name: str, caption: str, cells: Cells, metric: str) -> Table | None:
    """Average ranks, and paired tests of HPME against each of the others; ``None`` without both."""
    scores, tests = scores_of(cells, metric), tests_of(cells, metric)
    if len(scores) < 2:
        return None
    each, common = dataset_ranks(scores, higher=metric_of(metric).higher is not False)
    ranks = {row: statistics.fmean(found) for row, found in each.items() if found}
    rows = []
    order = sorted(scores, key=lambda row: (ranks.get(row, 0.0), row))
    best = min(ranks.values(), default=0.0)
    for row in order:
        rank = ranks.get(row)
        entries = [Entry(MISSING if rank is None else f"{rank:.2f}", best=rank == best)]
        entries += _test_entries(tests[row]) if row in tests else [Entry("")] * 7
        rows.append((row, tuple(entries)))
    left = [column for column in cells.columns if column not in common]
    ranked = f"Ranks are over the {len(common)} datasets on which every method has a value"
    notes = [ranked + (f"; left out: {join_words(left)}." if left else ".")]
    if tests:
        notes.append(
            "HPME against each method on pairs of dataset and seed that both have: how often HPME "
            "is better, equal, worse; the median difference; p of the two-sided Wilcoxon "
            "signed-rank test (equal pairs do not count), as it is and after Holm's correction for "
            f"{len(tests)} {'tests' if len(tests) > 1 else 'test'}. Pairs of one dataset share a "
            "target and are not independent, so p is a guide, not a proof."
        )
    heads = ("average rank", "pairs", "HPME better", "equal", "HPME worse", "median difference")
    columns = [Column(head) for head in (*heads, "p", "p, Holm")]
    if not tests:
        columns, rows = columns[:1], [(row, entries[:1]) for row, entries in rows]
    return Table(name, caption, "Method", tuple(columns), tuple(rows), tuple(notes))


def _test_entries(test: PairedTest) -> list[Entry]:
    counts = (test.pairs, test.wins, test.ties, test.losses)
    median = MISSING if test.median is None else f"{test.median:+.3f}"
    return [
        *(Entry(str(count)) for count in counts),
        Entry(median),
        Entry(p_text(test.p)),
        Entry(p_text(test.p_holm)),
    ]


def p_text(p: float | None) -> str:
    """A p value; small ones as a bound."""
    if p is None:
        return MISSING
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"
