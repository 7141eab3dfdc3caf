"""How good the explained model is: scores of its outputs against labels."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from hpme.metrics.value import MetricValue
from hpme.models import scores
from hpme.models.task import Task

Score = Callable[[Tensor, Tensor], float]


def accuracy(output: Tensor, labels: Tensor, task: Task | None = None) -> MetricValue:
    """Share of graphs whose class is right.

    Args:
        output: A model's output.
        labels: Class of every graph.
        task: What the output means; by default inferred from its columns.
    """
    return _value(_of_classes(scores.accuracy, task), output, labels)


def macro_f1(output: Tensor, labels: Tensor, task: Task | None = None) -> MetricValue:
    """Mean F1 score over the classes among labels or predictions; arguments as in :func:`accuracy`."""  # noqa: E501
    return _value(_of_classes(scores.macro_f1, task), output, labels)


def rmse(output: Tensor, labels: Tensor) -> MetricValue:
    """Root of the mean squared error, in the unit of the labels.

    Args:
        output: A model's output, one value per graph.
        labels: Value of every graph.
    """
    return _value(scores.rmse, output, labels)


def mape(output: Tensor, labels: Tensor) -> MetricValue:
    """Mean absolute error relative to the labels, as a fraction; undefined if a label is 0.

    Arguments are those of :func:`rmse`.
    """
    zeros = int((labels == 0).sum())
    why = f"{zeros} of {labels.numel()} labels are 0, and an error relative to 0 is undefined"
    return _value(scores.mape, output, labels, why if zeros else None)


def _of_classes(score: Score, task: Task | None) -> Score:
    return lambda output, labels: score((task or Task.resolve(output)).prediction(output), labels)


def _value(score: Score, output: Tensor, labels: Tensor, why: str | None = None) -> MetricValue:
    """A score, or why there is none."""
    if labels.numel() == 0:
        return MetricValue.undefined("there are no graphs")
    if not bool(output.isfinite().all() and labels.isfinite().all()):
        why = "the output or the labels are not finite"
    if why is not None:
        return MetricValue.undefined(why)
    return MetricValue(score(output, labels))
