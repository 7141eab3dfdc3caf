"""How good the explained model is: scores of its outputs against labels."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from hpme.metrics.value import MetricValue
from hpme.models import scores
from hpme.models.task import Task


def accuracy(output: Tensor, labels: Tensor, task: Task | None = None) -> MetricValue:
    """Share of graphs whose class is right.

    Args:
        output: A model's output.
        labels: Class of every graph.
        task: What the output means; by default inferred from its columns.
    """
    return _classification(scores.accuracy, output, labels, task)


def macro_f1(output: Tensor, labels: Tensor, task: Task | None = None) -> MetricValue:
    """Mean F1 score over the classes among labels or predictions; arguments as in :func:`accuracy`."""  # noqa: E501
    return _classification(scores.macro_f1, output, labels, task)


def rmse(output: Tensor, labels: Tensor) -> MetricValue:
    """Root of the mean squared error, in the unit of the labels.

    Args:
        output: A model's output, one value per graph.
        labels: Value of every graph.
    """
    reason = _missing(output, labels)
    return MetricValue.undefined(reason) if reason else MetricValue(scores.rmse(output, labels))


def mape(output: Tensor, labels: Tensor) -> MetricValue:
    """Mean absolute error relative to the labels, as a fraction; undefined if a label is 0.

    Args:
        output: A model's output, one value per graph.
        labels: Value of every graph.
    """
    reason = _missing(output, labels)
    zeros = int((labels == 0).sum())
    if reason is None and zeros:
        reason = (
            f"{zeros} of {labels.numel()} labels are 0, and an error relative to 0 is undefined"
        )
    return MetricValue.undefined(reason) if reason else MetricValue(scores.mape(output, labels))


def _classification(
    score: Callable[[Tensor, Tensor], float], output: Tensor, labels: Tensor, task: Task | None
) -> MetricValue:
    reason = _missing(output, labels)
    if reason is not None:
        return MetricValue.undefined(reason)
    predicted = (task or Task.resolve(output)).target(output)
    return MetricValue(score(predicted, labels))


def _missing(output: Tensor, labels: Tensor) -> str | None:
    if labels.numel() == 0:
        return "there are no graphs"
    broken = not bool(output.isfinite().all() and labels.isfinite().all())
    return "the output or the labels are not finite" if broken else None
