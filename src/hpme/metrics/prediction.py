"""How good the explained model is: scores of its outputs against labels."""

from __future__ import annotations

from torch import Tensor

from hpme.errors import InputError
from hpme.metrics.shared import MetricValue
from hpme.models.output import Task
from hpme.models.train import score


def accuracy(output: Tensor, labels: Tensor, task: Task | None = None) -> MetricValue:
    """Share of graphs whose class is right.

    Without a ``task``, what the output means is inferred from its columns.
    """
    return _of_classes("accuracy_score", output, labels, task)


def macro_f1(output: Tensor, labels: Tensor, task: Task | None = None) -> MetricValue:
    """Mean F1 score over the classes among labels or predictions; arguments as in :func:`accuracy`."""  # noqa: E501
    return _of_classes("f1_score", output, labels, task, average="macro")


def rmse(output: Tensor, labels: Tensor) -> MetricValue:
    """Root of the mean squared error of one value per graph, in the unit of the labels."""
    return _of_values("root_mean_squared_error", output, labels)


def mape(output: Tensor, labels: Tensor) -> MetricValue:
    """Mean absolute error relative to the labels, as a fraction; undefined if a label is 0.

    Arguments are those of :func:`rmse`.
    """
    zeros = int((labels == 0).sum())
    why = f"{zeros} of {labels.numel()} labels are 0, and an error relative to 0 is undefined"
    return _of_values("mean_absolute_percentage_error", output, labels, why if zeros else None)


def _of_classes(
    name: str, output: Tensor, labels: Tensor, task: Task | None, **options: str
) -> MetricValue:
    if (why := _undefined(output, labels)) is not None:
        return MetricValue.undefined(why)
    predicted = (task or Task.resolve(output)).prediction(output)
    if predicted.is_floating_point() or labels.is_floating_point():
        raise InputError("classes must be integers; turn logits into classes with output.argmax(1)")
    if predicted.dim() != 1 or predicted.shape != labels.shape:
        raise InputError(
            f"one predicted class per label is needed, got shapes {tuple(predicted.shape)} and "
            f"{tuple(labels.shape)}"
        )
    return MetricValue(score(name, predicted, labels, **options))


def _of_values(name: str, output: Tensor, labels: Tensor, why: str | None = None) -> MetricValue:
    if (why := _undefined(output, labels) or why) is not None:
        return MetricValue.undefined(why)
    if output.numel() != labels.numel():
        raise InputError(
            f"one predicted value per label is needed, got {output.numel()} for {labels.numel()}"
        )
    return MetricValue(score(name, output.flatten(), labels.flatten()))


def _undefined(output: Tensor, labels: Tensor) -> str | None:
    """Why there is no score, if so."""
    if labels.numel() == 0:
        return "there are no graphs"
    finite = bool(output.isfinite().all() and labels.isfinite().all())
    return None if finite else "the output or the labels are not finite"
