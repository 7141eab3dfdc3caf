"""The main table: edge ROC-AUC of all methods on all graph datasets, their ranks, and tests."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scipy import stats

from hpme.bench.experiment import Experiment
from hpme.paper.shared.best import LEVEL
from hpme.paper.shared.blocks import annex, score_tables
from hpme.paper.shared.cells import Cells, Results
from hpme.paper.shared.document import MISSING, Block, Column, Entry, Picture, Table
from hpme.paper.shared.names import OURS, OWN_SIZE, PRINTED, method_title
from hpme.paper.shared.scores import join_words, score_table
from hpme.paper.shared.suite import CLASSIFICATION, REGRESSION, Suite, each, registered_elsewhere
from hpme.viz.charts import cost_chart, rank_chart

METHODS = (
    "random",
    "grad",
    "att",
    "metagnn",
    "gnnexplainer",
    "pgexplainer",
    "tagexplainer",
    "matchexplainer",
    "mixupexplainer",
    "proxyexplainer",
    "regexplainer",
    "occlusion",
    "integratedgradients",
    PRINTED,
    OURS,
)
SLOW, FEW = "subgraphx", 20
"""What takes seconds for a graph explains some of them only."""
METRICS = ("auc", "precision")
GRAPHS = 200
"""Explained by the others."""
UNTOLD = method_title(OURS, OWN_SIZE)
"""The row that the others are tested against, if it is there: like them it is told nothing."""
Pair = tuple[str, int]
"""A dataset and a seed."""


def experiments(seeds: Sequence[int]) -> list[Experiment]:
    """All methods on all graph datasets; HPME with the size of the ground truth and its own."""
    # Methods of other packages, which are not known yet, stand beside the paper's.
    methods = (*METHODS, *registered_elsewhere())
    return [
        experiment
        for dataset in CLASSIFICATION + REGRESSION
        for part in (
            each([dataset], methods, metrics=METRICS),
            each([dataset], [OURS], options=[OWN_SIZE], metrics=METRICS),
            each([dataset], [SLOW], metrics=METRICS, graphs=FEW),
        )
        for experiment in part(seeds)
    ]


def blocks(cells: Cells, _: Results) -> list[Block]:
    """Tables by task, who is better than whom, and what it costs."""
    found = score_tables(cells, "Edge ROC-AUC, graph {}", ["auc"], "table1")
    single = score_table("table1-single", "Mean AUC of single graphs", cells, ["auc_per_graph"])
    caption = "Share of ground truth among as many of the heaviest edges as it has"
    precision = score_table("table1-precision", caption, cells, ["precision"])
    return [*found, *comparison(cells), *cost_picture(cells), single, precision, *annex(cells)]


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


def comparison(cells: Cells) -> list[Block]:
    """Average ranks, and paired tests of HPME against each of the others; nothing without both."""
    scores, tests = cells.means("auc"), tests_of(cells)
    if len(scores) < 2:
        return []
    by_row, common = dataset_ranks(scores)
    ranks = {row: statistics.fmean(found) for row, found in by_row.items() if found}
    rows = []
    order = sorted(scores, key=lambda row: (ranks.get(row, 0.0), row))
    best = min(ranks.values(), default=0.0)
    alone = list(ranks.values()).count(best) == 1
    for row in order:
        rank = ranks.get(row)
        entries = [Entry(MISSING if rank is None else f"{rank:.2f}", best=alone and rank == best)]
        entries += _test_entries(tests[row]) if row in tests else [Entry("")] * 7
        rows.append((row, tuple(entries)))
    left = [column for column in cells.columns if column not in common]
    ranked = f"Ranks are over the {len(common)} datasets on which every method has a value"
    notes = [ranked + (f"; left out: {join_words(left)}." if left else ".")]
    if tests:
        notes.append(
            f"{tested(cells)}, against each method on pairs of dataset and seed that both have: "
            "how often HPME is better, equal, worse; the median difference; p of the two-sided "
            "Wilcoxon signed-rank test (equal pairs do not count), as it is and after Holm's "
            "correction for "
            f"{len(tests)} {'tests' if len(tests) > 1 else 'test'}. Pairs of one dataset share a "
            "target and are not independent, so p is a guide, not a proof."
        )
    heads = ("average rank", "pairs", "HPME better", "equal", "HPME worse", "median difference")
    columns = [Column(head) for head in (*heads, "p", "p, Holm")]
    if not tests:
        columns, rows = columns[:1], [(row, entries[:1]) for row, entries in rows]
    caption = "Average rank over datasets, and HPME against each other method"
    table = Table("table1-ranks", caption, "Method", tuple(columns), tuple(rows), tuple(notes))
    if not common:
        return [table]
    equal = [row for row, test in tests.items() if test.p_holm is None or test.p_holm >= LEVEL]
    figure = rank_chart(by_row, ours=tested(cells) or "", equal=equal)
    caption = (
        f"Ranks on the {len(common)} datasets where every method has a value. Hollow: Wilcoxon's "
        f"test with Holm's correction does not tell the method from HPME at the level {LEVEL}."
    )
    return [table, Picture("table1-ranks", caption, figure)]


@dataclass(frozen=True)
class PairedTest:
    """A method against another on the same datasets and seeds."""

    pairs: int  # number of pairs with both values
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
    """Ranks of every method on each of the datasets that all have, and these datasets.

    A rank is 1 for the best, ties are shared. A rank among fewer methods would be easier to get.
    """
    seen = dict.fromkeys(dataset for values in scores.values() for dataset in values)
    common = [d for d in seen if all(d in values for values in scores.values())]
    ranks: dict[str, list[float]] = {method: [] for method in scores}
    for dataset in common:
        order = stats.rankdata([-values[dataset] for values in scores.values()])
        for method, rank in zip(scores, order, strict=True):
            ranks[method].append(float(rank))
    return ranks, common


def paired_tests(
    ours: Mapping[Pair, float], others: Mapping[str, Mapping[Pair, float]]
) -> dict[str, PairedTest]:
    """Wilcoxon's signed-rank test of ours against each of the others, on the pairs both have."""
    tests = {name: _test(ours, values) for name, values in others.items()}
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


def _test(ours: Mapping[Pair, float], theirs: Mapping[Pair, float]) -> PairedTest:
    differences = [ours[pair] - theirs[pair] for pair in ours if pair in theirs]
    wins, losses = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    median = statistics.median(differences) if differences else None
    # Without zeros old and new versions of SciPy give the same.
    unequal = [difference for difference in differences if difference]
    p = float(stats.wilcoxon(unequal).pvalue) if unequal else None
    return PairedTest(len(differences), wins, losses, median, p)


def tests_of(cells: Cells) -> dict[str, PairedTest]:
    """HPME against every other row, over pairs of dataset and seed; none without HPME."""
    pairs: dict[str, dict[Pair, float]] = {row: {} for row in cells.rows}
    for cell in cells.shown():
        by_seed = cell.stat("auc").by_seed
        pairs[cell.row] |= {(cell.column, seed): value for seed, value in by_seed.items()}
    ours = tested(cells)
    return paired_tests(pairs.pop(ours), pairs) if ours else {}


def tested(cells: Cells) -> str | None:
    """The row of HPME that others are compared with; ``None`` without HPME."""
    return next((row for row in (UNTOLD, method_title(OURS)) if row in cells.rows), None)


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


SUITE = Suite(
    "table1",
    "Edge ROC-AUC of all methods on the 13 graph datasets",
    experiments,
    blocks,
)
