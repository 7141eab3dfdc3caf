"""Records of suites, sorted into the cells of their tables."""

from __future__ import annotations

import functools
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from hpme.bench.experiment import Experiment, canonical_json
from hpme.bench.store import Record, ResultStore
from hpme.paper.shared.names import dataset_title, method_title
from hpme.paper.shared.suite import Suite, registered_elsewhere

Spread = Literal["seeds", "graphs"]
Subject = tuple[str | None, ...]
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Stat:
    """A metric over the seeds of a cell."""

    by_seed: Mapping[int, float]
    std: float | None  # population standard deviation; None if there is nothing it could be of
    undefined: Mapping[str, int]  # why it is undefined, and for how many seeds

    @property
    def mean(self) -> float | None:
        """Mean over seeds; ``None`` if it is defined for none."""
        return statistics.fmean(self.by_seed.values()) if self.by_seed else None


@dataclass(frozen=True)
class Cell:
    """One experiment of a suite over seeds."""

    template: Experiment  # the experiment as the suite has it, with the first seed it was run with
    row: str  # title of its row, the method
    column: str  # title of its column, the dataset
    records: tuple[Record, ...] = ()  # one per seed, ordered by seed, all of the same settings
    left_out: int = 0  # number of results with other settings
    failures: tuple[str, ...] = ()  # messages of seeds that failed and have no result

    @property
    def empty(self) -> bool:
        """Whether it was neither run nor tried."""
        return not (self.records or self.failures)

    def stat(self, metric: str, spread: Spread = "seeds") -> Stat:
        """A metric over seeds; its spread over at least two seeds, or over all their graphs."""
        by_seed: dict[int, float] = {}
        inside: list[float] = []
        undefined: Counter[str] = Counter()
        for record in self.records:
            value = record.values.get(metric)
            if value is None:
                undefined[record.undefined.get(metric, NOT_MEASURED)] += 1
                continue
            by_seed[record.experiment.seed] = value
            if metric in record.spread:
                inside.append(record.spread[metric])
        values, std = list(by_seed.values()), None
        if spread == "graphs" and values and len(inside) == len(values):
            # Variance of a union of equally large groups.
            within = statistics.fmean(item**2 for item in inside)
            std = math.sqrt(within + statistics.pvariance(values))
        elif spread == "seeds" and len(values) > 1:
            std = statistics.pstdev(values)
        return Stat(by_seed, std, undefined)


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

    A result belongs to a cell whatever its seed. Results with other settings than the suite's
    (fewer graphs, shorter training) belong there, too, unless there are some with the suite's;
    settings are never mixed in one cell. Where all cells have the seeds of the suite, others that
    only some cells have, because another suite asked for them, are left out.
    """
    templates = _templates(suite, 0)
    found: dict[Subject, dict[tuple[int, ...], dict[int, Record]]] = {s: {} for s in templates}
    failed: dict[Subject, dict[int, str]] = {subject: {} for subject in templates}
    for record in records:
        experiment, subject = record.experiment, subject_of(record.experiment)
        wanted = templates.get(subject)
        if wanted is None or not set(wanted.metrics) <= set(experiment.metrics):
            continue
        seeds = found[subject].setdefault(_settings(suite, experiment), {})
        # A result with exactly the metrics of the suite wins over one that has others besides.
        if experiment.seed not in seeds or experiment.metrics == wanted.metrics:
            seeds[experiment.seed] = record
    for failure in failures:
        experiment = Experiment.from_dict(failure["experiment"])
        if subject_of(experiment) in failed:
            message = f"{failure['error']}: {failure['message']}".strip().splitlines()[0]
            failed[subject_of(experiment)][experiment.seed] = message
    cells = []
    for (subject, template), title in zip(templates.items(), _titles(templates), strict=True):
        groups, chosen = found[subject], {}
        if groups:
            own = _settings(suite, template)
            chosen = groups[max(groups, key=lambda s: (s == own, len(groups[s]), s))]
            template = _templates(suite, min(chosen))[subject]
        cell = Cell(
            template,
            *title,
            records=tuple(chosen[seed] for seed in sorted(chosen)),
            left_out=sum(map(len, groups.values())) - len(chosen),
            failures=tuple(t for seed, t in sorted(failed[subject].items()) if seed not in chosen),
        )
        cells.append(cell)
    others = registered_elsewhere()  # nobody misses what only this machine knows
    kept = [cell for cell in cells if not (cell.empty and cell.template.explainer in others)]
    return Cells(suite.name, tuple(_with_equal_seeds(suite, kept)))


def _with_equal_seeds(suite: Suite, cells: Sequence[Cell]) -> Iterator[Cell]:
    """Cells with the seeds that all have; as they are where a seed of the suite is missing."""
    seeds = [{record.experiment.seed for record in c.records} for c in cells if c.records]
    common = set.intersection(*seeds) if seeds else set()
    for cell in cells:
        if cell.records and common >= {*suite.seeds}:
            records = tuple(r for r in cell.records if r.experiment.seed in common)
            template = _templates(suite, records[0].experiment.seed)[subject_of(cell.template)]
            yield replace(cell, template=template, records=records)
        else:
            yield cell


def _titles(templates: Mapping[Subject, Experiment]) -> list[tuple[str, str]]:
    """Row and column of each; model and variant are named where there are several."""
    every = templates.values()
    models = Counter(name for name, _ in {(e.explainer, e.model) for e in every})
    variants = Counter(name for name, _ in {(e.dataset, e.variant) for e in every})
    titles = []
    for e in every:
        row, column = method_title(e.explainer or "target", e.options), dataset_title(e.dataset)
        row += f" on {e.model.upper()}" if models[e.explainer] > 1 else ""
        column += f" ({e.variant or 'default'})" if variants[e.dataset] > 1 else ""
        titles.append((row, column))
    return titles


def subject_of(experiment: Experiment) -> Subject:
    """What an experiment is about: all that tells the cells of a suite apart."""
    # Where nothing is explained, seeds are those of targets.
    target = None if experiment.explainer is None else str(experiment.target_seed)
    return (
        experiment.dataset,
        experiment.variant,
        experiment.model,
        experiment.explainer,
        target,
        canonical_json(dict(experiment.options)).decode(),
    )


@functools.lru_cache(maxsize=64)
def _templates(suite: Suite, seed: int) -> dict[Subject, Experiment]:
    return {subject_of(experiment): experiment for experiment in suite.experiments((seed,))}


def _settings(suite: Suite, experiment: Experiment) -> tuple[int, ...]:
    """Settings of an experiment; the seed of the target relative to the suite's."""
    template = _templates(suite, experiment.seed)[subject_of(experiment)]
    size, steps = experiment.size or 0, experiment.train_steps or 0
    return experiment.graphs, size, experiment.target_seed - template.target_seed, steps


@dataclass(frozen=True)
class Results:
    """All that is known: results, failures, and the suites they belong to."""

    records: tuple[Record, ...]
    failures: tuple[Mapping[str, Any], ...]
    suites: Mapping[str, Suite]

    @classmethod
    def read(cls, store: ResultStore, suites: Mapping[str, Suite]) -> Results:
        """What a folder holds."""
        return cls(tuple(store.records()), tuple(store.failures()), suites)

    @cached_property
    def cells(self) -> dict[str, Cells]:
        """Cells of every suite that has any result or failure."""
        gathered = {
            name: gather(suite, self.records, self.failures) for name, suite in self.suites.items()
        }
        return {name: cells for name, cells in gathered.items() if cells}

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


def _kind(experiment: Experiment) -> tuple[Any, ...]:
    return subject_of(experiment), experiment.metrics
