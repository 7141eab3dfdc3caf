"""Records of suites, sorted into the cells of their tables."""

from __future__ import annotations

import functools
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from hpme.bench.experiment import Experiment
from hpme.bench.store import Record, ResultStore
from hpme.data.dataset import APART
from hpme.paper.shared.names import dataset_title, method_title
from hpme.paper.shared.suite import Suite, registered_elsewhere

Spread = Literal["seeds", "graphs"]
CellKey = tuple[str | int | None, ...]
Settings = tuple[int, ...]
Run = tuple[int, int]
"""Seeds of a target and of an explainer."""
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Stat:
    """A metric over the runs of a cell."""

    by_run: Mapping[Run, float]
    std: float | None  # population standard deviation; None if there is nothing it could be of
    undefined: Mapping[str, int]  # why it is undefined, and for how many runs

    @property
    def mean(self) -> float | None:
        """Mean over targets, each the mean of its seeds; ``None`` if it is defined for none."""
        means = [statistics.fmean(values) for values in by_target(self.by_run).values()]
        return statistics.fmean(means) if means else None

    @property
    def seed_std(self) -> float | None:
        """Standard deviation over seeds, averaged over the targets that have several."""
        several = [values for values in by_target(self.by_run).values() if len(values) > 1]
        return statistics.fmean(map(statistics.pstdev, several)) if several else None


def by_target(values: Mapping[Run, float]) -> dict[int, list[float]]:
    """Values of every target."""
    found: dict[int, list[float]] = defaultdict(list)
    for (target, _), value in values.items():
        found[target].append(value)
    return found


@dataclass(frozen=True)
class Cell:
    """One experiment of a suite over seeds of targets and of explainers."""

    template: Experiment  # the experiment as the suite has it, with the first seeds it was run with
    row: str  # title of its row, the method
    column: str  # title of its column, the dataset
    records: tuple[Record, ...] = ()  # one per run, ordered, all of the same settings
    left_out: int = 0  # number of results with other settings
    failures: tuple[str, ...] = ()  # messages of runs that failed and have no result

    @property
    def empty(self) -> bool:
        """Whether it was neither run nor tried."""
        return not (self.records or self.failures)

    def stat(self, metric: str, spread: Spread = "seeds") -> Stat:
        """A metric over runs; its spread over targets, else seeds, or over graphs of all runs."""
        by_run: dict[Run, float] = {}
        inside: list[float] = []
        undefined: Counter[str] = Counter()
        for record in self.records:
            value = record.values.get(metric)
            if value is None:
                undefined[record.undefined.get(metric, NOT_MEASURED)] += 1
                continue
            by_run[record.experiment.run] = value
            if metric in record.spread:
                inside.append(record.spread[metric])
        values, std = list(by_run.values()), None
        if spread == "graphs" and values and len(inside) == len(values):
            # Variance of a union of equally large groups.
            within = statistics.fmean(item**2 for item in inside)
            std = math.sqrt(within + statistics.pvariance(values))
        elif spread == "seeds" and len(values) > 1:
            targets = by_target(by_run)
            means = [statistics.fmean(group) for group in targets.values()]
            std = statistics.pstdev(means if len(means) > 1 else values)
        return Stat(by_run, std, undefined)


@dataclass(frozen=True)
class Cells:
    """The cells of a suite as rows and columns; those with nothing in them are left out."""

    suite: str
    every: tuple[Cell, ...]  # all cells, the empty ones included

    def __bool__(self) -> bool:
        return bool(self.rows)

    @cached_property
    def rows(self) -> list[str]:
        """Titles of the rows with anything in them."""
        full = {cell.row for cell in self.every if not cell.empty}
        return list(dict.fromkeys(cell.row for cell in self.every if cell.row in full))

    @cached_property
    def columns(self) -> dict[str, str]:
        """Titles of the columns with anything in them, and their datasets."""
        full = {cell.column for cell in self.every if not cell.empty}
        return {c.column: c.template.dataset for c in self.every if c.column in full}

    @property
    def skipped(self) -> list[str]:
        """Titles of rows and columns that were not run."""
        titles = [c.row for c in self.every] + [c.column for c in self.every]
        return [t for t in dict.fromkeys(titles) if t not in self.rows and t not in self.columns]

    @cached_property
    def _places(self) -> dict[tuple[str, str], Cell]:
        return {(cell.row, cell.column): cell for cell in self.every}

    def at(self, row: str, column: str) -> Cell | None:
        """The cell at a place."""
        return self._places.get((row, column))

    def shown(self) -> list[Cell]:
        """Cells that have a place, row by row."""
        found = (self.at(row, column) for row in self.rows for column in self.columns)
        return [cell for cell in found if cell is not None]

    def records(self, *rows: str) -> list[Record]:
        """Results of some rows, by default of all, row by row."""
        chosen = rows or self.rows
        return [r for cell in self.shown() if cell.row in chosen for r in cell.records]

    def means(self, metric: str) -> dict[str, dict[str, float]]:
        """Mean scores by row and column."""
        scores: dict[str, dict[str, float]] = {}
        for cell in self.shown():
            mean = cell.stat(metric).mean
            if mean is not None:
                scores.setdefault(cell.row, {})[cell.column] = mean
        return scores

    def part(self, datasets: Iterable[str]) -> Cells:
        """The columns of some datasets; rows stay in their order."""
        wanted, rows = set(datasets), list(dict.fromkeys(cell.row for cell in self.every))
        chosen = [cell for cell in self.every if cell.template.dataset in wanted]
        return Cells(self.suite, tuple(sorted(chosen, key=lambda cell: rows.index(cell.row))))

    def renamed(self, titles: Mapping[str, str]) -> Cells:
        """The same with other titles of rows."""
        every = (replace(cell, row=titles.get(cell.row, cell.row)) for cell in self.every)
        return Cells(self.suite, tuple(every))


