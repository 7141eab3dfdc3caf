"""From a model, graphs and what is known of them to what is explained.

For fitting that is a context, the frozen model on the graphs; for PyG's ``Explainer`` it is rows of
the model's output.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.explainers.shared import sources
from hpme.explainers.shared.sources import Collection, Rooted
from hpme.graphs import GraphBatch, GraphStore
from hpme.graphs.ego import WholeGraph, link_index, node_index
from hpme.models.adapter import ModelAdapter, Weighting, device_of
from hpme.models.arguments import Tensors
from hpme.models.calling import Caller
from hpme.models.explained import ExplainedModel, HeldModel, Model, known_facts
from hpme.models.output import Task, check_answers
from hpme.models.replicas import Copies, given_output

if TYPE_CHECKING:
    from hpme.explainers.shared.base import GraphExplainer

logger = logging.getLogger("hpme")
FEWEST_GRAPHS = 32
"""Fewer say little, however large they are."""
QUESTIONS = ("explain", "masks", "quality", "effects", "alternatives", "rules", "counterfactuals",
             "audit", "judge")  # fmt: skip
"""What explainers are asked about a model, as far as they have it."""


@dataclass(frozen=True)
class Context:
    r"""A frozen model :math:`f` and what it computes on the graphs."""

    adapter: ModelAdapter
    task: Task  # what its output means
    store: GraphStore
    h: Tensor  # node embeddings of all nodes
    layers: tuple[Tensor, ...]  # output of every message-passing layer, for all nodes
    graph_embedding: Tensor
    values: Tensor  # what an explanation should keep, see ``Task.values``
    prediction: Tensor  # predicted class or value of every graph

    @classmethod
    def build(
        cls,
        model: Model,
        store: GraphStore,
        *,
        batch_size: int,
        task: Task | None = None,
        width: int | None = None,
        weighting: Weighting | None = None,
        **facts: Any,
    ) -> Context:
        """Runs the model once over all graphs. Call inside :meth:`ExplainedModel.frozen`."""
        if bool((store.sizes == 0).any()):
            graph = int((store.sizes == 0).nonzero()[0])
            raise InputError(f"graph {graph} has no nodes; remove empty graphs before fitting")
        explained = ExplainedModel.of(model, **facts)
        adapter = explained.adapter(weighting=weighting)
        adapter.width = width
        # Else steps of explainers would leave gradients on users' tensors.
        seen = store.detached(everything=explained.reads_all)
        store = replace(seen, batch_device=adapter.device or store.device)
        if not adapter.caller.reads_x(store.batch(torch.tensor([0]))):
            store = store.with_attributes(node={"x": sources.nothing(store.x)})
        embeddings = []
        for ids in batches(torch.arange(len(store)), batch_size):
            graphs = store.batch(ids)
            few = graphs
            if weighting is None and len(ids) > FEWEST_GRAPHS:  # those with most edges say enough
                most = store.edge_counts[ids].argsort(descending=True)[:FEWEST_GRAPHS]
                few = store.batch(ids[most.to(ids.device)])
            adapter.ensure_probed(few, known=weighting is not None)
            embeddings.append(adapter.embed(graphs))
        output, nodes, whole = (
            torch.cat([getattr(embedding, name) for embedding in embeddings])
            for name in ("output", "nodes", "graph")
        )
        layers = tuple(map(torch.cat, zip(*(one.layers for one in embeddings), strict=True)))
        task = task or explained.task(output)
        task.check(output)
        said = task.values(output), task.prediction(output)
        return cls(adapter, task, store, nodes, layers, whole, *said)

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
        about = ("graph_embedding", "values", "prediction")
        parts: dict[str, Any] = {name: getattr(self, name)[ids] for name in about}
        layers = tuple(layer[rows] for layer in self.layers)
        return replace(self, store=self.store.subset(ids), h=self.h[rows], layers=layers, **parts)

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
        """Finite output of the model on other graphs, see :meth:`ModelAdapter.predict`."""
        output = self.adapter.predict(graphs, edge_weight, node_input=node_input)
        check_answers(output, "outputs on graphs made from the given ones")
        return output


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
    weighting: Weighting | None = None,
) -> Iterator[Context]:
    """The context of an explainer, while the model is frozen; it must be known as it is used."""
    with explained.frozen():
        explainer.to(device_of(explained.model) or store.device)
        known: dict[str, Any] = {"task": task, "width": explainer.width, "weighting": weighting}
        context = Context.build(explained, store, batch_size=explainer.batch_size, **known)
        sources.check_edges(explainer, context.adapter, context.store.batch(torch.tensor([0])))
        yield context


class Asking:
    """An explainer and a model that it is asked about again and again.

    Inside ``with``, the model is frozen once, and what is found out about it stays known:
    ``ask.explain(graphs)`` gives what ``explainer.explain(model, graphs)`` gives, and so do the
    others. It stays known for the next ``with``, unless weights have changed.
    """

    def __init__(self, explainer: GraphExplainer, explained: ExplainedModel) -> None:
        known = {one.name: getattr(explained, one.name) for one in fields(ExplainedModel)}
        self.explainer, self.model = explainer, HeldModel(**known)
        self._held = ExitStack()

    def __enter__(self) -> Asking:
        self._held.enter_context(self.model.hold())
        return self

    def __exit__(self, *error: object) -> None:
        self._held.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in QUESTIONS:
            raise AttributeError(f"'{name}' is no question; those are: {', '.join(QUESTIONS)}")
        return partial(getattr(self.explainer, name), self.model)


def resolve(
    explainer: GraphExplainer, model: Model, facts: dict[str, Any], *, anew: bool = False
) -> ExplainedModel:
    """The model with the call's facts, then its own, then those of the fit, unless ``anew``."""
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
    return replace(explained, level=explained.known_level or sources.natural_level(anchors, index))


