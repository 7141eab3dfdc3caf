"""Tables beside the scores: comparison of methods, explained models, costs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from hpme.bench.comparison import PairedTest, average_ranks, paired_tests
from hpme.bench.names import OURS, dataset_title, method_title, metric_of
from hpme.bench.paper import paper_table
from hpme.bench.record import Record
from hpme.bench.remarks import join_words
from hpme.bench.scores import Grid
from hpme.bench.tables import MISSING, Column, Entry, Table
from hpme.data import DATASETS


def scores_of(grid: Grid, metric: str) -> dict[str, dict[str, float]]:
    """Mean scores by row and column."""
    scores: dict[str, dict[str, float]] = {}
    for row in grid.rows:
        means = {
            column: grid.cells[row, column].stat(metric).mean
            for column in grid.columns
            if (row, column) in grid.cells
        }
        values = {column: mean for column, mean in means.items() if mean is not None}
        if values:
            scores[row] = values
    return scores


def tests_of(grid: Grid, metric: str) -> dict[str, PairedTest]:
    """HPME against every other row, over pairs of dataset and seed; none without HPME."""
    pairs = {
        row: {
            (column, seed): value
            for column in grid.columns
            if (row, column) in grid.cells
            for seed, value in grid.cells[row, column].stat(metric).by_seed.items()
        }
        for row in grid.rows
    }
    ours = method_title(OURS)
    if ours not in pairs:
        return {}
    higher = metric_of(metric).higher is not False
    others = {row: values for row, values in pairs.items() if row != ours}
    return paired_tests(pairs[ours], others, higher=higher)


def comparison_table(name: str, caption: str, grid: Grid, metric: str) -> Table | None:
    """Average ranks, and paired tests of HPME against each of the others; ``None`` without both."""
    scores, tests = scores_of(grid, metric), tests_of(grid, metric)
    if len(scores) < 2:
        return None
    ranks, common = average_ranks(scores, higher=metric_of(metric).higher is not False)
    rows = []
    order = sorted(scores, key=lambda row: (ranks.get(row, 0.0), row))
    best = min(ranks.values(), default=0.0)
    for row in order:
        rank = ranks.get(row)
        entries = [Entry(MISSING if rank is None else f"{rank:.2f}", best=rank == best)]
        entries += _test_entries(tests[row]) if row in tests else [Entry("")] * 7
        rows.append((row, tuple(entries)))
    left = [column for column in grid.columns if column not in common]
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


def target_tables(name: str, records: Iterable[Record]) -> list[Table]:
    """What the explained models score on their test split, beside the paper's models."""
    targets: dict[tuple[Any, ...], Record] = {}
    for record in records:
        targets.setdefault(record.experiment.target, record)
    order = sorted(targets.values(), key=_target_order)
    tables = []
    for task, metrics in (("classification", ("accuracy", "macro_f1")),
                          ("regression", ("rmse", "mape"))):  # fmt: skip
        chosen = [r for r in order if metrics[0] in _test_metrics(r)]
        if chosen:
            tables.append(_target_table(f"{name}-{task}", task, metrics, chosen))
    return tables


def _target_table(name: str, task: str, metrics: tuple[str, ...], records: list[Record]) -> Table:
    paper = paper_table(f"targets-{task}")
    shown = [m for m in metrics if any(m in _test_metrics(r) for r in records)]
    rows = []
    for record in records:
        e, test, entries = record.experiment, _test_metrics(record), []
        for metric in shown:
            digits = metric_of(metric).digits
            value = test.get(metric)
            text = MISSING if value is None else f"{value * _scale(metric):.{digits}f}"
            printed = paper.get(e.dataset, {}).get(e.model, {}).get(metric)
            entries.append(
                Entry(text, paper=None if printed is None else f"{printed.mean:.{digits}f}")
            )
        details = [e.model.upper()]
        details += [str(record.context["variant"])] if e.variant else []
        details += [f"{e.size} graphs"] if e.size else []
        details += [f"{e.train_steps} steps"] if e.train_steps else []
        label = f"{dataset_title(e.dataset)}, {', '.join(details)}, seed {e.target_seed}"
        rows.append((label, tuple(entries)))
    notes = ["On the test split. Second line: what the paper prints."]
    percent = [metric_of(m).title for m in shown if _scale(m) != 1]
    if percent:
        notes.append(f"{join_words(percent)} in percent.")
    return Table(
        name=name,
        caption=f"Explained models, {task}",
        corner="Target",
        columns=tuple(Column(metric_of(metric).heading) for metric in shown),
        rows=tuple(rows),
        notes=tuple(notes),
    )


def _target_order(record: Record) -> tuple[Any, ...]:
    e = record.experiment
    names = list(DATASETS)
    place = names.index(e.dataset) if e.dataset in names else len(names)
    return place, *(str(part) for part in e.target)


def _test_metrics(record: Record) -> Mapping[str, float]:
    metrics: Mapping[str, float] = (record.context.get("target_metrics") or {}).get("test", {})
    return metrics


def _scale(metric: str) -> int:
    return 1 if metric == "rmse" else 100


def cost_table(name: str, caption: str, grid: Grid) -> Table | None:
    """Median cost of a run of every method; ``None`` without a run."""
    heads = {
        "fit_seconds": ("fit [s]", ".1f"),
        "explain_seconds": ("explain [s]", ".2f"),
        "metric_seconds": ("metrics [s]", ".2f"),
        "peak_memory_mib": ("peak memory [MiB]", ".0f"),
    }
    rows = []
    for row in grid.rows:
        runs = [run for column in grid.columns for run in grid.records(row, column)]
        if not runs:
            continue
        entries = [Entry(str(len(runs)))]
        for key, (_, style) in heads.items():
            known = [run.cost[key] for run in runs if run.cost.get(key) is not None]
            entries.append(Entry(format(statistics.median(known), style) if known else MISSING))
        rows.append((row, tuple(entries)))
    if not rows:
        return None
    columns = [Column("runs"), *(Column(title) for title, _ in heads.values())]
    note = (
        "Medians over all runs of a method, each of all its explained graphs together. Unlike all "
        "other numbers they depend on the machine and on what else it did."
    )
    return Table(name, caption, "Method", tuple(columns), tuple(rows), (note,))
