"""Which of many experiments are left to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hpme.bench.experiment import Experiment
from hpme.bench.record import Record
from hpme.bench.store import ResultStore


@dataclass(frozen=True)
class Plan:
    """What is left to do.

    Args:
        experiments: All experiments, each once.
        done: Results that are stored and intact.
        todo: Experiments without one.
    """

    experiments: list[Experiment]
    done: list[Record]
    todo: list[Experiment]

    @classmethod
    def of(cls, experiments: Iterable[Experiment], store: ResultStore) -> Plan:
        """Looks every experiment up in the store.

        A result that has more metrics than an experiment asks for is a result of it, too.
        """
        unique = list({experiment.key: experiment for experiment in experiments}.values())
        found = [store.get(experiment) for experiment in unique]
        if None in found:
            stored: dict[str, list[Record]] = {}
            for record in store.records():
                stored.setdefault(_bare(record.experiment), []).append(record)
            found = [
                record or _covering(experiment, stored.get(_bare(experiment), []))
                for experiment, record in zip(unique, found, strict=True)
            ]
        pairs = list(zip(unique, found, strict=True))
        return cls(
            experiments=unique,
            done=[record for _, record in pairs if record is not None],
            todo=[experiment for experiment, record in pairs if record is None],
        )

    @property
    def targets(self) -> list[Experiment]:
        """For every target that is needed, the first experiment that needs it."""
        first: dict[object, Experiment] = {}
        for experiment in self.todo:
            first.setdefault(experiment.target, experiment)
        return list(first.values())


def _bare(experiment: Experiment) -> str:
    """Key of an experiment whatever its metrics."""
    return replace(experiment, metrics=()).key


def _covering(experiment: Experiment, records: Iterable[Record]) -> Record | None:
    wanted = set(experiment.metrics)
    return next((r for r in records if wanted <= set(r.experiment.metrics)), None)