def read_graphs(
    explainer: GraphExplainer,
    explained: ExplainedModel,
    graphs: Any,
    index: Any = None,
    *,
    anew: bool = False,
) -> Collection | Rooted:
    """The graphs, or ego graphs; in the types of the fit, unless it is fitted ``anew``."""
    level, schema = explained.known_level, None if anew else explainer.schema
    if index is None and not (level in ("node", "edge") and sources.is_whole(graphs)):
        store = explained.read(graphs)
        sources.check_types(explainer, store.schema, anew=anew)
        store = store if schema is None else store.conformed(schema)
        return Collection(store, copied=isinstance(graphs, list | tuple))
    if level == "graph":
        raise InputError(
            "index names nodes or links, but the task level is 'graph': give another, or fit "
            "with index if the explainer was fitted to a graph-level model"
        )
    everything = explained.reads_all
    whole = sources.whole_graph(explained, graphs, everything=everything, **_reach(explainer))
    sources.check_types(explainer, whole.schema, anew=anew)
    if index is None and level == "edge" and whole.schema is None:
        index = graphs.get("edge_label_index")
    return Rooted.at(whole, index, level, explained.node_type, schema)


def _reach(explainer: GraphExplainer) -> dict[str, Any]:
    """How far ego graphs reach, as :class:`~hpme.graphs.ego.WholeGraph` has it."""
    return {k: getattr(explainer, k) for k in ("num_hops", "num_neighbors", "seed")}


@dataclass(frozen=True)
class AskedRows:
    """Rows of a model's output that PyG's ``Explainer`` asks about."""

    explained: ExplainedModel  # the model; it has one output for each of the graphs
    graphs: GraphBatch | Collection | Rooted | Copies  # all at once, or made a few at a time
    whole: GraphBatch | WholeGraph  # what was given, which masks cover
    rows: Tensor  # numbers of the rows that are explained
    total: int  # number of all rows
    others: dict[str, Any] = field(default_factory=dict)


