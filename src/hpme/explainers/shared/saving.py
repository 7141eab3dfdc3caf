"""Explainers in files: what is learned, and what is needed to build them again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import torch
from torch import Tensor

from hpme.data.info import Level
from hpme.errors import StorageError
from hpme.graphs.schema import Schema
from hpme.models.adapter import Weighting
from hpme.models.output import Task
from hpme.storage import FileContent, read_tensors, write_tensors

if TYPE_CHECKING:
    from hpme.explainers.shared.base import GraphExplainer

Explainer = TypeVar("Explainer", bound="GraphExplainer")


REMEMBERED = (
    *("mode", "output", "return_type", "tasks", "classes", "target", "contrast"),
    *("node_type", "descriptors", "embedding_layer"),
)
"""Facts about the model that a file holds; how it is called is code, and given again."""


def save_explainer(explainer: GraphExplainer, path: str | Path) -> None:
    """Writes configuration and learned tensors to one safetensors file."""
    tensors, learned = _state(explainer, "")
    meta = {"explainer": explainer.slug, "config": explainer.config(), **learned}
    write_tensors(path, tensors, meta)


def _state(explainer: GraphExplainer, prefix: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and what else was learned, by each of the explainers of several targets."""
    facts = {name: explainer.facts[name] for name in REMEMBERED if name in explainer.facts}
    meta: dict[str, Any] = {
        "weighting": explainer.weighting,
        "level": explainer.level,
        "width": explainer.width,
        "facts": facts,
        "schema": None if explainer.schema is None else explainer.schema.to_text(),
    }
    if explainer.background is not None:
        meta["background"] = explainer.background
    if not explainer.answers:
        state = explainer.state_dict()
        tensors = {prefix + name: value for name, value in state.items()}
        return tensors, {**meta, "learned": explainer._meta()}
    tensors, answers = {}, []
    for number, (target, answer) in enumerate(explainer.answers.items()):
        theirs, learned = _state(answer, f"{prefix}{number}.")
        tensors.update(theirs)
        answers.append([target, learned])
    return tensors, {**meta, "answers": answers}


def load_explainer(kind: type[Explainer], path: str | Path | FileContent) -> Explainer:
    """Reads what :func:`save_explainer` wrote; :class:`StorageError` if it does not fit."""
    tensors, meta = read_tensors(path)
    if meta.get("explainer") != kind.slug:
        raise StorageError(
            f"'{path}' holds a '{meta.get('explainer')}' explainer, not '{kind.slug}'"
        )
    try:
        return _restored(kind, meta["config"], tensors, meta)
    except Exception as error:  # whatever a description can make of a constructor
        raise StorageError(
            f"'{path}' was written by another version of hpme: {error}; fit and save again"
        ) from error


def _restored(
    kind: type[Explainer], config: dict[str, Any], tensors: dict[str, Tensor], meta: dict[str, Any]
) -> Explainer:
    explainer = kind(**config)
    explainer.weighting = _known("weighting", meta["weighting"], get_args(Weighting))
    explainer.level = _known("level", meta.get("level", "graph"), get_args(Level))
    explainer.width = _typed("width", meta.get("width"), int)
    explainer.background = _typed("background", meta.get("background"), float, several=True)
    schema = meta.get("schema")
    explainer.schema = None if schema is None else Schema.from_text(schema)
    facts = {name: fact for name, fact in meta.get("facts", {}).items() if name in REMEMBERED}
    for name, fact in facts.items():
        kinds = str | int if name in ("output", "target", "contrast") else str
        several = name in ("tasks", "classes") or (name == "target" and isinstance(fact, list))
        _typed(name, fact, kinds, several=several)
    explainer.facts = {**facts, "target": _target(facts["target"])} if "target" in facts else facts
    Task(facts.get("mode", "regression"), facts.get("return_type", "raw"))  # known words
    for number, (target, learned) in enumerate(meta.get("answers", [])):
        prefix = f"{number}."
        own = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        explainer.answers[_target(target)] = _restored(kind, config, own, learned)
    if not explainer.answers:
        # Shapes alone take no memory: a description may ask for any size.
        with torch.device("meta"):
            explainer._build(meta["learned"])
        # Own memory: parts of a file are not aligned, and products with them round differently.
        own = {name: tensor.clone() for name, tensor in tensors.items()}
        built = {name: tensor.dtype for name, tensor in explainer.state_dict().items()}
        explainer.load_state_dict(own, assign=True)
        for name, tensor in explainer.state_dict().items():
            if tensor.is_meta or tensor.dtype != built.get(name, tensor.dtype):
                raise ValueError(f"'{name}' is missing, or of another type")
            if not bool(torch.isfinite(tensor).all()):
                raise ValueError(f"'{name}' has values that are NaN or infinite")
        explainer._check_learned()
    explainer.fitted = True
    return explainer


def _target(value: Any) -> Any:
    """A task and its class are a list in a file."""
    return tuple(value) if isinstance(value, list) else value


def _typed(name: str, value: Any, kind: Any, *, several: bool = False) -> Any:
    """What a description holds under a name, if it is of the kind, or several of it are."""
    for one in value if several and isinstance(value, list) else [value]:
        if value is not None and (not isinstance(one, kind) or isinstance(one, bool)):
            raise ValueError(f"{name} is {value!r}")
    return value


def _known(name: str, value: Any, valid: tuple[Any, ...]) -> Any:
    if value is not None and value not in valid:
        raise ValueError(f"unknown {name} {value!r}; it must be one of {', '.join(valid)}")
    return value
