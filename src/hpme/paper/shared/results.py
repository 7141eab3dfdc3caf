"""What is known: results, failures, and the suites they belong to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hpme.bench.experiment import Experiment
from hpme.bench.record import Record
from hpme.bench.store import ResultStore
from hpme.paper.shared.cells import Cells, gather, subject_of
from hpme.paper.shared.suite import Suite


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
