"""What must be said about results for a reader to judge them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from hpme.bench.record import Record
from hpme.data import DATASETS
from hpme.explainers import EXPLAINERS, GraphExplainer
from hpme.paper.shared.cells import NOT_MEASURED, Cell, Spread, Stat
from hpme.paper.shared.names import dataset_title, explainer_title, metric_of


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
        if r.experiment.dataset in DATASETS and DATASETS[r.experiment.dataset].rules
    }
    notes += [
        f"{dataset_title(name)} ({variant}): {rule}" for (name, variant), rule in rules.items()
    ]
    return notes


def cell_notes(
    cell: Cell | None, stat: Stat | None, metric: str, *, seeds: int, common: str
) -> list[str]:
    """What sets a cell apart from the others of its table.

    Args:
        cell: The cell.
        stat: The metric in it.
        metric: Name of the metric.
        seeds: Number of seeds of most cells.
        common: Settings that are the same in the whole table, see :func:`common_settings`.
    """
    if cell is None:
        return []
    remarks, count = [], len(cell.records)
    if cell.records and count < seeds:
        remarks.append(f"{count} of {seeds} seeds.")
    for reason, times in sorted(stat.undefined.items()) if stat is not None else ():
        if reason != NOT_MEASURED:
            name = metric_of(metric).title
            remarks.append(f"{name} is undefined for {times} of {seeds_text(count)}: {reason}.")
    for message in dict.fromkeys(cell.failures):
        remarks.append(f"{seeds_text(cell.failures.count(message))} failed: {message}")
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
    if actual.target_seed != wanted.target_seed:
        texts.append(f"the target of seed {actual.target_seed}")
    return ", ".join(texts)


def common_settings(cells: Sequence[Cell]) -> str:
    """:func:`settings_text` of all cells; empty unless it is the same for all."""
    texts = {settings_text(cell) for cell in cells if cell.records}
    return texts.pop() if len(texts) == 1 else ""


def reading_note(
    cells: Sequence[Cell], metrics: Sequence[str], *, seeds: int, spread: Spread, paper: bool
) -> str:
    """How to read a cell: mean and spread of what, bold for what, whose second line."""
    if spread == "graphs":
        text = f"Mean ± population standard deviation over all graphs of {seeds_text(seeds)}."
    elif seeds > 1:
        text = f"Mean ± population standard deviation over {seeds_text(seeds)}."
    else:
        text = "One seed, hence no spread."
    numbers = sorted({r.experiment.seed for cell in cells for r in cell.records})
    text += f" Seeds: {number_runs(numbers)}." if numbers else ""
    if any(metric_of(metric).higher is not None for metric in metrics):
        text += " The best of each column is bold."
    return text + (" Second line: what the paper prints." if paper else "")


def seeds_text(count: int) -> str:
    """A number of seeds in words."""
    return f"{count} seed" + "s" * (count != 1)


def join_words(items: Iterable[str]) -> str:
    """``a, b and c``."""
    words = list(items)
    return ", ".join(words[:-1]) + (" and " if words[:-1] else "") + "".join(words[-1:])


def number_runs(numbers: Sequence[int]) -> str:
    """Ascending numbers as ``0-4, 7``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
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
