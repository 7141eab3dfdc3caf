"""What is left of a prediction on a perturbed graph, for classes and for values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.models.task import Task

Scale = float | Literal["spread", "prediction"]
"""Unit of differences between predicted values.

``"spread"`` is the standard deviation of the predictions on the given graphs (1 if they do not
differ), ``"prediction"`` the size of each prediction, which is undefined where that is 0. A number
is the unit itself, such as the standard deviation of the training labels.
"""


@dataclass(frozen=True)
class Judge:
    r"""Compares outputs on perturbed graphs :math:`G'` with those on the graphs :math:`G`.

    Args:
        task: What outputs mean.
        values: Class probabilities, or values, of every graph.
        label: Class :math:`y` of every graph; ``None`` for regression.
        unit: Unit of values; ``None`` for classification.
    """

    task: Task
    values: Tensor
    label: Tensor | None
    unit: Tensor | None

    @classmethod
    def of(cls, task: Task, output: Tensor, labels: Tensor | None, scale: Scale) -> Judge:
        """From the outputs on the graphs themselves.

        Args:
            task: What outputs mean.
            output: The outputs.
            labels: Classes whose probabilities are compared; by default the predicted ones.
            scale: Unit of values.
        """
        values = _values(task, output)
        if isinstance(scale, str) and scale not in get_args(get_args(Scale)[1]):
            raise InputError(f"scale must be 'spread', 'prediction' or a number, got {scale!r}")
        if not isinstance(scale, str) and not scale > 0:
            raise InputError(f"scale must be above 0, got {scale}")
        if task.classification:
            label = values.argmax(1) if labels is None else _checked(labels, values)
            return cls(task, values, label, None)
        if labels is not None:
            raise InputError(
                "labels are for classification; in regression outputs are compared with those on "
                "the whole graph"
            )
        if scale == "prediction":
            unit = values.abs()
            unit = unit.masked_fill(unit == 0, torch.nan)
        else:
            unit = torch.full_like(values, task.scale if scale == "spread" else float(scale))
        return cls(task, values, None, unit)

    def lost(self, output: Tensor, ids: Tensor) -> Tensor:
        r""":math:`f(G)_y - f(G')_y`, or :math:`|f(G) - f(G')|` in its unit.

        Args:
            output: Outputs on perturbed graphs.
            ids: Numbers of the graphs they come from.
        """
        if self.label is None:
            return self._distance(output, ids)
        return self._at_label(self.values[ids], ids) - self.kept(output, ids)

    def kept(self, output: Tensor, ids: Tensor) -> Tensor:
        r""":math:`f(G')_y`, or :math:`\exp(-|f(G) - f(G')|)` in its unit; arguments as above."""
        if self.label is None:
            return (-self._distance(output, ids)).exp()
        return self._at_label(_values(self.task, output), ids)

    def lost_accuracy(self, output: Tensor, ids: Tensor) -> Tensor:
        r""":math:`1[\hat y(G) = y] - 1[\hat y(G') = y]`; arguments as above."""
        if self.label is None:
            raise InputError("form='accuracy' is for classification; use form='probability'")
        label, values = self.label[ids], _values(self.task, output)
        before, after = self.values[ids].argmax(1) == label, values.argmax(1) == label
        return (before.double() - after.double()).masked_fill(values.isnan().any(1), torch.nan)

    def _at_label(self, values: Tensor, ids: Tensor) -> Tensor:
        assert self.label is not None
        return values.gather(1, self.label[ids].unsqueeze(1)).squeeze(1)

    def _distance(self, output: Tensor, ids: Tensor) -> Tensor:
        assert self.unit is not None
        change = (_values(self.task, output) - self.values[ids]).abs()
        return (change / self.unit[ids]).mean(1)


def _values(task: Task, output: Tensor) -> Tensor:
    """Probabilities, or values in their own unit; NaN where the output is not finite."""
    output = output.double()
    values = task.values(output) if task.classification else output.view(output.shape[0], -1)
    broken = ~output.view(output.shape[0], -1).isfinite().all(1)
    return values.masked_fill(broken.unsqueeze(1), torch.nan)


def _checked(labels: Tensor, values: Tensor) -> Tensor:
    classes = values.shape[1]
    if labels.is_floating_point() or not bool(((labels >= 0) & (labels < classes)).all()):
        raise InputError(f"labels must be integers in [0, {classes})")
    return labels.long()
