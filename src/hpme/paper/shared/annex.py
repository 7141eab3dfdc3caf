"""Tables below the scores: explained models, costs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from hpme.bench.record import Record
from hpme.data import DATASETS
from hpme.paper.shared.cells import Cells
from hpme.paper.shared.names import dataset_title, metric_of
from hpme.paper.shared.numbers import paper_table
from hpme.paper.shared.remarks import join_words
from hpme.paper.shared.tables import MISSING, Column, Entry, Table


def annex(cells: Cells) -> list[Table]:
    """Explained models and costs of a suite."""
    targets = target_tables(f"{cells.suite}-targets", cells.records())
    costs = cost_table(f"{cells.suite}-costs", "Cost of a run", cells)
    return [*targets, *([costs] if costs else [])]


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


def cost_table(name: str, caption: str, cells: Cells) -> Table | None:
    """Median cost of a run of every method; ``None`` without a run."""
    heads = {
        "fit_seconds": ("fit [s]", ".1f"),
        "explain_seconds": ("explain [s]", ".2f"),
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
        "Medians over all runs of a method, each of all its explained graphs together. Unlike all "
        "other numbers they depend on the machine and on what else it did."
    )
    return Table(name, caption, "Method", tuple(columns), tuple(rows), (note,))
