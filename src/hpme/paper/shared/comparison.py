"""Who is better than whom: mean scores, ranks over datasets, and paired tests."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scipy import stats

from hpme.paper.shared.cells import Cell, Cells, Stat, by_target
from hpme.paper.shared.document import MISSING, Block, Column, Entry, Picture, Table
from hpme.paper.shared.names import OURS, OWN_SIZE, method_title, metric_of
from hpme.paper.shared.scores import LEVEL, count_text, join_words
from hpme.viz.charts import rank_chart

UNTOLD = method_title(OURS, OWN_SIZE)
"""The row that the others are tested against, if it is there: like them it is told nothing."""


def comparison(cells: Cells, metric: str = "auc") -> list[Block]:
    """Average ranks, and paired tests of HPME against each of the others; nothing without both."""
    scores, tests = cells.means(metric), against_ours(cells, metric)
    if len(scores) < 2:
        return []
    by_row, common = dataset_ranks(scores)
    ranks = {row: statistics.fmean(found) for row, found in by_row.items() if found}
    ours, rows = scores.get(tested(cells) or "", {}), []
    order = sorted(scores, key=lambda row: (ranks.get(row, 0.0), row))
    best = min(ranks.values(), default=0.0)
    alone = list(ranks.values()).count(best) == 1
    for row in order:
        rank, mean = ranks.get(row), MISSING
        if rank is not None:
            mean = f"{statistics.fmean(scores[row][dataset] for dataset in common):.3f}"
        text = MISSING if rank is None else f"{rank:.2f}"
        entries = [Entry(mean), Entry(text, best=alone and rank == best)]
        known = [cell.stat(metric) for cell in cells.shown() if cell.row == row]
        # Over targets, of cells that have several, and over seeds of one target.
        several = [s.std for s in known if s.std is not None and len(by_target(s.by_run)) > 1]
        for part in several, [s.seed_std for s in known if s.seed_std is not None]:
            entries.append(Entry(f"{statistics.fmean(part):.3f}" if part else MISSING))
        entries += _lead(scores[row], ours) if row in tests else [Entry("")] * 2
        entries += _test_entries(tests[row]) if row in tests else [Entry("")] * 7
        rows.append((row, tuple(entries)))
    left = [column for column in cells.columns if column not in common]
    where = f"{count_text(len(common), 'dataset')} where every method has a value"
    ranked = f"Means and ranks are of the {where}"
    notes = [ranked + (f"; left out: {join_words(left)}." if left else ".")]
    notes[0] += " Spreads are standard deviations between targets, and between seeds of the same"
    notes[0] += " target, each averaged over datasets."
    if tests:
        notes.append(
            "Largest lead: on which dataset the mean of a method is furthest above that of HPME, "
            "or least below it, and by how much. "
            f"{tested(cells)}, against each method. Datasets are the units: on each, the mean over "
            "targets and seeds that both have. How often HPME is better, equal, worse; the median "
            "difference; p of the two-sided Wilcoxon signed-rank test (equal pairs do not count), "
            "as it is and after Holm's correction for "
            f"{count_text(len(tests), 'test')}; bold: below {LEVEL}."
        )
    compared = ("HPME better", "equal", "HPME worse", "median difference", "p", "p, Holm")
    spreads = ("over targets", "over seeds")
    lead = ("largest lead over HPME", "where", "datasets")
    heads = (f"mean {metric_of(metric).title}", "average rank", *spreads, *lead, *compared)
    columns = [Column(head) for head in heads]
    if not tests:
        columns, rows = columns[:4], [(row, entries[:4]) for row, entries in rows]
    caption = "Mean and average rank over datasets, and HPME against each other method"
    name = f"{cells.suite}-ranks" + (f"-{metric}" if metric != "auc" else "")
    table = Table(name, caption, "Method", tuple(columns), tuple(rows), tuple(notes))
    if not common:
        return [table]
    equal = [row for row, test in tests.items() if test.p_holm is None or test.p_holm >= LEVEL]
    figure = rank_chart(by_row, ours=tested(cells) or "", equal=equal)
    caption = (
        f"Ranks on the {where}. Hollow: Wilcoxon's test with Holm's correction does not tell the "
        f"method from HPME at the level {LEVEL}."
    )
    return [table, Picture(name, caption, figure)]


@dataclass(frozen=True)
class PairedTest:
    """A method against another on the same datasets."""

    pairs: int  # number of datasets with both values
    wins: int  # how often the first is better
    losses: int
    median: float | None  # median difference, first minus second
    p: float | None  # two-sided Wilcoxon signed-rank test; None without a difference to test
    p_holm: float | None = None  # the same after Holm's correction for the number of tests

    @property
    def ties(self) -> int:
        """How often both are equal."""
        return self.pairs - self.wins - self.losses


def dataset_ranks(
    scores: Mapping[str, Mapping[str, float]],
) -> tuple[dict[str, list[float]], list[str]]:
    """Ranks of every method, 1 for the best, on each of the datasets that all have, and these."""
    seen = dict.fromkeys(dataset for values in scores.values() for dataset in values)
    common = [d for d in seen if all(d in values for values in scores.values())]
    ranks: dict[str, list[float]] = {method: [] for method in scores}
    for dataset in common:
        order = stats.rankdata([-values[dataset] for values in scores.values()])
        for method, rank in zip(scores, order, strict=True):
            ranks[method].append(float(rank))
    return ranks, common


def paired_tests(differences: Mapping[str, Sequence[float]]) -> dict[str, PairedTest]:
    """Wilcoxon's signed-rank test of the differences from each of the others."""
    tests = {}
    for name, values in differences.items():
        median = statistics.median(values) if values else None
        # Without zeros old and new versions of SciPy give the same.
        unequal = [value for value in values if value]
        p = float(stats.wilcoxon(unequal).pvalue) if unequal else None
        wins, losses = sum(value > 0 for value in values), sum(value < 0 for value in values)
        tests[name] = PairedTest(len(values), wins, losses, median, p)
    corrected = holm([test.p for test in tests.values()])
    return {
        name: replace(test, p_holm=p)
        for (name, test), p in zip(tests.items(), corrected, strict=True)
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


def against_ours(cells: Cells, metric: str) -> dict[str, PairedTest]:
    """HPME against every other row, over datasets; none without HPME."""
    ours, found = tested(cells), {}
    for row in cells.rows if ours else []:
        pairs = [(cells.at(ours or "", column), cells.at(row, column)) for column in cells.columns]
        differences = [difference(*pair, metric) for pair in pairs]
        if row != ours:
            found[row] = [value for value in differences if value is not None]
    return paired_tests(found)


def difference(ours: Cell | None, theirs: Cell | None, metric: str) -> float | None:
    """By how much the first has more, on average over the targets and seeds that both have."""
    if ours is None or theirs is None:
        return None
    first, second = ours.stat(metric).by_run, theirs.stat(metric).by_run
    return Stat({r: first[r] - second[r] for r in first if r in second}, None, {}).mean


def tested(cells: Cells) -> str | None:
    """The row of HPME that others are compared with; ``None`` without HPME."""
    return next((row for row in (UNTOLD, method_title(OURS)) if row in cells.rows), None)


def _lead(theirs: Mapping[str, float], ours: Mapping[str, float]) -> list[Entry]:
    """The largest difference of means on a dataset, theirs minus ours, and the dataset."""
    leads = {dataset: mean - ours[dataset] for dataset, mean in theirs.items() if dataset in ours}
    if not leads:
        return [Entry(MISSING)] * 2
    where = max(leads, key=lambda dataset: leads[dataset])
    return [Entry(f"{leads[where]:+.3f}"), Entry(where)]


def _test_entries(test: PairedTest) -> list[Entry]:
    counts = (test.pairs, test.wins, test.ties, test.losses)
    median = MISSING if test.median is None else f"{test.median:+.3f}"
    return [
        *(Entry(str(count)) for count in counts),
        Entry(median),
        Entry(p_text(test.p)),
        Entry(p_text(test.p_holm), best=test.p_holm is not None and test.p_holm < LEVEL),
    ]


def p_text(p: float | None) -> str:
    """A p value; small ones as a bound."""
    if p is None:
        return MISSING
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"
