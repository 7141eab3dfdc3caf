"""Blocks that several pages have: scores, explained models, costs, curves."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hpme.bench.record import Record
from hpme.data import DATASETS
from hpme.paper.shared.cells import Cells, Results
from hpme.paper.shared.comparison import scores_of
from hpme.paper.shared.document import MISSING, Block, Column, Entry, Picture, Table
from hpme.paper.shared.names import OURS, dataset_title, method_title, metric_of
from hpme.paper.shared.numbers import paper_note, paper_table
from hpme.paper.shared.scores import join_words, score_table
from hpme.paper.shared.suite import CLASSIFICATION, REGRESSION
from hpme.viz.charts import Curve, sensitivity_chart

TASKS = {"classification": CLASSIFICATION, "regression": REGRESSION}


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


def tables_by_task(cells: Cells) -> list[Block]:
    """AUC on graphs, beside the paper's."""
    paper = paper_table("table1")
    return [
        score_table(
            f"{cells.suite}-{task}", f"Edge ROC-AUC, graph {task}", part, ["auc"], paper=paper
        )
        for task, datasets in TASKS.items()
        if (part := cells.part(datasets))
    ]


def by_task(cells: Cells, _: Results) -> list[Block]:
    """A page of :func:`tables_by_task`."""
    return [*tables_by_task(cells), *annex(cells)]


def graph_means(
    caption: str,
    metrics: Sequence[str],
    *papers: str,
    more: Sequence[str] = (),
    note: str | None = None,
) -> Callable[[Cells, Results], list[Block]]:
    """A page of metrics that are means over graphs, a table by task; those of no task come first.

    Args:
        caption: What the metrics are.
        metrics: Their names.
        papers: Tables of the paper to stand beside them.
        more: Further metrics, for a table of their own.
        note: The table of the paper that the last remark is about.
    """

    def blocks(cells: Cells, _: Results) -> list[Block]:
        paper = {key: value for name in papers for key, value in paper_table(name).items()}
        rest = set(cells.columns.values()) - {*CLASSIFICATION, *REGRESSION}
        found: list[Block] = []
        for task, datasets in {"": rest, **TASKS}.items():
            if part := cells.part(datasets):
                name = f"{cells.suite}-{task}" if task else cells.suite
                text = f"{caption}, {task}" if task else caption
                found.append(score_table(name, text, part, metrics, paper=paper, spread="graphs"))
        text = "Further measures of the same explanations"
        others = score_table(f"{cells.suite}-more", text, cells, more, spread="graphs")
        found[1:1] = [others] if others.columns else []
        remark = paper_note(note) if note else None
        return [*found, *annex(cells), *([remark] if remark else [])]

    return blocks


def all_metrics(cells: Cells, title: str) -> list[Block]:
    """All that was measured, a table for each metric."""
    metrics = dict.fromkeys(name for record in cells.records() for name in record.values)
    tables = [
        score_table(f"{cells.suite}-{name}", f"{title}: {metric_of(name).title}", cells, [name])
        for name in metrics
    ]
    return [*tables, *annex(cells)]


def sensitivity(
    option: str, xlabel: str, *, mark_truth: bool = False
) -> Callable[[Cells, Results], list[Block]]:
    """A page on an option: AUC as a table, and as curves beside the second-best method.

    Args:
        option: Name of the option.
        xlabel: Its name in the figure.
        mark_truth: Whether to mark the ratio of the ground truth.
    """

    def blocks(cells: Cells, results: Results) -> list[Block]:
        title = results.suites[cells.suite].title
        table = score_table(cells.suite, f"Edge ROC-AUC, {title}", cells, ["auc"])
        curves, sources = [], []
        for column, dataset in cells.columns.items():
            stats = {
                float(cell.template.options[option]): cell.stat("auc")
                for cell in cells.every
                if cell.column == column and option in cell.template.options
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
                ours=method_title(OURS),
                reference="ratio of the ground truth" if mark_truth else None,
            )
            caption = "Mean over seeds, and its standard deviation as a band."
            known = dict.fromkeys(source for source in sources if source)
            caption += f" Dashed: the second-best method, {join_words(known)}." if known else ""
            pictures.append(Picture(cells.suite, caption, figure))
        return [table, *pictures, *annex(cells)]

    return blocks


def second_best(dataset: str, results: Results) -> tuple[tuple[str, float] | None, str]:
    """The best other method on a dataset, and where that is known from."""
    scores, source = {}, "as measured here"
    if "table1" in results.cells:
        measured = scores_of(results.cells["table1"].part([dataset]), "auc")
        scores = {row: max(values.values()) for row, values in measured.items()}
        scores.pop(method_title(OURS), None)
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
