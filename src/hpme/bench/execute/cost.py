"""How long experiments take: from results that are there, else from what is typical."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable

from hpme.bench.experiment import Experiment, canonical_json
from hpme.bench.record import Record
from hpme.data import DATASETS
from hpme.explainers import EXPLAINERS
from hpme.models import recipe_for

UNKNOWN_SECONDS = 1.0
"""For what is no explainer."""
SECONDS_PER_STEP = 0.02
"""Typical for the training of a target."""


class CostModel:
    """Estimates seconds by the most similar results.

    Args:
        records: Results to learn from.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._per_graph: dict[tuple[object, ...], list[float]] = defaultdict(list)
        for record in records:
            self.learn(record)

    def learn(self, record: Record) -> None:
        """Takes another result into account."""
        cost = record.cost
        seconds = cost["fit_seconds"] + cost["explain_seconds"] + cost["metric_seconds"]
        for kind in _kinds(record.experiment):
            self._per_graph[kind].append(seconds / max(1, record.context["graphs"]))

    def seconds(self, experiment: Experiment) -> float:
        """What an experiment takes on one core, its target not counted."""
        for kind in _kinds(experiment):
            if kind in self._per_graph:
                return statistics.fmean(self._per_graph[kind]) * experiment.graphs
        explainer = EXPLAINERS.get(experiment.explainer or "")
        typical = UNKNOWN_SECONDS if explainer is None else explainer.typical_seconds
        return typical * experiment.graphs / 200

    def measured(self, experiment: Experiment) -> bool:
        """Whether the estimate comes from results of this explainer on this dataset."""
        return any(kind in self._per_graph for kind in _kinds(experiment)[:-1])


def target_seconds(experiment: Experiment) -> float:
    """What the training of a target typically takes on one core."""
    longest = recipe_for(DATASETS[experiment.dataset]).max_steps
    return SECONDS_PER_STEP * min(longest, experiment.train_steps or longest)


def _kinds(experiment: Experiment) -> list[tuple[object, ...]]:
    """Groups of alike experiments, from narrow to wide."""
    options = canonical_json(dict(experiment.options))
    explainer, dataset = experiment.explainer, experiment.dataset
    return [(explainer, dataset, experiment.metrics, options), (explainer, dataset), (explainer,)]
