"""Blocks that several pages have: scores, explained models, costs, curves."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hpme.bench.store import Record
from hpme.data import DATASETS
from hpme.paper.shared.cells import Cell, Cells, Results, Spread
from hpme.paper.shared.document import MISSING, Block, Column, Entry, Picture, Table
from hpme.paper.shared.names import (
    OURS,
    OWN_SIZE,
    PRINTED,
    dataset_title,
    explainer_title,
    method_title,
    metric_of,
    paper_note,
    paper_table,
)
from hpme.paper.shared.scores import join_words, score_table
from hpme.paper.shared.suite import CLASSIFICATION, REGRESSION, Show
from hpme.viz.charts import Curve, sensitivity_chart

TASKS = {"classification": CLASSIFICATION, "regression": REGRESSION}


def annex(cells: Cells) -> list[Table]:
    """Explained models and costs of a suite."""
    targets = target_tables(f"{cells.suite}-targets", cells.records())
    costs = cost_table(cells)
    return [*targets, *([costs] if costs else [])]


def target_tables(name: str, records: Iterable[Record]) -> list[Table]:
    """What the explained models score on their test split, beside the paper's models."""
    targets: dict[tuple[Any, ...], Record] = {}
    for record in records:
        targets.setdefault(record.experiment.target, record)
    place = {dataset: number for number, dataset in enumerate(DATASETS)}
    order = sorted(targets.values(), key=lambda record: [*map(str, record.experiment.target)])
    order.sort(key=lambda record: place.get(record.experiment.dataset, len(place)))
    kinds = {"classification": ("accuracy", "macro_f1"), "regression": ("rmse", "mape")}
    return [
        _target_table(f"{name}-{task}", task, metrics, chosen)
        for task, metrics in kinds.items()
        if (chosen := [r for r in order if metrics[0] in _test_metrics(r)])
    ]


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
            known = paper.get(e.dataset, {}).get(e.model, {}).get(metric)
            entries.append(Entry(text, paper=known and f"{known.mean:.{digits}f}"))
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
    columns = tuple(Column(metric_of(metric).heading) for metric in shown)
    caption = f"Explained models, {task}"
    return Table(name, caption, "Target", columns, tuple(rows), tuple(notes))


def _test_metrics(record: Record) -> Mapping[str, float]:
    metrics: Mapping[str, float] = (record.context.get("target_metrics") or {}).get("test", {})
    return metrics


def _scale(metric: str) -> int:
    return 1 if metric == "rmse" else 100


def cost_table(cells: Cells) -> Table | None:
    """Median cost of a run of every method; ``None`` without a run."""
    heads = {
        "fit_seconds": ("fit [s]", ".1f"),
        "explain_seconds": ("explain [s]", ".2f"),
        "explainer_cpu_seconds": ("CPU of both [s]", ".2f"),
        "target_passes": ("passes of the target", ".0f"),
        "metric_seconds": ("metrics [s]", ".2f"),
        "peak_memory_mib": ("peak memory [MiB]", ".0f"),
    }
    rows = []
    for row in cells.rows:
        runs = cells.records(row)
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
        "Medians over all runs of a method, each of all its explained graphs together. A pass "
        "shows the target every edge of these graphs once; passes that are differentiated cost two "
        "or three times as much. Seconds and memory depend on the machine and on what else it did."
    )
    name = f"{cells.suite}-costs"
    return Table(name, "Cost of a run", "Method", tuple(columns), tuple(rows), (note,))


def evidence_tables(cells: Cells) -> list[Table]:
    """What HPME says of its own explanations beside what they are worth; none without HPME."""
    heads = ("AUC", "effect", "largest p", "warns")
    shown = [row for row in (method_title(OURS), method_title(OURS, OWN_SIZE)) if row in cells.rows]
    rows = []
    for column in cells.columns:
        found = [cells.at(row, column) for row in shown]
        if any(cell is not None and cell.records for cell in found):
            entries = [entry for cell in found for entry in _evidence(cell)]
            rows.append((column, tuple(entries)))
    if not rows:
        return []
    note = (
        "Effect and p are of the evidence that a fit gathers without ground truth, on graphs that "
        "its search did not use: means over seeds, and the largest p of any. Warns: how many of "
        "the runs say that their explanations should not be trusted."
    )
    caption = "What HPME says about its own explanations"
    columns = tuple(Column(head, row) for row in shown for head in heads)
    return [Table(f"{cells.suite}-evidence", caption, "Dataset", columns, tuple(rows), (note,))]


def _evidence(cell: Cell | None) -> list[Entry]:
    told = [record.context.get("report") for record in cell.records] if cell else []
    reports = [report for report in told if report]
    if cell is None or not reports:
        return [Entry(MISSING)] * 4
    auc = cell.stat("auc").mean
    effect = statistics.fmean(report["effect"] for report in reports)
    warned = sum(bool(report["warnings"]) for report in reports)
    return [
        Entry(MISSING if auc is None else f"{auc:.3f}"),
        Entry(f"{effect:.2f}"),
        Entry(f"{max(report['p_value'] for report in reports):.2g}"),
        Entry(f"{warned} of {len(reports)}"),
    ]


