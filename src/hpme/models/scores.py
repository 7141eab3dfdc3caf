"""How good predictions are: scikit-learn's scores of classes and values against labels."""

from __future__ import annotations

import math
from importlib import import_module

from torch import Tensor

from hpme.errors import InputError


def accuracy(predicted: Tensor, labels: Tensor) -> float:
    """Share of graphs whose class is right, given predicted and true ones; NaN without graphs."""
    return _score("accuracy_score", *_classes(predicted, labels))


def macro_f1(predicted: Tensor, labels: Tensor) -> float:
    r"""Mean of :math:`F_1` over the classes among labels or predictions; NaN without graphs."""
    predicted, labels = _classes(predicted, labels)
    return _score("f1_score", predicted, labels, average="macro")


def rmse(predicted: Tensor, labels: Tensor) -> float:
    """Root of the mean squared error, in the unit of the labels; NaN without graphs."""
    return _score("root_mean_squared_error", *_values(predicted, labels))


def mape(predicted: Tensor, labels: Tensor) -> float:
    """Mean absolute error relative to the labels, none of them 0; NaN without graphs."""
    return _score("mean_absolute_percentage_error", *_values(predicted, labels))


def _score(name: str, predicted: Tensor, labels: Tensor, **options: str) -> float:
    if not labels.numel():
        return math.nan
    sklearn = import_module("sklearn.metrics")  # takes a second that every start would pay
    return float(getattr(sklearn, name)(labels.numpy(), predicted.numpy(), **options))


def _classes(predicted: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    if predicted.is_floating_point() or labels.is_floating_point():
        raise InputError("classes must be integers; turn logits into classes with output.argmax(1)")
    if predicted.dim() != 1 or predicted.shape != labels.shape:
        raise InputError(
            f"one predicted class per label is needed, got shapes {tuple(predicted.shape)} and "
            f"{tuple(labels.shape)}"
        )
    return predicted.cpu(), labels.cpu()


def _values(predicted: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    if predicted.numel() != labels.numel():
        raise InputError(
            f"one predicted value per label is needed, got {predicted.numel()} for {labels.numel()}"
        )
    return predicted.detach().double().view(-1).cpu(), labels.double().view(-1).cpu()
