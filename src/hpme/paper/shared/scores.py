"""Scores of methods on datasets, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from hpme.bench.experiment import GROUND_TRUTH
from hpme.paper.shared.cells import Cell, Cells, Spread, Stat
from hpme.paper.shared.names import Metric, metric_of
from hpme.paper.shared.numbers import PaperTable
from hpme.paper.shared.remarks import (
    cell_notes,
    common_settings,
    join_words,
    method_notes,
    reading_note,
)
from hpme.paper.shared.tables import FAILED, MISSING, UNDEFINED, Column, Entry, Footnotes, Table


def score_table(
    name: str,
    caption: str,
    cells: Cells,
    metrics: Sequence[str],
    *,
    paper: PaperTable | None = None,
    spread: Spread = "seeds",
    notes: Iterable[str] = (),
) -> Table:
    """Mean and spread of metrics for every method and dataset, the paper's values beside them.

    Args:
        name: Name of the table.
        caption: What it shows.
        cells: The cells.
        metrics: Metrics to show; those that no record of a column has are left out.
        paper: The paper's values.
        spread: What the standard deviation is over.
        notes: Further remarks.
    """
    footnotes, shown = Footnotes(), cells.shown()
    measured = {(cell.column, name) for cell in shown for r in cell.records for name in r.values}
    places = [
        (column, dataset, metric)
        for column, dataset in cells.columns.items()
        for metric in metrics
        if (column, metric) in measured
    ]
    common = common_settings(shown)
    seeds = max((len(cell.records) for cell in shown), default=0)
    columns = [_column(cells, place, paper, spread) for place in places]
    rows = []
    for number, row in enumerate(cells.rows):
        entries = []
        for (column, _, metric), stats in zip(places, columns, strict=True):
            entry, stat = stats[number]
            cell = cells.at(row, column)
            remarks = cell_notes(cell, stat, metric, seeds=seeds, common=common)
            entries.append(replace(entry, mark=footnotes.mark(remarks)))
        rows.append((row, tuple(entries)))
    single = len({metric for *_, metric in places}) <= 1
    headings = [
        Column(column) if single else Column(metric_of(metric).heading, column)
        for column, _, metric in places
    ]
    remarks = [
        reading_note(shown, metrics, seeds=seeds, spread=spread, paper=paper is not None),
        *([f"All cells were run with {common}."] if common else []),
        *notes,
        *method_notes(shown),
        *_left_out(cells),
    ]
    return Table(
        name=name,
        caption=caption,
        corner="Method",
        columns=tuple(headings),
        rows=tuple(rows),
        notes=tuple(remarks),
        marks=footnotes.list(),
    )


def _column(
    cells: Cells, place: tuple[str, str, str], paper: PaperTable | None, spread: Spread
) -> list[tuple[Entry, Stat | None]]:
    """Entries of a column, without footnotes; the best of them marked."""
    column, dataset, metric = place
    info = metric_of(metric)
    entries: list[tuple[Entry, Stat | None]] = []
    shown: dict[int, float] = {}
    for number, row in enumerate(cells.rows):
        cell = cells.at(row, column)
        printed = _printed(paper, dataset, cell, metric, info)
        if cell is None or not cell.records:
            text = FAILED if cell is not None and cell.failures else MISSING
            entries.append((Entry(text, paper=printed), None))
            continue
        stat = cell.stat(metric, spread)
        if stat.mean is None:
            known = any(metric in record.values for record in cell.records)
            entries.append((Entry(UNDEFINED if known else MISSING, paper=printed), stat))
            continue
        entries.append((Entry(number_text(stat.mean, stat.std, info.digits), paper=printed), stat))
        if cell.template.explainer != GROUND_TRUTH:
            shown[number] = round(stat.mean, info.digits)
    for number in best_of(shown, info):
        entry, stat_of = entries[number]
        entries[number] = replace(entry, best=True), stat_of
    return entries


def best_of(values: Mapping[int, float], metric: Metric) -> list[int]:
    """Keys of the best values, all of them if several are equal; none without a contest."""
    if len(values) < 2 or metric.higher is None:
        return []
    best = max(values.values()) if metric.higher else min(values.values())
    return [key for key, value in values.items() if value == best]


def number_text(mean: float, std: float | None, digits: int = 3) -> str:
    """A value and its spread."""
    return f"{mean:.{digits}f}" + ("" if std is None else f" ± {std:.{digits}f}")


def _printed(
    paper: PaperTable | None, dataset: str, cell: Cell | None, metric: str, info: Metric
) -> str | None:
    if paper is None or cell is None or cell.template.options:
        return None
    value = paper.get(dataset, {}).get(cell.template.explainer or "", {}).get(metric)
    return None if value is None else number_text(value.mean, value.std, info.digits)


def _left_out(cells: Cells) -> list[str]:
    notes = []
    if cells.skipped:
        notes.append(f"Not run: {join_words(cells.skipped)}.")
    shown = cells.shown()
    if any(cell.empty for cell in shown):
        notes.append(f"{MISSING} was not run or not measured.")
    count = sum(cell.left_out for cell in shown)
    if count:
        notes.append(f"{count} results with other settings are left out.")
    return notes
