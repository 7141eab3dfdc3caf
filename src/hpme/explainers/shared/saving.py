"""Explainers in files: what is learned, and what is needed to build them again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import torch
from torch import Tensor

from hpme.data.info import Level
from hpme.errors import StorageError
from hpme.models.adapter import Weighting
from hpme.storage import read_tensors, write_tensors

if TYPE_CHECKING:
    from hpme.explainers.shared.base import GraphExplainer

Explainer = TypeVar("Explainer", bound="GraphExplainer")


def save_explainer(explainer: GraphExplainer, path: str | Path) -> None:
    """Writes configuration and learned tensors to one safetensors file."""
    meta = {
        "explainer": explainer.slug,
        "config": explainer.config(),
        "weighting": explainer.weighting,
        "level": explainer.level,
        "learned": explainer._meta(),
    }
    write_tensors(path, explainer.state_dict(), meta)


def load_explainer(kind: type[Explainer], path: str | Path) -> Explainer:
    """Reads what :func:`save_explainer` wrote.

    Raises:
        StorageError: If the file is missing, damaged, of another explainer, or its description
            does not fit its tensors.
    """
    tensors, meta = read_tensors(path)
    if meta.get("explainer") != kind.slug:
        raise StorageError(
            f"'{path}' holds a '{meta.get('explainer')}' explainer, not '{kind.slug}'"
        )
    try:
        explainer = kind(**meta["config"])
        explainer.weighting = _known("weighting", meta["weighting"], get_args(Weighting))
        explainer.level = _known("level", meta.get("level", "graph"), get_args(Level))
        # Shapes alone take no memory: a description may ask for any size.
        with torch.device("meta"):
            explainer._build(meta["learned"])
        _fill(explainer, tensors)
        explainer._check_learned()
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, IndexError) as error:
        raise StorageError(
            f"'{path}' was written by another version of hpme: {error}; fit and save again"
        ) from error
    explainer.fitted = True
    return explainer


def _known(name: str, value: Any, valid: tuple[Any, ...]) -> Any:
    if value is not None and value not in valid:
        raise ValueError(f"unknown {name} {value!r}; it must be one of {', '.join(valid)}")
    return value


def _fill(explainer: GraphExplainer, tensors: dict[str, Tensor]) -> None:
    explainer.load_state_dict(tensors, assign=True)
    for name, tensor in explainer.state_dict().items():
        if tensor.is_meta or tensor.dtype != tensors[name].dtype:
            raise ValueError(f"'{name}' is missing, or of another type")
