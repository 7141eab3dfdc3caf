"""Which tables and figures show the results of which suite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hpme.bench.cells import Cell, Spread, gather, subject_of
from hpme.bench.comparison import dataset_ranks
from hpme.bench.experiment import Experiment
from hpme.bench.names import OURS, dataset_title, method_title, metric_of
from hpme.bench.paper import PaperTable, paper_note, paper_table
from hpme.bench.record import Record
from hpme.bench.remarks import join_words
from hpme.bench.scores import Grid, score_table
from hpme.bench.sidetables import (
    comparison_table,
    cost_table,
    scores_of,
    target_tables,
    tests_of,
)
from hpme.bench.store import ResultStore
from hpme.bench.suites import CLASSIFICATION, GRADIENT, REGRESSION, SUITES, Suite
from hpme.viz.document import Block, Page, Picture
from hpme.viz.exhibits import case_pictures, mixup_pictures, partner_pictures
from hpme.viz.figures import Bar, Curve, bar_chart, rank_chart, sensitivity_chart

LEVEL = 0.05
"""Of significance."""


@dataclass(frozen=True)
class Results:
    """All that is known: results, failures, and the suites they belong to."""

    records: tuple[Record, ...]
    failures: tuple[Mapping[str, Any], ...]
    suites: Mapping[str, Suite]

    @classmethod
    def read(cls, store: ResultStore, suites: Mapping[str, Suite] = SUITES) -> Results:
        """What a folder holds."""
        return cls(tuple(store.records()), tuple(store.failures()), suites)

    @cached_property
    def cells(self) -> dict[str, list[Cell]]:
        """Cells of every suite that has any result or failure."""
        gathered = {
            name: gather(suite, self.records, self.failures) for name, suite in self.suites.items()
        }
        return {
            name: cells for name, cells in gathered.items() if any(not cell.empty for cell in cells)
        }

    def run(self) -> list[str]:
        """Names of the suites that were run, by what they do not share with others.

        Suites share experiments: those of the main table are also the first bars of the ablation,
        which does not mean that anybody ran the ablation. What all suites it is in share is shown
        with the first of them.
        """
        failed = (Experiment.from_dict(failure["experiment"]) for failure in self.failures)
        tried = {_kind(e) for e in (*(record.experiment for record in self.records), *failed)}
        asked = {
            name: {_kind(e) for e in suite.experiments((0,))} for name, suite in self.suites.items()
        }
        # What has the metrics of no single suite was run for all suites that it has those of.
        merged: dict[Any, set[str]] = {}
        for subject, metrics in tried - set().union(*asked.values()):
            merged.setdefault(subject, set()).update(metrics)
        members = {
            name: {k for k in own if k in tried or set(k[1]) <= merged.get(k[0], set())}
            for name, own in asked.items()
        }
        count = Counter(kind for kinds in members.values() for kind in kinds)
        found = {name for name, kinds in members.items() if any(count[k] == 1 for k in kinds)}
        for name, kinds in members.items():
            if kinds - set().union(*(members[other] for other in found)):
                found.add(name)
        return [name for name in members if name in found]

    @property
    def table1(self) -> Grid:
        """The main table, which other figures refer to."""
        return Grid.of(self.cells.get("table1", []))


def _kind(experiment: Experiment) -> tuple[Any, ...]:
    return subject_of(experiment), experiment.metrics


def page_of(name: str, results: Results) -> Page:
    """The page of a suite that was run."""
    build = PAGES.get(name, _plain)
    return Page(name, results.suites[name].title, tuple(build(name, results)))


# One function per kind of suite ##################################################################


def _main(name: str, results: Results) -> list[Block]:
    grid = Grid.of(results.cells[name])
    blocks = _by_task(name, grid)
    caption = "Average rank over datasets, and HPME against each other method"
    comparison = comparison_table(f"{name}-ranks", caption, grid, "auc")
    if comparison is not None:
        blocks += [comparison, *_ranks(name, grid)]
    return [*blocks, *_annex(name, grid)]


def _second(name: str, results: Results) -> list[Block]:
    grid = Grid.of(results.cells[name])
    return [*_by_task(name, grid), *_annex(name, grid)]


def _by_task(name: str, grid: Grid) -> list[Block]:
    """AUC on graphs, beside the paper's."""
    blocks: list[Block] = []
    for task, datasets in (("classification", CLASSIFICATION), ("regression", REGRESSION)):
        part = grid.part(datasets)
        if part:
            caption = f"Edge ROC-AUC, graph {task}"
            paper = paper_table("table1")
            blocks.append(score_table(f"{name}-{task}", caption, part, ["auc"], paper=paper))
    return blocks