def read_arguments(
    explainer: GraphExplainer, explained: ExplainedModel, given: Tensors, index: Any
) -> AskedRows:
    """What PyG's ``Explainer`` passes, as graphs for each of which a model has one output."""
    # Ego graphs, or copies of all where rows depend on more; see models/replicas.py.
    level = explained.level
    caller = Caller(explained.model, None, level or "graph")
    fields = given.per_row(caller.names if caller.usual else ())
    whole: GraphBatch | WholeGraph
    if level == "graph" or given.anchors is not None:
        whole = given.graphs(explainer.schema, **fields)
    else:
        whole = given.whole(_reach(explainer), **fields)
    sources.check_types(explainer, whole.schema)
    joined = False
    if isinstance(whole, GraphBatch):
        joined = bool((whole.batch[whole.edge_index].diff(dim=0) != 0).any())
    output = None
    if explained.call is None and given.anchors is None and (joined or given.doubtful(explained)):
        output = given_output(explained, given.x, given.edge_index, given.arguments)
    if output is not None:
        graph = given.whole(_reach(explainer), **fields)
        explained = replace(explained, node_type=given.type_of_rows(explained, graph, len(output)))
        if joined or not given.as_usual(explained, whole, output):
            return _by_copies(explainer, explained, given, index, graph, output)
    if joined:
        raise InputError(
            "an edge joins two different graphs of the batch; check batch, or call the model as "
            "PyG does: model(x, edge_index, batch=...)"
        )
    return _by_parts(explainer, explained, given, index, whole, given.others(fields))


def _by_copies(
    explainer: GraphExplainer,
    explained: ExplainedModel,
    given: Tensors,
    index: Any,
    graph: WholeGraph,
    output: Tensor,
) -> AskedRows:
    """Rows of the output by copies of all that was given; see :mod:`hpme.models.replicas`."""
    hetero, total, kind = graph.schema is not None, len(output), explained.node_type
    rows = node_index(index, total, graph.x.device, "output row")
    roots = None
    if explained.level == "edge" and not hetero:
        links = link_index(given.links, len(graph.x), graph.x.device)
        roots = links[rows] if len(links) == total else None
    elif explained.level == "node" or (hetero and given.links is None and given.batch is None):
        nodes = graph.numbers(kind) if kind is not None or not hetero else rows[:0]
        roots = nodes[rows] if len(nodes) == total else None
    inner, form = given.inner(graph), dict[str, Any](roots=roots, schema=explainer.schema)
    known, copies = Copies.of(explained, graph, inner, given.arguments, output, rows, **form)
    return AskedRows(known, copies, graph, rows, total)


def _by_parts(
    explainer: GraphExplainer,
    explained: ExplainedModel,
    given: Tensors,
    index: Any,
    whole: Any,
    others: dict[str, Any],
) -> AskedRows:
    """Separate graphs, or ego graphs of nodes or links."""
    device, level, source = whole.x.device, explained.level, whole
    if isinstance(whole, GraphBatch):
        total = whole.num_graphs
        rows = torch.arange(total, device=device)
        if index is not None and given.anchors is None:
            rows = node_index(index, total, device, "graph")
            source = Collection(GraphStore.from_graphs(whole.placed()).subset(rows))
    elif level == "edge" and given.links is not None and whole.schema is None:
        links = link_index(given.links, len(whole.x), device)
        rows, total = node_index(index, len(links), device, "link"), len(links)
        source = Rooted(whole, links[rows])
    else:
        source = Rooted.at(whole, index, level, explained.node_type, explainer.schema)
        rows, total = torch.arange(len(source), device=device), len(source)
        if level != "edge":
            nodes = whole.numbers(explained.node_type)
            rows, total = torch.searchsorted(nodes, source.roots), len(nodes)
    return AskedRows(explained, source, whole, rows, total, others)
