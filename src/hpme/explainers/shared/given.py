"""What an explainer is given: the model with what is known about it, and graphs it can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from torch import Tensor

from hpme.data.info import Level
from hpme.errors import InputError
from hpme.explainers.shared.inputs import is_whole, natural_level
from hpme.explainers.shared.sources import Collection, Rooted, index_level
from hpme.graphs import GraphStore
from hpme.graphs.schema import Schema
from hpme.models.explained import ExplainedModel, Model, known_facts

Index = int | Sequence[int] | Tensor
"""Nodes of one graph: a number, several, or a boolean mask over all; or links ``[2, L]``."""


class Given:
    """What :class:`~hpme.explainers.shared.base.GraphExplainer` does with its arguments."""

    needs_fit: ClassVar[bool]
    hetero: ClassVar[bool]
    embedding_layer: str | None
    num_hops: int
    level: Level | None
    schema: Schema | None
    facts: dict[str, Any]
    fitted: bool
    model_config: Any

    def _source(
        self, explained: ExplainedModel, graphs: Any, index: Index | None, *, anew: bool = False
    ) -> Collection | Rooted:
        """The graphs as they are, or the ego graphs of nodes or links of one graph.

        They are brought into the types the explainer was fitted to, unless it is fitted ``anew``.
        """
        level = explained.known_level
        if index is None and not (level in ("node", "edge") and is_whole(graphs)):
            store = self._read(explained, graphs, anew=anew)
            return Collection(store, copied=isinstance(graphs, list | tuple))
        if level == "graph":
            raise InputError(
                "index names nodes or links, but the task level is 'graph': give another, or fit "
                "with index if the explainer was fitted to a graph-level model"
            )
        source = Rooted.of(
            graphs,
            index,
            level,
            num_hops=self.num_hops,
            everything=explained.reads_all,
            node_type=explained.node_type,
        )
        self._check_kind(source.whole.schema, anew=anew)
        return source if anew else replace(source, schema=self.schema)

    def _read(self, explained: ExplainedModel, graphs: Any, *, anew: bool = False) -> GraphStore:
        """The graphs, with types numbered as those the explainer was fitted to."""
        store = explained.read(graphs)
        self._check_kind(store.schema, anew=anew)
        return store if anew or self.schema is None else store.conformed(self.schema)

    def _check_kind(self, schema: Schema | None, *, anew: bool = False) -> None:
        """Refuses graphs with types, or without, if they are of another kind than is known."""
        if schema is not None and not self.hetero:
            raise InputError(
                f"{type(self).__name__} does not explain heterogeneous graphs; those that do: "
                "hpme, random, grad, occlusion, integratedgradients, gnnexplainer, pgexplainer"
            )
        learned = self.fitted and (self.needs_fit or self.schema is not None)
        if not anew and learned and (schema is None) != (self.schema is None):
            kinds = ("homogeneous", "heterogeneous")
            given, known = kinds if schema is None else kinds[::-1]
            raise InputError(
                f"the graphs are {given}, the explainer was fitted to {known} ones; fit it to these"
            )

    def _explained(self, model: Model, **facts: Any) -> ExplainedModel:
        """The model with what is known about it here; ``facts`` of a call count most."""
        found = ExplainedModel.of(model, embedding_layer=self.embedding_layer, **facts)
        if found.model_config is None and hasattr(self, "_model_config"):  # set by PyG's Explainer
            return replace(found, model_config=self.model_config)
        return found

    def _leveled(
        self, model: Model, anchors: Tensor | None, index: Any = None, **facts: Any
    ) -> ExplainedModel:
        """The model at its level: as configured, as fitted, else as the arguments suggest.

        What :meth:`fit` was told is known, unless model or arguments say otherwise.
        """
        own = known_facts(model) if isinstance(model, ExplainedModel) else {}
        explained = self._explained(model, **{**self.facts, **own, **facts})
        natural = natural_level(anchors) if index is None else index_level(index)
        return replace(explained, level=explained.known_level or self.level or natural)
