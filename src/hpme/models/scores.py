"""How good predictions are: scores of predicted classes and values against labels."""

from __future__ import annotations

import torch
from torch import Tensor

from hpme.errors import InputError


def accuracy(predicted: Tensor, labels: Tensor) -> float:
    """Share of graphs whose class is right; NaN without graphs.

    Args:
        predicted: Predicted class of every graph.
        labels: Class of every graph.
    """
    predicted, labels = _classes(predicted, labels)
    return float((predicted == labels).double().mean())


def macro_f1(predicted: Tensor, labels: Tensor) -> float:
    r"""Mean over classes of :math:`F_1 = 2 TP / (2 TP + FP + FN)`; NaN without graphs.

    Classes are those among labels or predictions.

    Args:
        predicted: Predicted class of every graph.
        labels: Class of every graph.
    """
    predicted, labels = _classes(predicted, labels)
    classes, index = torch.unique(torch.cat([predicted, labels]), return_inverse=True)
    predicted, labels = index.chunk(2)
    hits, guesses, cases = (
        torch.bincount(part, minlength=classes.numel()).double()
        for part in (labels[predicted == labels], predicted, labels)
    )
    return float((2 * hits / (guesses + cases)).mean())


def rmse(predicted: Tensor, labels: Tensor) -> float:
    """Root of the mean squared error, in the unit of the labels; NaN without graphs.

    Args:
        predicted: Predicted value of every graph.
        labels: Value of every graph.
    """
    return float(_error(predicted, labels).square().mean().sqrt())


def mape(predicted: Tensor, labels: Tensor) -> float:
    """Mean absolute error relative to the labels, as a fraction; NaN without graphs.

    Infinite, or NaN where the prediction is 0 as well, if a label is 0.

    Args:
        predicted: Predicted value of every graph.
        labels: Value of every graph.
    """
    return float((_error(predicted, labels) / labels.view(-1)).abs().mean())


def _classes(predicted: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    if predicted.is_floating_point() or labels.is_floating_point():
        raise InputError("classes must be integers; turn logits into classes with output.argmax(1)")
    if predicted.dim() != 1 or predicted.shape != labels.shape:
        raise InputError(
            f"one predicted class per label is needed, got shapes {tuple(predicted.shape)} and "
            f"{tuple(labels.shape)}"
        )
    return predicted, labels


def _error(predicted: Tensor, labels: Tensor) -> Tensor:
    if predicted.numel() != labels.numel():
        raise InputError(
            f"one predicted value per label is needed, got {predicted.numel()} for {labels.numel()}"
        )
    return predicted.detach().double().view(-1) - labels.view(-1)
