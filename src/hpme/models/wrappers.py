"""The module inside what training put around it, or a sentence that says what to pass."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from hpme.errors import ModelError

_INSIDE = ("model", "module", "net", "network", "gnn")
"""What training code calls the network that it trains."""
_UNWRITTEN = ("_forward_unimplemented", "LightningModule.forward")
"""What ``forward`` is called where a class does not define it."""


def unwrapped(model: Any) -> Any:
    """The module that computes, inside ``DataParallel``, ``torch.compile`` or a training class."""
    if isinstance(model, DataParallel | DistributedDataParallel):
        return unwrapped(model.module)
    if isinstance(model, nn.Module) and "_orig_mod" in model._modules:
        # What torch.compile makes of a model is the same function, but it cannot be watched.
        return unwrapped(model._orig_mod)
    if isinstance(model, nn.Module):
        written = getattr(model.forward, "__qualname__", "") not in _UNWRITTEN
        return model if written else unwrapped(_inside(model))
    if isinstance(model, Mapping):
        raise ModelError(_of_dictionary(model))
    if isinstance(model, partial):
        what = type(model.func).__name__
        fixed = [*map(repr, model.args), *(f"{k}={v!r}" for k, v in model.keywords.items())]
        how = f"lambda module, batch: module(batch.x, batch.edge_index, ..., {', '.join(fixed)})"
        how = how if isinstance(model.func, nn.Module) else "the partial, a function of a PyG Batch"
        raise ModelError(
            f"got a functools.partial of {what}; pass the module that it calls, and how it is "
            f"called as call=: ExplainedModel(module, call={how})"
        )
    if callable(model) and not isinstance(model, type):
        raise ModelError(
            f"expected a torch.nn.Module, got {type(model).__name__}; pass the module that it "
            "calls, and how as call=: ExplainedModel(module, call=lambda module, batch: ...)"
        )
    return model  # refused where modules are checked


def _inside(model: nn.Module) -> nn.Module:
    """The network inside a module that has no forward of its own."""
    children = dict(model.named_children())
    known = [children[name] for name in _INSIDE if name in children]
    if not known:
        which = ", ".join(f"model.{name}" for name in children) or "it has none inside"
        raise ModelError(
            f"{type(model).__name__} has no forward; pass the module inside that predicts ({which})"
        )
    return known[0]


def _of_dictionary(given: Mapping[Any, Any]) -> str:
    modules = [key for key, value in given.items() if isinstance(value, nn.Module)]
    if modules:
        return f"got a dictionary that holds a module; pass that: given[{modules[0]!r}]"
    weights = [key for key, value in given.items() if _weights(value)]
    if weights or _weights(given):
        part = f"checkpoint[{weights[0]!r}]" if weights else "checkpoint"
        return (
            "got weights without the module they belong to; make the module, fill it with "
            f"module.load_state_dict({part}), and pass the module"
        )
    inside = ", ".join(map(repr, given)) or "nothing"
    return f"got a dictionary with {inside}; pass a torch.nn.Module"


def _weights(given: Any) -> bool:
    inside = given.values() if isinstance(given, Mapping) else ()
    return bool(inside) and all(isinstance(value, Tensor) for value in inside)