def gather(
    suite: Suite, records: Iterable[Record], failures: Iterable[Mapping[str, Any]] = ()
) -> Cells:
    """All cells of a suite in its order, with the results that belong there.

    They may have any seed, and other settings than the suite's (fewer graphs, shorter training) if
    none have these; settings are never mixed in one cell. Where all cells have the seeds of the
    suite, others that only some cells have, because another suite asked for them, are left out.
    """
    templates: dict[CellKey, Experiment] = {}
    for (key, _), experiment in _asked(suite, 0).items():
        templates.setdefault(key, experiment)
    found: dict[CellKey, dict[Settings, dict[Run, Record]]] = defaultdict(dict)
    for record in records:
        experiment, wanted = record.experiment, wanted_by(suite, record.experiment)
        if wanted is not None:
            groups = found[experiment.cell]
            runs = groups.setdefault(_settings(experiment), {})
            # A result with exactly the metrics of the suite wins over one that has others besides.
            if experiment.run not in runs or experiment.metrics == wanted.metrics:
                runs[experiment.run] = record
    failed = defaultdict[CellKey, dict[Run, str]](dict)
    for failure in failures:
        experiment = Experiment.from_dict(failure["experiment"])
        message = f"{failure['error']}: {failure['message']}".strip().splitlines()[0]
        failed[experiment.cell][experiment.run] = message
    chosen: dict[CellKey, dict[Run, Record]] = {}
    for key, template in templates.items():
        # Those with the settings of the suite, whatever the graphs, else those that are most.
        own = _settings(template)[:-1]
        ranked = {(one[:-1] == own, len(runs), one): runs for one, runs in found[key].items()}
        chosen[key] = ranked[max(ranked)] if ranked else {}
    seeds = [{seed for _, seed in runs} for runs in chosen.values() if runs]
    common = set.intersection(*seeds) if seeds else set()
    equal = common >= {*suite.seeds}
    cells = []
    for (key, template), title in zip(templates.items(), _titles(templates), strict=True):
        runs, messages = chosen[key], sorted(failed[key].items())
        shown = [runs[run] for run in sorted(runs) if not equal or run[1] in common]
        cell = Cell(
            (wanted_by(suite, shown[0].experiment) if shown else None) or template,
            *title,
            records=tuple(shown),
            left_out=sum(map(len, found[key].values())) - len(runs),
            failures=tuple(message for run, message in messages if run not in runs),
        )
        cells.append(cell)
    others = registered_elsewhere()  # nobody misses what only this machine knows
    kept = [cell for cell in cells if not (cell.empty and cell.template.explainer in others)]
    return Cells(suite.name, tuple(kept))


def _titles(templates: Mapping[CellKey, Experiment]) -> list[tuple[str, str]]:
    """Row and column of each; model and variant are named where there are several."""
    every = templates.values()
    models = Counter(name for name, _ in {(e.explainer, e.model) for e in every})
    variants = Counter(name for name, _ in {(e.dataset, e.variant) for e in every})
    titles = []
    for e in every:
        row, column = method_title(e.explainer or "target", e.options), dataset_title(e.dataset)
        row += f" on {e.model.upper()}" if models[e.explainer] > 1 else ""
        row += f", fitted to {e.fit_graphs} others" if e.fit_graphs else ""
        column += f" ({e.variant or 'default'})" if variants[e.dataset] > 1 else ""
        titles.append((row, column))
    return titles


@functools.lru_cache(maxsize=256)
def _asked(suite: Suite, seed: int) -> dict[tuple[CellKey, int], Experiment]:
    """What a suite asks for with one seed, by cell and target."""
    return {(one.cell, one.target_seed): one for one in suite.experiments((seed,))}


def wanted_by(suite: Suite, experiment: Experiment) -> Experiment | None:
    """What a suite asks for where an experiment belongs; ``None`` if it belongs nowhere there."""
    wanted = _asked(suite, experiment.seed).get((experiment.cell, experiment.target_seed))
    enough = wanted is not None and set(wanted.metrics) <= set(experiment.metrics)
    return wanted if enough else None


def _settings(experiment: Experiment) -> Settings:
    """What may differ between an experiment and what a suite asks for."""
    apart = experiment.seed >= APART
    return experiment.graphs, experiment.size or 0, experiment.train_steps or 0, apart


@dataclass(frozen=True)
class Results:
    """All that is known: results, failures, and the suites they belong to."""

    records: tuple[Record, ...]
    failures: tuple[Mapping[str, Any], ...]
    suites: Mapping[str, Suite]
    run: Set[str] = frozenset()  # names of the suites that were run; none if that is not known

    @classmethod
    def read(cls, store: ResultStore, suites: Mapping[str, Suite]) -> Results:
        """What a folder holds."""
        records = tuple(store.records(earlier=True))
        return cls(records, tuple(store.failures()), suites, store.suites())

    @cached_property
    def cells(self) -> dict[str, Cells]:
        """Cells of every suite that has any result or failure."""
        gathered = {
            name: gather(suite, self.records, self.failures) for name, suite in self.suites.items()
        }
        return {name: cells for name, cells in gathered.items() if cells}

    @property
    def shown(self) -> list[str]:
        """Names of the suites to show: those that were run, not all that share experiments."""
        return [name for name in self.cells if not self.run or name in self.run]