def _ranks(name: str, grid: Grid) -> list[Block]:
    ranks, common = dataset_ranks(scores_of(grid, "auc"))
    if not common:
        return []
    tests = tests_of(grid, "auc")
    equal = [row for row, test in tests.items() if test.p_holm is None or test.p_holm >= LEVEL]
    figure = rank_chart(ranks, ours=method_title(OURS), equal=equal)
    caption = (
        f"Ranks on the {len(common)} datasets where every method has a value. Hollow: Wilcoxon's "
        f"test with Holm's correction does not tell the method from HPME at the level {LEVEL}."
    )
    return [Picture(f"{name}-ranks", caption, figure)]


def _nodes(name: str, results: Results) -> list[Block]:
    grid = Grid.of(results.cells[name])
    caption = "Edge ROC-AUC, node classification"
    table = score_table(name, caption, grid, ["auc"], paper=paper_table("nodes"))
    return [table, *_annex(name, grid)]


def _links(name: str, results: Results) -> list[Block]:
    return _graph_means(
        name,
        results,
        "Robust fidelity, link prediction",
        ("robust_fidelity_plus", "robust_fidelity_minus"),
        paper_table("links"),
    )


def _shift(name: str, results: Results) -> list[Block]:
    paper = {**paper_table("shift-classification"), **paper_table("shift-regression")}
    blocks = _graph_means(
        name,
        results,
        "Cosine similarity and Euclidean distance of graph representations to those of the graph",
        ("cosine", "euclidean"),
        paper,
    )
    note = paper_note("shift")
    return [*blocks, *([note] if note else [])]


def _fidelity(name: str, results: Results) -> list[Block]:
    main = ("simoar", "robust_fidelity_plus", "robust_fidelity_minus")
    blocks = _graph_means(
        name, results, "SimOAR and robust fidelity", main, paper_table("fidelity")
    )
    others = ("simoar_random", "simoar_empty", "fidelity_plus", "fidelity_minus", "precision")
    grid = Grid.of(results.cells[name])
    more = score_table(
        f"{name}-more", "Further measures of the same explanations", grid, others, spread="graphs"
    )
    return [blocks[0], *([more] if more.columns else []), *blocks[1:]]


def _graph_means(
    name: str, results: Results, caption: str, metrics: Sequence[str], paper: PaperTable
) -> list[Block]:
    """Tables of metrics that are means over graphs, one for classification, one for regression."""
    grid, blocks = Grid.of(results.cells[name]), []
    parts = {"classification": grid.part(CLASSIFICATION), "regression": grid.part(REGRESSION)}
    rest = [d for d in grid.columns.values() if d not in (*CLASSIFICATION, *REGRESSION)]
    if rest:
        parts = {"": grid.part(rest), **parts}
    spread: Spread = "graphs"
    for task, part in parts.items():
        if part:
            full = f"{name}-{task}" if task else name
            text = f"{caption}, {task}" if task else caption
            blocks.append(score_table(full, text, part, metrics, paper=paper, spread=spread))
    return [*blocks, *_annex(name, grid)]


def _backbones(name: str, results: Results) -> list[Block]:
    return list(target_tables(name, _records(results.cells[name])))


def _ablation(name: str, results: Results) -> list[Block]:
    titles = {
        method_title(OURS, {"refine": 0}): "not refined",
        method_title(OURS, {"neighbor": "random"}): "any host",
        method_title(OURS, {"attach": "rank"}): "boundary by rank",
        method_title(OURS, GRADIENT): "HPME by gradient",
        method_title(OURS, {**GRADIENT, "mixup": False}): "w/o Mix",
        method_title(OURS, {**GRADIENT, "bce_weight": 0.0}): "w/o BCE",
    }
    grid = Grid.of(results.cells[name], titles)
    note = (
        "HPME searches subsets by default. The paper's two ablations, w/o Mix and w/o BCE, are of "
        "HPME by gradient, whose loss has the terms they leave out; the other three rows change "
        "the default."
    )
    table = score_table(name, "Edge ROC-AUC of HPME and its ablations", grid, ["auc"], notes=[note])
    groups = {
        column: {row: _bar(grid.cells.get((row, column))) for row in grid.rows}
        for column in grid.columns
    }
    caption = "Ablation of HPME; whiskers are standard deviations over seeds."
    picture = Picture(name, caption, bar_chart(groups, ylabel="AUC"))
    return [table, picture, *_annex(name, grid)]