def score_tables(
    cells: Cells, caption: str, metrics: Sequence[str], *papers: str, spread: Spread = "seeds"
) -> list[Block]:
    """A table for each task, whose name the caption has room for; without a task first."""
    rest = {cell.template.dataset for cell in cells.every} - {*CLASSIFICATION, *REGRESSION}
    return [
        score_table(
            f"{cells.suite}-{task}" if task else cells.suite,
            caption.format(task),
            part,
            metrics,
            paper=paper_table(*papers) if papers else None,
            spread=spread,
        )
        for task, datasets in {"": rest, **TASKS}.items()
        if (part := cells.part(datasets))
    ]


def score_page(
    caption: str,
    metrics: Sequence[str],
    *papers: str,
    spread: Spread = "seeds",
    more: Sequence[str] = (),
    note: str | None = None,
) -> Show:
    """A page of :func:`score_tables`, ``more`` metrics in a table of their own, and a remark."""

    def blocks(cells: Cells, _: Results) -> list[Block]:
        found = score_tables(cells, caption, metrics, *papers, spread=spread)
        text = "Further measures of the same explanations"
        others = score_table(f"{cells.suite}-more", text, cells, more, spread=spread)
        found[1:1] = [others] if others.columns else []
        found += evidence_tables(cells) if "auc" in metrics else []
        remark = paper_note(note) if note else None
        return [*found, *annex(cells), *([remark] if remark else [])]

    return blocks


def all_metrics(cells: Cells, results: Results) -> list[Block]:
    """All that was measured, a table for each metric."""
    title = results.suites[cells.suite].title
    metrics = dict.fromkeys(name for record in cells.records() for name in record.values)
    tables = [
        score_table(f"{cells.suite}-{name}", f"{title}: {metric_of(name).title}", cells, [name])
        for name in metrics
    ]
    return [*tables, *annex(cells)]


def sensitivity(option: str, xlabel: str, *, mark_truth: bool = False) -> Show:
    """A page on an option: AUC as a table, and as curves beside the best other method."""

    def blocks(cells: Cells, results: Results) -> list[Block]:
        title = results.suites[cells.suite].title
        table = score_table(cells.suite, f"Edge ROC-AUC, {title}", cells, ["auc"])
        curves, sources = [], []
        for column, dataset in cells.columns.items():
            stats = {
                float(cell.template.options[option]): cell.stat("auc")
                for cell in cells.every
                if cell.column == column
                and isinstance(cell.template.options.get(option), float)  # not "auto"
            }
            means = {x: stat.mean for x, stat in sorted(stats.items()) if stat.mean is not None}
            if means:
                rival, source = second_best(dataset, results)
                std = [stats[x].std for x in means]
                truth = truth_ratio(dataset, results) if mark_truth else None
                curves.append(Curve(column, list(means), list(means.values()), std, rival, truth))
                sources.append(source)
        pictures = []
        if curves:
            figure = sensitivity_chart(
                curves,
                xlabel=xlabel,
                ylabel="AUC",
                ours=explainer_title(cells.every[0].template.explainer or ""),
                reference="ratio of the ground truth" if mark_truth else None,
            )
            caption = "Mean over seeds, and its standard deviation as a band."
            known = dict.fromkeys(source for source in sources if source)
            caption += f" Dashed: the best other method, {join_words(known)}." if known else ""
            pictures.append(Picture(cells.suite, caption, figure))
        return [table, *pictures, *annex(cells)]

    return blocks


def second_best(dataset: str, results: Results) -> tuple[tuple[str, float] | None, str]:
    """The best other method on a dataset, and where that is known from."""
    scores: dict[str, float] = {}
    source = "as measured here"
    if "table1" in results.cells:
        for cell in results.cells["table1"].part([dataset]).shown():
            name, mean = cell.template.explainer or "", cell.stat("auc").mean
            if mean is not None and name not in (OURS, PRINTED):
                title = explainer_title(name)
                scores[title] = max(mean, scores.get(title, mean))
    if not scores:
        methods = paper_table("table1").get(dataset, {})
        scores = {method_title(m): v["auc"].mean for m, v in methods.items() if m != OURS}
        source = "as the paper prints it"
    if not scores:
        return None, ""
    best = max(scores, key=lambda row: (scores[row], row))
    return (best, scores[best]), source


def truth_ratio(dataset: str, results: Results) -> float | None:
    """The pooling ratio that comes from the ground truth, if any record was told it."""
    for record in results.records:
        told = record.context.get("pool_ratio_source") == "ground truth"
        if record.experiment.dataset == dataset and told:
            return float(record.context["config"]["ratio"])
    return None
