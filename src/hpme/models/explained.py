"""The model that is explained, with all that must be known to call it and to read its output."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, cast, get_args

from torch import Tensor, nn
from torch_geometric.explain import ModelConfig

from hpme.data.info import Level
from hpme.errors import InputError
from hpme.models.adapter import ModelAdapter, Weighting
from hpme.models.freezing import check_module, frozen
from hpme.models.task import Mode, Task


@dataclass(frozen=True)
class ExplainedModel:
    """A trained model and what is known about it; explainers, metrics and the page take it.

    They also take a bare module; then what they need to know is given with every call. Nothing
    here changes the model.

    Args:
        model: Called as ``model(x, edge_index, batch=..., [edge_weight=...], [edge_attr=...])``.
        mode: ``"regression"``, ``"binary_classification"`` or ``"multiclass_classification"``;
            needed only if the model returns one value per graph.
        level: ``"graph"``, or ``"node"`` for a model that returns one row per node; by default
            that of ``model_config``, else whatever suits the graphs.
        embedding_layer: Dotted name of the layer whose output is the node embedding; see
            :class:`~hpme.models.adapter.ModelAdapter`.
        model_config: PyG's ``ModelConfig``, in place of ``mode`` and ``level``.
    """

    model: nn.Module
    _: KW_ONLY
    mode: Mode | None = None
    level: Level | None = None
    embedding_layer: str | None = None
    model_config: Any = None

    def __post_init__(self) -> None:
        check_module(self.model)

    @classmethod
    def of(
        cls,
        model: nn.Module | ExplainedModel,
        *,
        mode: Mode | None = None,
        level: Level | None = None,
        embedding_layer: str | None = None,
        model_config: Any = None,
    ) -> ExplainedModel:
        """The given one, or a bare module wrapped; what else is given here counts more."""
        facts = {
            "mode": mode,
            "level": level,
            "embedding_layer": embedding_layer,
            "model_config": model_config,
        }
        known = model if isinstance(model, ExplainedModel) else cls(model)
        given = {name: fact for name, fact in facts.items() if fact is not None}
        return replace(known, **given) if given else known

    @property
    def known_level(self) -> Level | None:
        """The level as it was given, or that of the configuration."""
        if self.level is not None or self.model_config is None:
            return self.level
        level = ModelConfig.cast(self.model_config).task_level.value
        if level not in get_args(Level):
            raise InputError(f"task level '{level}' is not supported; use one of {get_args(Level)}")
        return cast(Level, level)

    def adapter(self, *, weighting: Weighting | None = None) -> ModelAdapter:
        """What calls the model; use inside :meth:`frozen`.

        Args:
            weighting: How edge weights reach the model, if that is known already.
        """
        return ModelAdapter(
            self.model,
            embedding_layer=self.embedding_layer,
            weighting=weighting,
            level=self.known_level or "graph",
            task=self.task,
        )

    def task(self, output: Tensor) -> Task:
        """What the model's output means.

        Args:
            output: Its output for some graphs; regression losses are in units of its spread.

        Raises:
            InputError: If that is not known, and cannot be told from the output.
            ModelError: If the output does not fit.
        """
        task = Task.resolve(output, None if self.mode else self.model_config, self.mode)
        task.check(output)
        return task

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Eval mode, no parameter gradients; everything as before afterwards, even on error."""
        with frozen(self.model):
            yield


Model = nn.Module | ExplainedModel
"""What explainers, metrics and the page take."""
