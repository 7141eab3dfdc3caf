"""A model that is looked at and not changed, whatever settings of PyTorch its user has made.

Whether the user has switched on autocast, inference mode, another default dtype or another default
device: explainers compute in single precision, with gradients where they ask for them. The model
itself is called with the defaults of its user.
"""

from __future__ import annotations

import copy
import random
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.jit import ScriptModule
from torch.nn.parameter import is_lazy

from hpme.errors import ModelError

_TABLES, _LISTS, _OTHERS = (dict, OrderedDict, defaultdict, Counter), (list, deque), (tuple, set)
_NUMBERS = (np.ndarray, np.random.Generator, np.random.RandomState, random.Random)
_MODULE_ATTRIBUTES = frozenset(nn.Module().__dict__)
Defaults = tuple[torch.dtype, torch.device]
"""Default dtype and default device."""
_OURS: Defaults = (torch.float32, torch.device("cpu"))
_users: ContextVar[Defaults | None] = ContextVar("users", default=None)
_turn = threading.RLock()
"""Threads take turns, whatever their models: these may share layers, and all share the random state
and the default dtype of the process."""


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Eval mode, no parameter gradients, empty caches; everything as before afterwards.

    Whatever a forward pass writes goes into copies: parameters, buffers, and attributes of modules
    that are tensors, arrays, random generators, or lists, dictionaries and the like of these. The
    originals are put back, even after an error, and so is the global random state. Not covered is
    what a forward pass writes into objects of other classes, and outside of the model. Settings of
    PyTorch around the call do not reach inside, see :func:`own_settings`. Other threads wait.
    """
    check_module(model)
    with _turn:
        modules = modules_of(model)
        tables = [t for m in modules for t in (m.__dict__, m._parameters, m._buffers)]
        before = [dict(table) for table in tables]
        with own_settings(modules), same_random_state(modules):
            try:
                model.eval()
                _swap_in_copies(modules)
                yield
            finally:
                for table, saved in zip(tables, before, strict=True):
                    table.clear()
                    table.update(saved)


def _swap_in_copies(modules: list[nn.Module]) -> None:
    """Gives modules copies of what a forward pass may write."""
    copies: dict[int, Any] = {}  # what two modules share they go on sharing
    for module in modules:
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                tensors[name] = _copied(tensor, copies)
    for module in modules:
        # Others are parameters, modules, hooks and the like.
        own = module.__dict__.keys() - _MODULE_ATTRIBUTES
        for name in own:
            value = module.__dict__[name]
            if name.startswith("_cached"):  # as PyG's layers call what they keep
                module.__dict__[name] = None
            elif name == "cached" and value is True:
                module.__dict__[name] = False
            elif "cache" in name.lower() and type(value) in (*_TABLES, *_LISTS, *_OTHERS):
                module.__dict__[name] = copies.setdefault(id(value), type(value)())
            else:
                module.__dict__[name] = _copied(value, copies)


def _copied(value: Any, copies: dict[int, Any]) -> Any:
    """A copy with copies of all inside; what is no container, tensor or the like stays itself."""
    if id(value) in copies:
        return copies[id(value)]
    if isinstance(value, Tensor):
        clone = value.detach().clone()
        made: Any = nn.Parameter(clone, False) if isinstance(value, nn.Parameter) else clone
    elif isinstance(value, torch.Generator):
        made = torch.Generator(value.device)
        made.set_state(value.get_state())
    elif isinstance(value, _NUMBERS):
        made = copy.deepcopy(value)
    elif type(value) in _TABLES:
        made = copies[id(value)] = copy.copy(value)  # before what is inside, which may hold it
        for key, inside in value.items():
            made[key] = _copied(inside, copies)
    elif type(value) in _LISTS:
        made = copies[id(value)] = copy.copy(value)
        made.clear()
        made.extend(_copied(inside, copies) for inside in value)
    elif type(value) in _OTHERS:
        made = type(value)(_copied(inside, copies) for inside in value)
    else:
        return value
    copies[id(value)] = made
    return made


def check_module(model: object) -> None:
    """Raises :class:`ModelError` unless this is a module that can be explained."""
    if not isinstance(model, nn.Module):
        raise ModelError(
            f"expected a torch.nn.Module, got {type(model).__name__}; wrap it in a module"
        )
    if isinstance(model, ScriptModule):
        raise ModelError(
            "a TorchScript model (script or trace) hides its layers and arguments; explain the "
            "torch.nn.Module it was made from"
        )
    tables = (t for module in modules_of(model) for t in (module._parameters, module._buffers))
    if any(is_lazy(tensor) for table in tables for tensor in table.values() if tensor is not None):
        named = (*model.named_parameters(), *model.named_buffers())
        raise ModelError(
            f"'{next(name for name, tensor in named if is_lazy(tensor))}' of the model has no "
            "shape yet: a lazy layer has never been called; call the model once on a batch before "
            "it is explained"
        )


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
def own_settings(modules: Sequence[nn.Module]) -> Iterator[None]:
    """No autocast, no inference mode, single precision on the CPU by default, for modules."""
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
        if any(m._compiled_call_impl is not None or "_orig_mod" in m._modules for m in modules):
            # What compilers make of a model is the same function, but it cannot be watched.
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(_with(_OURS))
        yield


def users_settings() -> AbstractContextManager[None]:
    """Default dtype and device as they were outside of :func:`own_settings`."""
    return _with(_users.get() or _defaults())


@contextmanager
def same_random_state(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Puts back the global random state, which the forward pass of modules may use."""
    numpy_state, python_state = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(cards(modules)):
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
            random.setstate(python_state)


@contextmanager
def removed_afterwards() -> Iterator[list[Any]]:
    """A list of hooks that do not stay."""
    handles: list[Any] = []
    try:
        yield handles
    finally:
        for handle in handles:
            handle.remove()


def _defaults() -> Defaults:
    return torch.get_default_dtype(), torch.get_default_device()


@contextmanager
def _with(wanted: Defaults) -> Iterator[None]:
    (dtype, device), before = wanted, _defaults()
    with ExitStack() as stack:
        if dtype != before[0]:
            torch.set_default_dtype(dtype)
            stack.callback(torch.set_default_dtype, before[0])
        if device != before[1]:  # entering it slows every call down
            stack.enter_context(device)
        yield


def cards(modules: Sequence[nn.Module]) -> list[int]:
    """Numbers of the CUDA devices where the parameters of modules are."""
    return sorted(device.index for device in _devices(modules) if device.type == "cuda")


def _devices(modules: Sequence[nn.Module]) -> set[torch.device]:
    """Where the parameters of modules are."""
    parameters = (value for module in modules for value in module._parameters.values())
    return {parameter.device for parameter in parameters if parameter is not None}
