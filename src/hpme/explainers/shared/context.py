"""From a model, graphs and what is known of them to a context: the frozen model on the graphs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.explainers.shared.sources import Collection, Rooted, is_whole, natural_level
from hpme.graphs import GraphBatch, GraphStore
from hpme.graphs.ego import WholeGraph
from hpme.graphs.schema import Schema
from hpme.models.adapter import ModelAdapter, device_of
from hpme.models.explained import ExplainedModel, Model, known_facts
from hpme.models.task import Task

if TYPE_CHECKING:
    from hpme.explainers.shared.base import GraphExplainer

FEWEST_GRAPHS = 32
"""Fewer say little, however large they are."""


@dataclass(frozen=True)
class Context:
    r"""A frozen model :math:`f` and what it computes on the graphs.

    Args:
        adapter: Calls the model.
        task: What its output means.
        store: The graphs.
        h: Node embeddings :math:`\mathbf{H}` of all nodes.
        layers: Output of every message-passing layer, for all nodes.
        graph_embedding: Graph embeddings :math:`\mathbf{h}_G`.
        values: What an explanation should keep, see :meth:`Task.values`.
        prediction: Predicted class or value of every graph.
    """

    adapter: ModelAdapter
    task: Task
    store: GraphStore
    h: Tensor
    layers: tuple[Tensor, ...]
    graph_embedding: Tensor
    values: Tensor
    prediction: Tensor

    @classmethod
    def build(
        cls,
        model: Model,
        store: GraphStore,
        *,
        batch_size: int,
        task: Task | None = None,
        width: int | None = None,
        **facts: Any,
    ) -> Context:
        """Runs the model once over all graphs. Call inside :meth:`ExplainedModel.frozen`.

        Args:
            model: The model.
            store: The graphs.
            batch_size: Graphs per forward pass.
            task: What the model's output means, if that is known already.
            width: Channels of the node embeddings an explainer was fitted to, if it was.
            **facts: What else is known, see :class:`~hpme.models.ExplainedModel`.
        """
        if bool((store.sizes == 0).any()):
            graph = int((store.sizes == 0).nonzero()[0])
            raise InputError(f"graph {graph} has no nodes; remove empty graphs before fitting")
        explained = ExplainedModel.of(model, **facts)
        adapter = explained.adapter()
        adapter.width = width
        # Else steps of explainers would leave gradients on users' tensors.
        seen = store.detached(everything=explained.reads_all)
        store = replace(seen, batch_device=adapter.device or store.device)
        if not adapter.caller.reads_x(store.batch(torch.tensor([0]))):
            store = store.with_attributes(node={"x": nothing(store.x)})
        embeddings = []
        for ids in batches(torch.arange(len(store)), batch_size):
            graphs = store.batch(ids)
            adapter.ensure_probed(graphs)
            embeddings.append(adapter.embed(graphs))
        output = torch.cat([embedding.output for embedding in embeddings])
        if task is None:
            task = explained.task(output)
        task.check(output)
        return cls(
            adapter=adapter,
            task=task,
            store=store,
            h=torch.cat([embedding.nodes for embedding in embeddings]),
            layers=tuple(
                torch.cat(parts)
                for parts in zip(*(embedding.layers for embedding in embeddings), strict=True)
            ),
            graph_embedding=torch.cat([embedding.graph for embedding in embeddings]),
            values=task.values(output),
            prediction=task.prediction(output),
        )

    def sample(self, count: int, edges: int, generator: torch.Generator) -> Context:
        """At most ``count`` of the graphs, drawn at random.

        If these have more than ``edges`` edges together, they are fewer, but at least
        :data:`FEWEST_GRAPHS`.
        """
        ids = sampled(self.store.edge_counts, count, edges, generator)
        return self if ids is None else self.subset(ids)

    def subset(self, ids: Tensor) -> Context:
        """The graphs with the given numbers."""
        rows = self.store.batch(ids).node_ids
        return replace(
            self,
            store=self.store.subset(ids),
            h=self.h[rows],
            layers=tuple(layer[rows] for layer in self.layers),
            graph_embedding=self.graph_embedding[ids],
            values=self.values[ids],
            prediction=self.prediction[ids],
        )

    @property
    def device(self) -> torch.device:
        """Where the model is, and so batches and all that is computed from them."""
        return self.h.device

    def embedded(self, graphs: GraphBatch) -> Tensor:
        r"""Node embeddings :math:`\mathbf{H}` of graphs taken from the store."""
        assert graphs.node_ids is not None
        return self.h.index_select(0, graphs.node_ids)

    def predict(
        self,
        graphs: GraphBatch,
        edge_weight: Tensor | None = None,
        node_input: Tensor | None = None,
    ) -> Tensor:
        """Output of the model on other graphs, see :meth:`ModelAdapter.predict`."""
        return self.adapter.predict(graphs, edge_weight, node_input=node_input)


def sampled(
    edge_counts: Tensor, count: int, edges: int, generator: torch.Generator
) -> Tensor | None:
    """Numbers of the graphs of :meth:`Context.sample`; ``None`` if that takes all."""
    if count >= len(edge_counts) and int(edge_counts.sum()) <= edges:
        return None
    ids = torch.randperm(len(edge_counts), generator=generator)[:count]
    fitting = int((edge_counts[ids].cumsum(0) <= edges).sum())
    return ids[: max(fitting, FEWEST_GRAPHS)]


def batches(ids: Tensor, batch_size: int) -> Iterator[Tensor]:
    """Consecutive parts of at most ``batch_size`` graph numbers."""
    yield from ids.split(batch_size)  # type: ignore[no-untyped-call]


@contextmanager
def frozen_context(
    explainer: GraphExplainer,
    explained: ExplainedModel,
    store: GraphStore,
    task: Task | None = None,
) -> Iterator[Context]:
    """The context of an explainer, while the model is frozen; it must be known as it is used."""
    with explained.frozen():
        explainer.to(device_of(explained.model) or store.device)
        size, width = explainer.batch_size, explainer.width
        context = Context.build(explained, store, batch_size=size, task=task, width=width)
        check_edges(explainer, context.adapter, context.store.batch(torch.tensor([0])))
        yield context


def resolve(
    explainer: GraphExplainer, model: Model, facts: dict[str, Any], *, anew: bool = False
) -> ExplainedModel:
    """The model with all that is known about it; its level may still be open.

    ``facts`` of a call count most, then those of the model, then those :meth:`fit` was given,
    unless the explainer is fitted ``anew``.
    """
    known: dict[str, Any] = {}
    if not anew:
        own = known_facts(model) if isinstance(model, ExplainedModel) else {}
        known = {**explainer.facts, **own}
    given = {name: fact for name, fact in facts.items() if fact is not None}
    known = {"embedding_layer": explainer.embedding_layer, **known, **given}
    explained = ExplainedModel.of(model, **known)
    if explained.model_config is None and hasattr(explainer, "_model_config"):
        explained = replace(explained, model_config=explainer.model_config)  # of PyG's Explainer
    return explained if anew else replace(explained, level=explained.known_level or explainer.level)


def at_level(explained: ExplainedModel, anchors: Tensor | None, index: Any) -> ExplainedModel:
    """The model at its level: as it is known, else as graphs or index suggest."""
    return replace(explained, level=explained.known_level or natural_level(anchors, index))


def read_graphs(
    explainer: GraphExplainer,
    explained: ExplainedModel,
    graphs: Any,
    index: Any = None,
    *,
    anew: bool = False,
) -> Collection | Rooted:
    """The graphs as they are, or the ego graphs of nodes or links of one graph.

    They are brought into the types the explainer was fitted to, unless it is fitted ``anew``.
    """
    level, schema = explained.known_level, None if anew else explainer.schema
    if index is None and not (level in ("node", "edge") and is_whole(graphs)):
        store = explained.read(graphs)
        check_types(explainer, store.schema, anew=anew)
        store = store if schema is None else store.conformed(schema)
        return Collection(store, copied=isinstance(graphs, list | tuple))
    if level == "graph":
        raise InputError(
            "index names nodes or links, but the task level is 'graph': give another, or fit "
            "with index if the explainer was fitted to a graph-level model"
        )
    hops, everything = explainer.num_hops, explained.reads_all
    whole = WholeGraph.of(graphs, num_hops=hops, everything=everything)
    check_types(explainer, whole.schema, anew=anew)
    if index is None and level == "edge" and whole.schema is None:
        index = graphs.get("edge_label_index")
    return Rooted.at(whole, index, level, explained.node_type, schema)


def prepared(
    explainer: GraphExplainer, explained: ExplainedModel, graphs: GraphBatch
) -> tuple[ModelAdapter, GraphBatch]:
    """What calls the model as the explainer knows it, and the graphs, all where the model is."""
    adapter = explained.adapter(weighting=explainer.weighting)
    adapter.width = explainer.width
    there = graphs.to(adapter.device or graphs.x.device)
    explainer.to(there.x.device)
    if not adapter.caller.reads_x(there):
        there = replace(there, x=nothing(there.x))
    check_edges(explainer, adapter, there)
    return adapter, there


def nothing(x: Tensor) -> Tensor:
    """In place of features that a model does not read: hiding them would hide nothing."""
    return x.new_empty(len(x), 0, dtype=torch.get_default_dtype())


def check_edges(explainer: GraphExplainer, adapter: ModelAdapter, graphs: GraphBatch) -> None:
    """Refuses a model that reads no edges where the explainer is about these.

    Raises:
        InputError: If it does.
    """
    if explainer.needs_edges and not adapter.reads_edges(graphs):
        from hpme.explainers.registry import EXPLAINERS  # which is built on this module

        fitting = ", ".join(slug for slug, kind in EXPLAINERS.items() if not kind.needs_edges)
        raise InputError(
            f"{type(explainer).__name__} explains edges, and the model reads none; those that "
            f"explain its nodes: {fitting}"
        )


def check_types(explainer: GraphExplainer, schema: Schema | None, *, anew: bool = False) -> None:
    """Refuses graphs with types of nodes and edges, or without, where the explainer needs others.

    Raises:
        InputError: If it does.
    """
    if schema is not None and not explainer.hetero:
        from hpme.explainers.registry import EXPLAINERS  # which is built on this module

        fitting = ", ".join(slug for slug, kind in EXPLAINERS.items() if kind.hetero)
        raise InputError(
            f"{type(explainer).__name__} does not explain heterogeneous graphs; those that do: "
            f"{fitting}"
        )
    learned = explainer.fitted and (explainer.needs_fit or explainer.schema is not None)
    if not anew and learned and (schema is None) != (explainer.schema is None):
        kinds = ("homogeneous", "heterogeneous")
        given, known = kinds if schema is None else kinds[::-1]
        raise InputError(
            f"the graphs are {given}, the explainer was fitted to {known} ones; fit it to these"
        )
