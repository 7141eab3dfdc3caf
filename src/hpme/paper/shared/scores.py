"""Scores of methods on datasets as a table, and what must be said for a reader to judge them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

from hpme.bench.store import Record
from hpme.data import DATASETS
from hpme.explainers import EXPLAINERS, GraphExplainer
from hpme.paper.shared.cells import NOT_MEASURED, Cell, Cells, Spread, Stat
from hpme.paper.shared.document import FAILED, MISSING, UNDEFINED, Column, Entry, Footnotes, Table
from hpme.paper.shared.names import PaperTable, dataset_title, explainer_title, metric_of

LEVEL = 0.05
"""Of significance."""


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
    """Mean and spread of metrics for each method and dataset that has any; the paper's beside."""
    letters, shown = Footnotes(), cells.shown()
    measured = {(cell.column, name) for cell in shown for r in cell.records for name in r.values}
    places = [(c, metric) for c in cells.columns for metric in metrics if (c, metric) in measured]
    settings = {settings_text(cell) for cell in shown if cell.records}
    common = settings.pop() if len(settings) == 1 else ""
    seeds = max((len(cell.records) for cell in shown), default=0)
    graphs = max((cell.template.graphs for cell in shown), default=0)
    left, rows = sum(cell.left_out for cell in shown), []
    for row in cells.rows:
        entries = []
        for column, metric in places:
            cell = cells.at(row, column)
            if cell is None:
                entries.append(Entry(MISSING))
                continue
            stat = cell.stat(metric, spread)
            remarks = cell_notes(cell, stat, metric, seeds=seeds, graphs=graphs, common=common)
            mark = ",".join(letters[remark] for remark in remarks)
            text, printed = _text(cell, stat, metric), _printed(paper, cell, metric)
            entries.append(Entry(text, paper=printed, mark=mark))
        rows.append((row, tuple(entries)))
    single = len({metric for _, metric in places}) <= 1
    headings = [
        Column(column) if single else Column(metric_of(metric).heading, column)
        for column, metric in places
    ]
    remarks = [
        reading_note(shown, seeds=seeds, spread=spread, paper=paper is not None),
        *([f"All cells were run with {common}."] if common else []),
        *notes,
        *method_notes(shown),
        *([f"Not run: {join_words(cells.skipped)}."] if cells.skipped else []),
        *([f"{MISSING} was not run or not measured."] if any(c.empty for c in shown) else []),
        *([f"{left} results with other settings are left out."] if left else []),
    ]
    marks = tuple((letter, text) for text, letter in letters.items())
    columns = tuple(headings)
    return Table(name, caption, "Method", columns, tuple(rows), tuple(remarks), marks)


def _text(cell: Cell, stat: Stat, metric: str) -> str:
    if stat.mean is not None:
        return number_text(stat.mean, stat.std, metric_of(metric).digits)
    if any(metric in record.values for record in cell.records):
        return UNDEFINED
    return FAILED if cell.failures and not cell.records else MISSING


def number_text(mean: float, std: float | None, digits: int = 3) -> str:
    """A value and its spread."""
    return f"{mean:.{digits}f}" + ("" if std is None else f" ± {std:.{digits}f}")


def _printed(paper: PaperTable | None, cell: Cell, metric: str) -> str | None:
    template = cell.template
    if paper is None or cell.row != explainer_title(template.explainer or ""):
        return None
    value = paper.get(template.dataset, {}).get(template.explainer or "", {}).get(metric)
    return None if value is None else number_text(*value, metric_of(metric).digits)


def method_notes(cells: Sequence[Cell]) -> list[str]:
    """What a reader must know about methods and datasets to compare the numbers."""
    records = [record for cell in cells for record in cell.records]
    notes = []
    pooled = _methods(records, lambda r: r.context.get("pool_ratio_source") == "ground truth")
    if pooled:
        notes.append(
            f"{pooled}: the pooled size comes from the ground truth (the 0.9-quantile of its share "
            "of a graph's nodes); explainers are told nothing else about it."
        )
    notes += _own_targets(records)
    trained = _methods(records, lambda r: r.context.get("target_model_metrics") is not None)
    if trained:
        notes.append(f"{trained}: explains a copy of the target that it has trained further.")
    rules = {
        (r.experiment.dataset, r.context.get("variant")): r.context.get("rule")
        for r in records
        if r.experiment.dataset in DATASETS
        and r.context.get("variant") in DATASETS[r.experiment.dataset].rules
    }
    notes += [
        f"{dataset_title(name)} ({variant}): {rule}" for (name, variant), rule in rules.items()
    ]
    return notes


