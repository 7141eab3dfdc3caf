"""How good predictions are: scikit-learn's scores of classes and values against labels.

Scores take what was predicted and the labels; without graphs they are NaN.
"""

from __future__ import annotations

import math
from functools import partial
from importlib import import_module

from torch import Tensor

from hpme.errors import InputError


def _of_classes(name: str, predicted: Tensor, labels: Tensor, **options: str) -> float:
    if predicted.is_floating_point() or labels.is_floating_point():
        raise InputError("classes must be integers; turn logits into classes with output.argmax(1)")
    if predicted.dim() != 1 or predicted.shape != labels.shape:
        raise InputError(
            f"one predicted class per label is needed, got shapes {tuple(predicted.shape)} and "
            f"{tuple(labels.shape)}"
        )
    return _score(name, predicted, labels, **options)


def _of_values(name: str, predicted: Tensor, labels: Tensor) -> float:
    if predicted.numel() != labels.numel():
        raise InputError(
            f"one predicted value per label is needed, got {predicted.numel()} for {labels.numel()}"
        )
    return _score(name, predicted.detach().double().view(-1), labels.double().view(-1))


def _score(name: str, predicted: Tensor, labels: Tensor, **options: str) -> float:
    if not labels.numel():
        return math.nan
    sklearn = import_module("sklearn.metrics")  # takes a second that every start would pay
    score = getattr(sklearn, name)(labels.cpu().numpy(), predicted.cpu().numpy(), **options)
    return float(score)


accuracy = partial(_of_classes, "accuracy_score")  # share of graphs whose class is right
macro_f1 = partial(_of_classes, "f1_score", average="macro")  # over classes that occur anywhere
rmse = partial(_of_values, "root_mean_squared_error")  # in the unit of the labels
mape = partial(_of_values, "mean_absolute_percentage_error")  # of labels none of which is 0
