"""Scores of methods on datasets, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hpme.bench.cells import Cell, Spread, Stat
from hpme.bench.names import Metric, dataset_title, method_title, metric_of
from hpme.bench.paper import GROUND_TRUTH, PaperTable
from hpme.bench.record import Record
from hpme.bench.remarks import cell_notes, common_settings, join_words, method_notes, reading_note
from hpme.bench.tables import FAILED, MISSING, UNDEFINED, Column, Entry, Footnotes, Table


@dataclass(frozen=True)
class Grid:
    """The cells of a suite as rows and columns; those with nothing in them are left out.

    Args:
        cells: Cells by row title and column title.
        rows: Row titles.
        columns: Column titles and the dataset of each.
        skipped: Titles of rows and columns that were not run; for columns, the dataset.
    """

    cells: Mapping[tuple[str, str], Cell]
    rows: tuple[str, ...]
    columns: Mapping[str, str]
    skipped: Mapping[str, str | None]

    @classmethod
    def of(cls, cells: Sequence[Cell], titles: Mapping[str, str] | None = None) -> Grid:
        """Rows are methods, columns datasets.

        Args:
            cells: Cells of a suite.
            titles: Titles of rows to use in place of the usual ones.
        """
        models = {(c.template.explainer, c.template.model) for c in cells}
        variants = {(c.template.dataset, c.template.variant) for c in cells}
        placed: dict[tuple[str, str], Cell] = {}
        datasets: dict[str, str] = {}
        for cell in cells:
            e = cell.template
            row = method_title(e.explainer or "target", e.options)
            if sum(name == e.explainer for name, _ in models) > 1:
                row += f" on {e.model.upper()}"
            column = dataset_title(e.dataset)
            if sum(name == e.dataset for name, _ in variants) > 1:
                column += f" ({e.variant or 'default'})"
            placed[(titles or {}).get(row, row), column] = cell
            datasets[column] = e.dataset
        full = {place for place, cell in placed.items() if not cell.empty}
        rows = dict.fromkeys(row for row, _ in placed)
        kept_rows = [row for row in rows if any(row == r for r, _ in full)]
        kept = {c: d for c, d in datasets.items() if any(c == column for _, column in full)}
        skipped: dict[str, str | None] = {row: None for row in rows if row not in kept_rows}
        skipped.update({c: d for c, d in datasets.items() if c not in kept})
        return cls(placed, tuple(kept_rows), kept, skipped)

    def __bool__(self) -> bool:
        return bool(self.rows)

    def shown(self) -> list[Cell]:
        """Cells that have a place, row by row."""
        places = [(row, column) for row in self.rows for column in self.columns]
        return [self.cells[place] for place in places if place in self.cells]

    def records(self, row: str, column: str) -> tuple[Record, ...]:
        """Results at a place; none where there is no cell."""
        cell = self.cells.get((row, column))
        return () if cell is None else cell.records

    def part(self, datasets: Iterable[str]) -> Grid:
        """The columns of some datasets, and the rows with anything in them."""
        wanted = set(datasets)
        columns = {c: d for c, d in self.columns.items() if d in wanted}
        rows = [
            row for row in self.rows
            if any((row, c) in self.cells and not self.cells[row, c].empty for c in columns)
        ]  # fmt: skip
        skipped = {t: d for t, d in self.skipped.items() if d is None or d in wanted}
        return Grid(self.cells, tuple(rows), columns, skipped)


def score_table(
    name: str,
    caption: str,
    grid: Grid,
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
        grid: The cells.
        metrics: Metrics to show; those that no record of a column has are left out.
        paper: The paper's values.
        spread: What the standard deviation is over.
        notes: Further remarks.
    """
    places = [
        (column, dataset, metric)
        for column, dataset in grid.columns.items()
        for metric in metrics
        if any(metric in record.values for row in grid.rows for record in grid.records(row, column))
    ]
    footnotes, cells = Footnotes(), grid.shown()
    common = common_settings(cells)
    seeds = max((len(cell.records) for cell in cells), default=0)
    columns = [_column(grid, place, paper, spread) for place in places]
    rows = []
    for number, row in enumerate(grid.rows):
        entries = []
        for (column, _, metric), stats in zip(places, columns, strict=True):
            entry, stat = stats[number]
            cell = grid.cells.get((row, column))
            remarks = cell_notes(cell, stat, metric, seeds=seeds, common=common)
            entries.append(replace(entry, mark=footnotes.mark(remarks)))
        rows.append((row, tuple(entries)))
    single = len({metric for *_, metric in places}) <= 1
    headings = [
        Column(column) if single else Column(metric_of(metric).heading, column)
        for column, _, metric in places
    ]
    remarks = [
        reading_note(cells, metrics, seeds=seeds, spread=spread, paper=paper is not None),
        *([f"All cells were run with {common}."] if common else []),
        *notes,
        *method_notes(cells),
        *_left_out(grid),
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
    grid: Grid, place: tuple[str, str, str], paper: PaperTable | None, spread: Spread
) -> list[tuple[Entry, Stat | None]]:
    """Entries of a column, without footnotes; the best of them marked."""
    column, dataset, metric = place
    info = metric_of(metric)
    entries: list[tuple[Entry, Stat | None]] = []
    shown: dict[int, float] = {}
    for number, row in enumerate(grid.rows):
        cell = grid.cells.get((row, column))
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


def _left_out(grid: Grid) -> list[str]:
    notes = []
    if grid.skipped:
        notes.append(f"Not run: {join_words(grid.skipped)}.")
    shown = grid.shown()
    if any(cell.empty for cell in shown):
        notes.append(f"{MISSING} was not run or not measured.")
    count = sum(cell.left_out for cell in shown)
    if count:
        notes.append(f"{count} results with other settings are left out.")
    return notes
