"""Chemprop's modules and model files, read without running what files hold where that suffices."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any, cast
from zipfile import is_zipfile

import torch
from torch import nn
from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

from hpme.errors import InputError, StorageError, optional_module
from hpme.models.chemprop.ensemble import Ensemble, task_names

_MODULES = ("chemprop.nn.", "torch.nn.modules.")
"""Where classes of layers, transforms and metrics come from; making one runs nothing else."""
_DICTIONARY = "lightning.fabric.utilities.data.AttributeDict"
_OTHERS = {
    "torchmetrics.metric.jit_distributed_available",
    *(
        f"torchmetrics.utilities.data.dim_zero_{how}"
        for how in ("cat", "max", "mean", "min", "sum")
    ),
}
_DAMAGED = (pickle.UnpicklingError, RuntimeError, KeyError, TypeError, ValueError, AttributeError)
PARTS = ("message_passing", "agg", "predictor")


def read_model(
    path: str | Path | Iterable[str | Path], *, trust: bool = False
) -> tuple[nn.Module, list[str] | None]:
    """The network in a file of ``chemprop train`` or of Lightning, and the names of its tasks.

    Several files, or a folder of them, are an :class:`~hpme.models.chemprop.Ensemble`. The names
    stay with the network, so that :func:`~hpme.models.chemprop.explained` knows them. Such files
    are pickles. Tensors, numbers and Chemprop's own classes are read from them with
    ``weights_only=True``; a file that names anything else is refused.

    Args:
        path: A ``.pt`` or ``.ckpt`` file, several, or a folder: then the ``.pt`` files in it at any
            depth, or the ``.ckpt`` files if there are no others.
        trust: Whether to read a file that names other code, for example a layer of your own. That
            code runs while the file is read: do so only with files you made.

    Raises:
        StorageError: If a file is missing, damaged, needs trust, or holds another network.
        InputError: If several networks differ in inputs, head or tasks.
        MissingPackageError: If Chemprop is not installed.
    """
    chemprop_module("nn")
    files = model_files([path] if isinstance(path, str | Path) else path)
    members = [_read_one(file, trust=trust) for file in files]
    model = members[0] if len(members) == 1 else Ensemble(members, files)
    return model, task_names(model)


def model_files(paths: Iterable[str | Path]) -> list[Path]:
    """The model files among files and in folders, each once."""
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            # Training writes the best network as .pt beside checkpoints of the same.
            inside = sorted(path.rglob("*.pt")) or sorted(path.rglob("*.ckpt"))
            if not inside:
                raise StorageError(f"no .pt or .ckpt file in folder '{path}'; check the path")
            found += inside
        else:
            found.append(path)
    if not found:
        raise StorageError("no model file; give a .pt or .ckpt file, several, or a folder")
    return list(dict.fromkeys(found))


def _read_one(path: Path, *, trust: bool) -> nn.Module:
    if not path.is_file():
        raise StorageError(f"no file '{path}'; check the path")
    if not is_zipfile(path):
        raise StorageError(
            f"'{path}' is no model file of Chemprop 2; convert one of version 1 with: "
            "chemprop convert --conversion v1_to_v2"
        )
    try:
        content = _content(path, trust=trust)
        model: Any = _rebuild(content, path)
        names = content.get("output_columns")
        model.task_names = None if names is None else [str(name) for name in names]
        return cast(nn.Module, model)
    except StorageError:
        raise
    except _DAMAGED as error:
        raise StorageError(
            f"'{path}' is damaged or of another version of Chemprop: {type(error).__name__}: "
            f"{str(error).splitlines()[0] if str(error) else ''}"
        ) from error


def _content(path: Path, *, trust: bool) -> dict[str, Any]:
    named = [] if trust else get_unsafe_globals_in_checkpoint(path)
    # Torch fills plain dictionaries only; this one adds nothing that is needed.
    found = {name: dict if name == _DICTIONARY else _known(name) for name in named}
    foreign = [name for name, kind in found.items() if kind is None]
    if foreign:
        raise StorageError(
            f"'{path}' names code that is not Chemprop's ({', '.join(sorted(foreign))}), which "
            "would run while the file is read; if you made the file, or trust whoever did, read "
            "it with --trust-model-file (in Python: trust=True)"
        )
    with safe_globals([(kind, name) for name, kind in found.items()]):
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=not trust)
    return content


def _known(name: str) -> Any:
    """A class or function that a file may name, ``None`` if it may not."""
    module, _, attribute = name.rpartition(".")
    if name not in _OTHERS and not name.startswith(_MODULES):
        return None
    found = getattr(importlib.import_module(module), attribute, None)
    layer = isinstance(found, type) and issubclass(found, nn.Module | Enum)
    return found if layer or name in _OTHERS else None


def _rebuild(content: dict[str, Any], path: Path) -> nn.Module:
    hyper = dict(content["hyper_parameters"])
    if "atom_predictor" in hyper or "blocks" in hyper["message_passing"]:
        raise StorageError(
            f"'{path}' holds a network for atoms and bonds or for several molecules at once; "
            "networks that predict properties of one molecule can be explained"
        )
    for part in PARTS:
        given = dict(hyper[part])
        hyper[part] = given.pop("cls")(**given)
    hyper["metrics"] = None  # they score a training, which is over
    model: nn.Module = chemprop_module("models").MPNN(**hyper)
    weights = {k: v for k, v in content["state_dict"].items() if not k.startswith("metrics.")}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    wrong = [name for name in [*missing, *unexpected] if not name.startswith("metrics.")]
    if wrong:
        raise InputError(f"weights do not fit the hyper-parameters: {', '.join(wrong)}")
    return model.eval()


def chemprop_module(name: str) -> Any:
    """A module of Chemprop, such as ``"nn"``."""
    return optional_module(f"chemprop.{name}", "this needs Chemprop 2 ({error})", "chemprop")
