"""Records of a suite, sorted into the cells of its table."""

from __future__ import annotations

import functools
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hpme.bench.experiment import Experiment, canonical_json
from hpme.bench.record import Record
from hpme.bench.suites import Suite

Spread = Literal["seeds", "graphs"]
Subject = tuple[str | None, ...]
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Stat:
    """A metric over the seeds of a cell.

    Args:
        by_seed: Its defined values.
        std: Population standard deviation; ``None`` if there is nothing it could be of.
        undefined: Why it is undefined, and for how many seeds.
    """

    by_seed: Mapping[int, float]
    std: float | None
    undefined: Mapping[str, int]

    @property
    def mean(self) -> float | None:
        """Mean over seeds; ``None`` if it is defined for none."""
        return statistics.fmean(self.by_seed.values()) if self.by_seed else None


@dataclass(frozen=True)
class Cell:
    """One experiment of a suite over seeds.

    Args:
        template: The experiment as the suite has it, with the first seed it was run with.
        records: Its results, one per seed, ordered by seed. All have the same settings.
        left_out: Number of results with other settings.
        failures: Messages of seeds that failed and have no result.
    """

    template: Experiment
    records: tuple[Record, ...] = ()
    left_out: int = 0
    failures: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether it was neither run nor tried."""
        return not (self.records or self.failures)

    def stat(self, metric: str, spread: Spread = "seeds") -> Stat:
        """A metric over seeds.

        Args:
            metric: Name of the metric.
            spread: What the standard deviation is over: ``"seeds"``, which takes at least two, or
                ``"graphs"``, all graphs of all seeds together.
        """
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


def gather(
    suite: Suite, records: Iterable[Record], failures: Iterable[Mapping[str, Any]] = ()
) -> list[Cell]:
    """All cells of a suite in its order, with the results that belong there.

    A result belongs to a cell whatever its seed. Results with other settings than the suite's
    (fewer graphs, shorter training) belong there, too, unless there are some with the suite's;
    settings are never mixed in one cell.

    Args:
        suite: The suite.
        records: Any results.
        failures: What :meth:`ResultStore.failures` yields.
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
    return [
        _cell(suite, template, found[subject], failed[subject])
        for subject, template in templates.items()
    ]


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


def _cell(
    suite: Suite,
    template: Experiment,
    groups: Mapping[tuple[int, ...], Mapping[int, Record]],
    failed: Mapping[int, str],
) -> Cell:
    chosen: Mapping[int, Record] = {}
    if groups:
        own = _settings(suite, template)
        chosen = groups[max(groups, key=lambda s: (s == own, len(groups[s]), s))]
        template = _templates(suite, min(chosen))[subject_of(template)]
    return Cell(
        template=template,
        records=tuple(chosen[seed] for seed in sorted(chosen)),
        left_out=sum(len(group) for group in groups.values()) - len(chosen),
        failures=tuple(text for seed, text in sorted(failed.items()) if seed not in chosen),
    )
