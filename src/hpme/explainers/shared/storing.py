"""Explainers in files: configuration and learned tensors, no code."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, TypeVar

from torch import Tensor

from hpme.errors import NotFittedError, StorageError
from hpme.storage import read_tensors, write_tensors

Self = TypeVar("Self", bound="Stored")
REMEMBERED = ("mode", "output", "return_type", "tasks", "classes", "target", "contrast")
"""Facts about the model that a file holds; how it is called is code, and given again."""


class Stored:
    """What can be written to one safetensors file and read again."""

    slug: ClassVar[str]
    fitted: bool
    facts: dict[str, Any]
    answers: dict[Any, Any]

    def save(self, path: str | Path) -> None:
        """Writes configuration and learned tensors to one safetensors file."""
        if not self.fitted:
            raise NotFittedError("nothing to save yet: call fit(model, graphs) first")
        tensors, learned = self._state("")
        meta = {"explainer": self.slug, "config": self.get_params(), **learned}  # type: ignore[attr-defined]
        write_tensors(path, tensors, meta)

    def _state(self, prefix: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and what else was learned, those of several targets included."""
        meta: dict[str, Any] = {
            "weighting": self.weighting,  # type: ignore[attr-defined]
            "level": self.level,  # type: ignore[attr-defined]
            "facts": {name: self.facts[name] for name in REMEMBERED if name in self.facts},
        }
        if not self.answers:
            meta["learned"] = self._meta()  # type: ignore[attr-defined]
            state = self.state_dict()  # type: ignore[attr-defined]
            return {prefix + name: value for name, value in state.items()}, meta
        tensors: dict[str, Tensor] = {}
        meta["answers"] = []
        for number, (target, answer) in enumerate(self.answers.items()):
            theirs, learned = answer._state(f"{prefix}{number}.")
            tensors.update(theirs)
            meta["answers"].append([target, learned])
        return tensors, meta

    @classmethod
    def load(cls: type[Self], path: str | Path) -> Self:
        """Reads an explainer written by :meth:`save`; it explains as before."""
        tensors, meta = read_tensors(path)
        if meta.get("explainer") != cls.slug:
            raise StorageError(
                f"'{path}' holds a '{meta.get('explainer')}' explainer, not '{cls.slug}'"
            )
        try:
            return cls._restore(meta["config"], tensors, meta)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise StorageError(
                f"'{path}' was written by another version of hpme: {error}; fit and save again"
            ) from error

    @classmethod
    def _restore(
        cls: type[Self], config: dict[str, Any], tensors: dict[str, Tensor], meta: dict[str, Any]
    ) -> Self:
        explainer: Any = cls(**config)
        explainer.weighting = meta["weighting"]
        explainer.level = meta.get("level", "graph")
        explainer.facts = {
            name: tuple(value) if name == "target" and isinstance(value, list) else value
            for name, value in meta.get("facts", {}).items()
        }
        for number, (target, learned) in enumerate(meta.get("answers", [])):
            prefix = f"{number}."
            own = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
            key = tuple(target) if isinstance(target, list) else target
            explainer.answers[key] = cls._restore(config, own, learned)
        if not explainer.answers:
            explainer._build(meta["learned"])
            explainer.load_state_dict(tensors)
        explainer.fitted = True
        result: Self = explainer
        return result
