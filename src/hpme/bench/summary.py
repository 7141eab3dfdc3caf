"""Experiments that differ only in the seed, as one result."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpme.bench.record import Record
from hpme.errors import InputError
from hpme.storage import write_atomically


@dataclass(frozen=True)
class Summary:
    """Mean and spread over seeds.

    Args:
        records: At least one record, all of one dataset, model and explainer.
    """

    records: Sequence[Record]

    def __post_init__(self) -> None:
        subjects = {
            (r.experiment.dataset, r.context["variant"], r.experiment.model, r.experiment.explainer)
            for r in self.records
        }
        if len(subjects) != 1:
            raise InputError(f"a summary is of one experiment over seeds, got {len(subjects)}")

    @property
    def auc_mean(self) -> float | None:
        """Mean AUC over the seeds with a defined AUC; ``None`` if there is none."""
        return statistics.fmean(self._aucs) if self._aucs else None

    @property
    def auc_std(self) -> float | None:
        """Population standard deviation, as in the paper's tables; ``None`` without an AUC."""
        return statistics.pstdev(self._aucs) if self._aucs else None

    @property
    def _aucs(self) -> list[float]:
        values = [record.values["auc"] for record in self.records]
        return [value for value in values if value is not None]

    def to_dict(self) -> dict[str, Any]:
        """The summary and its records as JSON values."""
        first = self.records[0]
        return {
            "dataset": first.experiment.dataset,
            "variant": first.context["variant"],
            "explainer": first.experiment.explainer,
            "model": first.experiment.model,
            "auc_mean": self.auc_mean,
            "auc_std": self.auc_std,
            "runs": [_run(record) for record in self.records],
        }

    def write(self, path: Path) -> None:
        """Writes a JSON file; a kill leaves the previous one or this one, never a part."""
        text = json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"
        write_atomically(path, text.encode())


def _run(record: Record) -> dict[str, Any]:
    """One seed as a flat object, as documented for ``hpme run``."""
    experiment = record.experiment
    return {
        "dataset": experiment.dataset,
        "explainer": experiment.explainer,
        "model": experiment.model,
        "seed": experiment.seed,
        "target_seed": experiment.target_seed,
        **record.context,
        **record.values,
        "auc_undefined": record.undefined.get("auc"),
        **record.cost,
        "versions": record.versions,
    }
