"""A model that is looked at and not changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from hpme.errors import ModelError


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Eval mode, no parameter gradients; everything as before afterwards, even on error."""
    check_module(model)
    training = {module: module.training for module in model.modules()}
    needs_grad = {parameter: parameter.requires_grad for parameter in model.parameters()}
    try:
        model.eval()
        for parameter in needs_grad:
            parameter.requires_grad_(False)
        yield
    finally:
        for module, flag in training.items():
            module.training = flag
        for parameter, flag in needs_grad.items():
            parameter.requires_grad_(flag)


def check_module(model: object) -> None:
    """Raises :class:`ModelError` unless this is a module."""
    if not isinstance(model, nn.Module):
        raise ModelError(
            f"expected a torch.nn.Module, got {type(model).__name__}; wrap it in a module"
        )
