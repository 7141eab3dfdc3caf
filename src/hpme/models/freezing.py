"""A model that is looked at and not changed."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from torch import Tensor, nn
from torch.jit import ScriptModule
from torch.nn.parameter import is_lazy

from hpme.errors import ModelError
from hpme.models.ground import modules_of, own_ground, same_random_state

_CONTAINERS = (list, dict, set, deque, OrderedDict)
Value = TypeVar("Value")


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Eval mode, no parameter gradients, empty caches; everything as before afterwards.

    Whatever a forward pass writes goes into copies: buffers, attributes, lists and dictionaries of
    the modules. The originals are put back, even after an error, and so is the global random state.
    Settings of PyTorch around the call do not reach inside, see :mod:`hpme.models.ground`.
    """
    check_module(model)
    modules = modules_of(model)
    attributes = [dict(module.__dict__) for module in modules]
    tensors = [(dict(module._parameters), dict(module._buffers)) for module in modules]
    needs_grad = {
        parameter: parameter.requires_grad
        for module in modules
        for parameter in module._parameters.values()
        if parameter is not None and not parameter.is_inference()
    }
    with own_ground(modules), same_random_state(modules):
        try:
            model.eval()
            for parameter in needs_grad:
                parameter.requires_grad_(False)
            _swap_in_copies(modules)
            yield
        finally:
            for module, before, (parameters, buffers) in zip(
                modules, attributes, tensors, strict=True
            ):
                for current, saved in (
                    (module.__dict__, before),
                    (module._parameters, parameters),
                    (module._buffers, buffers),
                ):
                    current.clear()
                    current.update(saved)  # type: ignore[arg-type]
            for parameter, flag in needs_grad.items():
                parameter.requires_grad_(flag)


def _swap_in_copies(modules: list[nn.Module]) -> None:
    """Gives modules copies of what a forward pass may write, and of what autograd cannot use."""
    copies: dict[int, Any] = {}  # what two modules share they go on sharing

    def once(value: Value, copied: Any) -> Value:
        result: Value = copies.setdefault(id(value), copied)
        return result

    for module in modules:
        for name, parameter in module._parameters.items():
            if parameter is not None and parameter.is_inference():
                clone = nn.Parameter(parameter.detach().clone(), requires_grad=False)
                module._parameters[name] = once(parameter, clone)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = once(buffer, buffer.detach().clone())
        # Others are parameters, modules, hooks and the like.
        own = [name for name in module.__dict__ if name not in _MODULE_ATTRIBUTES]
        for name in own:
            value = module.__dict__[name]
            if name.startswith("_cached"):  # as PyG's layers call what they keep
                module.__dict__[name] = None
            elif name == "cached" and value is True:
                module.__dict__[name] = False
            elif type(value) in _CONTAINERS:
                empty = type(value)() if "cache" in name.lower() else value.copy()
                module.__dict__[name] = once(value, empty)
            elif isinstance(value, Tensor) and value.is_inference():
                module.__dict__[name] = once(value, value.clone())


_MODULE_ATTRIBUTES = frozenset(nn.Module().__dict__)


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
    if not any(_has_lazy(module) for module in modules_of(model)):
        return  # names are for messages
    for path, module in model.named_modules():
        for name, tensor in (*module._parameters.items(), *module._buffers.items()):
            if is_lazy(tensor):
                raise ModelError(
                    f"'{path}.{name}' of the model has no shape yet: a lazy layer has never been "
                    "called; call the model once on a batch before it is explained"
                )


def _has_lazy(module: nn.Module) -> bool:
    tensors = (*module._parameters.values(), *module._buffers.values())
    return any(tensor is not None and is_lazy(tensor) for tensor in tensors)