def cell_notes(
    cell: Cell, stat: Stat, metric: str, *, seeds: int, graphs: int, common: str
) -> list[str]:
    """What sets a cell apart from the others of its table."""
    remarks, count = [], len(cell.records)
    if cell.records and count < seeds:
        remarks.append(f"{count} of {seeds} runs.")
    if cell.records and cell.template.graphs < graphs:
        remarks.append(f"{cell.template.graphs} explained graphs, the others {graphs}.")
    for reason, times in sorted(stat.undefined.items()):
        if reason != NOT_MEASURED:
            name = metric_of(metric).title
            remarks.append(f"{name} is undefined for {times} of {count_text(count)}: {reason}.")
    for message in dict.fromkeys(cell.failures):
        remarks.append(f"{count_text(cell.failures.count(message))} failed: {message}")
    settings = settings_text(cell)
    if settings and settings != common:
        remarks.append(f"Run with {settings}.")
    return remarks


def settings_text(cell: Cell) -> str:
    """Where a cell was run with other settings than its suite asks for; empty if nowhere."""
    if not cell.records:
        return ""
    wanted, actual, texts = cell.template, cell.records[0].experiment, []
    explained = [r.context.get("graphs", actual.graphs) for r in cell.records]
    low, high = min(explained), max(explained)
    graphs = f"{low if low == high else f'{low} to {high}'} explained graphs"
    if actual.graphs != wanted.graphs:
        texts.append(f"{graphs} in place of {wanted.graphs}")
    elif actual.explainer is not None and high < wanted.graphs:
        texts.append(f"{graphs}, as the dataset has no more")
    if actual.size != wanted.size:
        texts.append(f"a dataset of {actual.size} graphs")
    if actual.train_steps != wanted.train_steps:
        texts.append(f"a target trained for at most {actual.train_steps} steps")
    return ", ".join(texts)


def reading_note(cells: Sequence[Cell], *, seeds: int, spread: Spread, paper: bool) -> str:
    """How to read a cell: mean and spread of what, whose second line."""
    runs = {record.experiment.run for cell in cells for record in cell.records}
    targets, numbers = (sorted(set(part)) for part in zip(*runs, strict=True)) if runs else ([], [])
    # Where nothing is explained, seeds are those of targets.
    apart = len(targets) > 1 and any(target != seed for target, seed in runs)
    if spread == "graphs":
        text = f"Mean ± population standard deviation over all graphs of {count_text(seeds)}."
    elif apart:
        text = f"Mean ± population standard deviation over {count_text(len(targets), 'target')}"
        text += f" (seeds {number_runs(targets)}), each the mean of its seeds."
    elif seeds > 1:
        text = f"Mean ± population standard deviation over {count_text(seeds, 'seed')}."
    else:
        text = "One seed, hence no spread."
    text += f" Seeds: {number_runs(numbers)}." if numbers else ""
    return text + (" Second line: what the paper prints." if paper else "")


def count_text(count: int, what: str = "run") -> str:
    """How many of something."""
    return f"{count} {what}" + "s" * (count != 1)


def join_words(items: Iterable[str]) -> str:
    """``a, b and c``."""
    words = list(items)
    return ", ".join(words[:-1]) + (" and " if words[:-1] else "") + "".join(words[-1:])


def number_runs(numbers: Sequence[int]) -> str:
    """Ascending numbers as ``0-4, 7``."""
    # Within a run, a number and its place differ by the same.
    runs = itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    parts = [[number for _, number in run] for _, run in runs]
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)


def _own_targets(records: Sequence[Record]) -> list[str]:
    """Which methods explain another model than the others, because they are made for it."""
    models: dict[str, set[str]] = {}
    for record in records:
        name = record.experiment.explainer or ""
        usual = EXPLAINERS.get(name, GraphExplainer).default_model == GraphExplainer.default_model
        models.setdefault("" if usual else name, set()).add(record.experiment.model)
    common = models.pop("", set())
    return [
        f"{explainer_title(name)} explains a {join_words(m.upper() for m in sorted(own))} target "
        "of its own."
        for name, own in models.items()
        if own != common
    ]


def _methods(records: Sequence[Record], chosen: Callable[[Record], bool]) -> str:
    names = (explainer_title(r.experiment.explainer or "") for r in records if chosen(r))
    return join_words(dict.fromkeys(names))
