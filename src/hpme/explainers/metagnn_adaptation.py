"""What training a copy of a model to be explainable (MATE) did to its predictions."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from hpme.models.output import Task

LARGE_LOSS = 0.02
LARGE_SHIFT = 0.05


@dataclass(frozen=True)
class AdaptationReport:
    """What the adaptation did: accuracy or RMSE of the given model and of the adapted copy.

    They are of ``graphs`` graphs, not trained on if ``held_out``. ``shift`` is the share of all
    whose class differs between the two; of values the RMS difference in units of their spread.
    """

    metric: str
    before: float
    after: float
    held_out: bool
    graphs: int
    shift: float

    @property
    def warnings(self) -> list[str]:
        """Reasons not to take the explanations for explanations of the given model."""
        found = []
        accuracy = self.metric == "accuracy"
        loss = self.before - self.after if accuracy else self.after / max(self.before, 1e-12) - 1
        if loss > LARGE_LOSS:
            found.append(
                f"the adapted copy is worse than the given model ({self.metric} "
                f"{self.before:.4g} -> {self.after:.4g}); lower lr or inner_lr, or fit on more "
                "graphs"
            )
        if self.shift > LARGE_SHIFT:
            found.append(
                f"explanations are of the adapted copy, which is another model: predictions differ "
                f"by {self.shift:.2f} > {LARGE_SHIFT}; do not compare its fidelity with that of "
                "other explainers"
            )
        return found

    def summary(self) -> str:
        """The numbers in one line."""
        where = "held-out" if self.held_out else "training"
        return (
            f"adapted copy: {self.metric} {self.before:.4g} -> {self.after:.4g} on {self.graphs} "
            f"{where} graphs, predictions shifted by {self.shift:.2f}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, with the derived ones."""
        return {**asdict(self), "warnings": self.warnings}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> AdaptationReport:
        """The report :meth:`to_dict` came from."""
        return cls(**{name: values[name] for name in cls.__dataclass_fields__})


def report_on(
    task: Task, before: Tensor, after: Tensor, labels: Tensor, chosen: Tensor, held_out: bool
) -> AdaptationReport:
    """Compares outputs before and after on all graphs, and with the labels of the chosen ones."""
    first, second = task.prediction(before), task.prediction(after)
    if task.classification:
        metric, shift = "accuracy", float((first != second).float().mean())
        scores = [float((t == labels)[chosen].float().mean()) for t in (first, second)]
    else:
        metric, shift = "rmse", float((first - second).square().mean().sqrt())
        errors = [(t - labels)[chosen].square().mean().sqrt() for t in (first, second)]
        scores = [task.scale * float(error) for error in errors]
    return AdaptationReport(metric, scores[0], scores[1], held_out, chosen.numel(), shift)