def _bar(cell: Cell | None) -> Bar:
    if cell is None:
        return Bar(None)
    stat = cell.stat("auc")
    return Bar(stat.mean, stat.std)


def _beta(name: str, results: Results) -> list[Block]:
    return _sensitivity(name, results, "bce_weight", r"weight $\beta$ of the BCE")


def _ratio(name: str, results: Results) -> list[Block]:
    return _sensitivity(name, results, "ratio", "pooling ratio $r$", mark=True)


def _sensitivity(
    name: str, results: Results, option: str, xlabel: str, *, mark: bool = False
) -> list[Block]:
    cells = results.cells[name]
    curves, sources = [], []
    for dataset in dict.fromkeys(cell.template.dataset for cell in cells):
        points = {
            float(cell.template.options[option]): cell.stat("auc")
            for cell in cells
            if cell.template.dataset == dataset and option in cell.template.options
        }
        known = {x: s.std for x, s in sorted(points.items()) if s.mean is not None}
        if not known:
            continue
        rival, source = second_best(dataset, results)
        sources.append(source)
        curves.append(
            Curve(
                title=dataset_title(dataset),
                x=list(known),
                mean=[mean for x in known if (mean := points[x].mean) is not None],
                std=list(known.values()),
                rival=rival,
                reference=truth_ratio(dataset, results) if mark else None,
            )
        )
    grid = Grid.of(cells)
    title = results.suites[name].title
    blocks: list[Block] = [score_table(name, f"Edge ROC-AUC, {title}", grid, ["auc"])]
    if curves:
        figure = sensitivity_chart(
            curves,
            xlabel=xlabel,
            ylabel="AUC",
            ours=method_title(OURS),
            reference="ratio of the ground truth" if mark else None,
        )
        known_sources = dict.fromkeys(source for source in sources if source)
        caption = "Mean over seeds, and its standard deviation as a band."
        if known_sources:
            caption += f" Dashed: the second-best method, {join_words(known_sources)}."
        blocks.append(Picture(name, caption, figure))
    return [*blocks, *_annex(name, grid)]


def second_best(dataset: str, results: Results) -> tuple[tuple[str, float] | None, str]:
    """The best other method on a dataset, and where that is known from."""
    grid = results.table1.part([dataset])
    scores = {
        row: score
        for row, values in scores_of(grid, "auc").items()
        for score in values.values()
        if row != method_title(OURS)
    }
    source = "as measured here"
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


def _cases(name: str, results: Results) -> list[Block]:
    return _exhibits(name, results, case_pictures)


def _mixups(name: str, results: Results) -> list[Block]:
    return _exhibits(name, results, mixup_pictures)


def _sizes(name: str, results: Results) -> list[Block]:
    return _exhibits(name, results, partner_pictures)


def _exhibits(
    name: str, results: Results, draw: Callable[[Sequence[Cell], str], list[Picture]]
) -> list[Block]:
    cells = results.cells[name]
    caption = "Edge ROC-AUC of these runs over all their explained graphs"
    return [*draw(cells, name), score_table(name, caption, Grid.of(cells), ["auc"])]


def _plain(name: str, results: Results) -> list[Block]:
    """Any other suite: all that was measured."""
    grid = Grid.of(results.cells[name])
    metrics = list(dict.fromkeys(m for r in _records(results.cells[name]) for m in r.values))
    blocks: list[Block] = []
    for metric in metrics:
        title = f"{results.suites[name].title}: {metric_of(metric).title}"
        blocks.append(score_table(f"{name}-{metric}", title, grid, [metric]))
    return [*blocks, *_annex(name, grid)]


def _annex(name: str, grid: Grid) -> list[Block]:
    """Explained models and costs."""
    records = _records(grid.shown())
    costs = cost_table(f"{name}-costs", "Cost of a run", grid)
    return [*target_tables(f"{name}-targets", records), *([costs] if costs else [])]


def _records(cells: Iterable[Cell]) -> list[Record]:
    return [record for cell in cells for record in cell.records]


PAGES: dict[str, Callable[[str, Results], list[Block]]] = {
    "table1": _main,
    "second": _second,
    "nodes": _nodes,
    "links": _links,
    "shift": _shift,
    "fidelity": _fidelity,
    "backbones": _backbones,
    "ablation": _ablation,
    "beta": _beta,
    "ratio": _ratio,
    "cases": _cases,
    "mixups": _mixups,
    "sizes": _sizes,
}
"""How the results of each suite are shown; any other is shown by :func:`_plain`."""
