"""Settings of PyTorch that must not reach into an explanation, and those a model may rely on.

Whether the user has switched on autocast, inference mode, another default dtype or another default
device: explainers compute in single precision, with gradients where they ask for them. The model
itself is called with the defaults of its user.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar

import numpy as np
import torch
from torch import nn

Defaults = tuple[torch.dtype, torch.device]
"""Default dtype and default device."""
_OURS: Defaults = (torch.float32, torch.device("cpu"))
_users: ContextVar[Defaults | None] = ContextVar("users", default=None)


def modules_of(model: nn.Module) -> list[nn.Module]:
    """The modules of a model, each once; PyTorch's own walk spells their names on the way."""
    found = {model: None}
    waiting = [model]
    while waiting:
        children = waiting.pop()._modules.values()
        new = [child for child in children if child is not None and child not in found]
        found.update(dict.fromkeys(new))
        waiting += new
    return list(found)


@contextmanager
def own_ground(modules: Sequence[nn.Module]) -> Iterator[None]:
    """No autocast, no inference mode, single precision on the CPU unless told otherwise.

    Args:
        modules: Those of the model.
    """
    users = _users.get() or _defaults()
    kinds = {"cpu", *(device.type for device in _devices(modules))}
    token = _users.set(users)
    with ExitStack() as stack:
        stack.callback(_users.reset, token)
        if torch.is_inference_mode_enabled():
            stack.enter_context(torch.inference_mode(False))
        for kind in kinds:
            if kind != "meta" and torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        if _is_compiled(modules):
            # What compilers make of a model is the same function, but it cannot be watched.
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(_with(_OURS))
        yield


@contextmanager
def as_its_user() -> Iterator[None]:
    """The defaults as they were outside of :func:`own_ground`."""
    with _with(_users.get() or _defaults()):
        yield


@contextmanager
def same_random_state(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Puts back the global random state, which the forward pass of a model may use.

    Args:
        modules: Those of the model.
    """
    ids = sorted(device.index for device in _devices(modules) if device.type == "cuda")
    numpy_state, python_state = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(ids):
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
            random.setstate(python_state)


def _defaults() -> Defaults:
    return torch.get_default_dtype(), torch.get_default_device()


@contextmanager
def _with(wanted: Defaults) -> Iterator[None]:
    dtype, device = wanted
    before = _defaults()
    with ExitStack() as stack:
        if dtype != before[0]:
            torch.set_default_dtype(dtype)
            stack.callback(torch.set_default_dtype, before[0])
        if device != before[1]:  # entering it slows every call down
            stack.enter_context(device)
        yield


def _devices(modules: Sequence[nn.Module]) -> set[torch.device]:
    """Where the parameters of modules are."""
    parameters = (value for module in modules for value in module._parameters.values())
    return {parameter.device for parameter in parameters if parameter is not None}


def _is_compiled(modules: Sequence[nn.Module]) -> bool:
    return any(
        getattr(module, "_compiled_call_impl", None) is not None or "_orig_mod" in module._modules
        for module in modules
    )
