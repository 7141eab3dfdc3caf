"""What users pass as graphs, in one form: a collection, or nodes or links of one large graph."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.data.data import BaseData
from torch_geometric.nn import MessagePassing

from hpme.data.info import Level
from hpme.errors import HPMEError, InputError, ModelError
from hpme.graphs import GraphBatch, GraphStore
from hpme.graphs.ego import MAX_EDGES, WholeGraph, link_index, node_index
from hpme.graphs.schema import Schema
from hpme.models.adapter import ModelAdapter
from hpme.models.arguments import without_history
from hpme.models.explained import ExplainedModel

if TYPE_CHECKING:
    from hpme.explainers.shared.base import GraphExplainer

logger = logging.getLogger("hpme")
NO_EFFECT = """the model's output does not change with edge weights on the given graphs; \
explanations of edges will be arbitrary"""

COMPARED, OTHER = 128, 0.25
"""How many ego graphs are compared with the whole graph; a change of values, in their spread."""

Index = int | Sequence[int] | Tensor
"""Nodes of one graph: a number, several, or a boolean mask over all; or links ``[2, L]``."""


@dataclass(frozen=True)
class Collection:
    """Graphs as they were given."""

    store: GraphStore
    copied: bool = False  # so that what is shown of the store may be the store itself

    def __len__(self) -> int:
        return len(self.store)

    @property
    def anchors(self) -> Tensor | None:
        """Nodes the graphs are about, if any."""
        return self.store.anchors

    def shown(self, store: GraphStore) -> GraphStore:
        """Graphs as users see them."""
        return store

    def parts(self, numbers: Tensor, batch_size: int) -> Iterator[tuple[Tensor, GraphStore]]:
        """Numbers of a few graphs at a time, and these graphs."""
        for ids in numbers.split(batch_size):  # type: ignore[no-untyped-call]
            everything = self.copied and ids.equal(torch.arange(len(self)))
            yield ids, self.store if everything else self.store.subset(ids)


@dataclass(frozen=True)
class Rooted:
    """Ego graphs of nodes or links, cut out a few at a time."""

    whole: WholeGraph
    roots: Tensor  # target nodes ``[L]``, or both ends of links ``[L, 2]``
    schema: Schema | None = None  # how types are numbered; by default as in the graph

    @classmethod
    def at(
        cls,
        whole: WholeGraph,
        index: Any,
        level: Level | None,
        node_type: str | None = None,
        schema: Schema | None = None,
    ) -> Rooted:
        """From a whole graph, and what users pass as index; with types it numbers one of them."""
        nodes, device = whole.numbers(node_type), whole.x.device
        if (level or index_level(index)) != "edge":
            return cls(whole, nodes[node_index(index, len(nodes), device)], schema)
        if whole.schema is not None:
            raise InputError(
                "links of heterogeneous graphs are not explained; explain nodes, or the links as "
                "graphs of their own"
            )
        return cls(whole, link_index(index, len(nodes), device))

    def __len__(self) -> int:
        return len(self.roots)

    @property
    def anchors(self) -> Tensor:
        """One column for nodes, two for links."""
        return self.roots.view(len(self.roots), -1)

    @property
    def store(self) -> GraphStore:
        """All ego graphs together."""
        return self._known(self.whole.ego_graphs(self.roots))

    def _known(self, store: GraphStore) -> GraphStore:
        return store if self.schema is None else store.conformed(self.schema)

    def shown(self, store: GraphStore) -> GraphStore:
        """Ego graphs as users see them."""
        return self.whole.numbered(store)

    def parts(self, numbers: Tensor, batch_size: int) -> Iterator[tuple[Tensor, GraphStore]]:
        """Numbers of a few roots at a time, and their ego graphs."""
        done = 0
        for egos in self.whole.parts(self.roots[numbers], batch_size):
            yield numbers[done : done + len(egos)], self._known(egos)
            done += len(egos)


def index_level(index: Any) -> Level:
    """Whether an index names nodes or links ``[2, L]``."""
    shape = tuple(index.shape) if isinstance(index, Tensor) else ()
    return "edge" if len(shape) == 2 and shape[0] == 2 else "node"


def natural_level(anchors: Tensor | None, index: Any = None) -> Level:
    """Graphs about one node belong to a node-level model, unless something says otherwise."""
    if index is not None:
        return index_level(index)
    return "node" if anchors is not None and anchors.shape[1] == 1 else "graph"


def is_whole(graphs: Any) -> bool:
    """Whether this is one graph, not a collection of ego graphs."""
    if isinstance(graphs, Batch) or not isinstance(graphs, BaseData):
        return False
    return not any("anchors" in store for store in graphs.stores)


@torch.no_grad()
def check_radius(explained: ExplainedModel, source: Any, **model_kwargs: Any) -> None:
    """Warns if a model says something else of nodes or links in ego graphs than in the whole graph.

    It then sees farther, and what is explained is not what it says. A sample is compared, unless
    graphs are too large for a forward pass, or neighbours are sampled.
    """
    if not isinstance(source, Rooted) or source.whole.edge_index.shape[1] > MAX_EDGES:
        return
    if source.whole.num_neighbors is not None:
        return
    place = torch.linspace(0, len(source) - 1, min(COMPARED, len(source))).round().long()
    roots, everything = source.roots[place.to(source.roots.device)], explained.reads_all
    # The whole graph is about all of them at once.
    whole = as_batch(source._known(source.whole.copies(1, None)), everything=everything)
    whole = replace(whole, anchors=roots.view(len(roots), -1))
    egos = as_batch(replace(source, roots=roots).store, everything=everything)
    try:
        with explained.frozen():
            adapter = explained.adapter()
            said, known = (adapter.predict(graphs, **model_kwargs) for graphs in (egos, whole))
        task = explained.task(known)
    except HPMEError:
        return  # raised again where it counts
    other = task.prediction(said) != task.prediction(known)
    if not task.classification:
        other = (task.values(said) - task.values(known)).abs().amax(1) > OTHER
    if len(other) == len(roots) and bool(other.any()):
        logger.warning(
            f"the model says something else about {int(other.sum())} of {len(roots)} nodes or "
            f"links in their ego graphs of {source.whole.num_hops} hops than in the whole graph: "
            "it sees farther, and these explanations are not of what it says; raise num_hops"
        )


def whole_graph(explained: ExplainedModel, data: Any, **form: Any) -> WholeGraph:
    """What ego graphs are cut out of; the last one, with sorted edges, stays with a held model."""
    values = [v for store in getattr(data, "stores", ()) for v in store.values()]
    tensors = [v for v in values if isinstance(v, Tensor) and not v.is_inference()]
    plain = [v for v in values if isinstance(v, int | float | str)]
    state = form, plain, [(v.data_ptr(), v._version, v.shape) for v in tensors]
    before, found, _ = explained.known.get("whole", (None, None, None))
    if before == state and len(tensors) + len(plain) == len(values):
        return cast(WholeGraph, found)
    whole = WholeGraph.of(data, **form)
    explained.known["whole"] = state, whole, tensors  # kept, so that no others take their place
    return whole


def as_batch(store: GraphStore, *, everything: bool = False) -> GraphBatch:
    """Graphs as a model is shown them: what models usually read, or ``everything``."""
    return without_history(store.detached(everything=everything).batch())


def prepared(
    explainer: GraphExplainer, explained: ExplainedModel, graphs: GraphBatch
) -> tuple[ModelAdapter, GraphBatch]:
    """What calls the model as the explainer knows it, and the graphs, all where the model is."""
    adapter = explained.adapter(weighting=explainer.weighting)
    adapter.width = explainer.width
    there = graphs.to(adapter.device or graphs.x.device)
    device = there.x.device
    if any(t.device != device for t in (*explainer.parameters(), *explainer.buffers())):
        explainer.to(device)  # walks through all modules, even if there is nothing to move
    if not adapter.caller.reads_x(there):
        there = replace(there, x=nothing(there.x))
    check_edges(explainer, adapter, there)
    return adapter, there


def nothing(x: Tensor) -> Tensor:
    """In place of features that a model does not read: hiding them would hide nothing."""
    return x.new_empty(len(x), 0, dtype=torch.get_default_dtype())


def check_edges(explainer: GraphExplainer, adapter: ModelAdapter, graphs: GraphBatch) -> None:
    """Refuses a model that reads no edges where the explainer is about these."""
    if explainer.needs_edges and not adapter.reads_edges(graphs):
        fitting = _those(lambda kind: not kind.needs_edges)
        raise InputError(
            f"{type(explainer).__name__} explains edges, and the model reads none; those that "
            f"explain its nodes: {fitting}"
        )


def check_types(explainer: GraphExplainer, schema: Schema | None, *, anew: bool = False) -> None:
    """Refuses graphs with types, or without, where the explainer needs others."""
    if schema is not None and not explainer.hetero:
        fitting = _those(lambda kind: kind.hetero)
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


def supported(explainer: GraphExplainer) -> bool:
    """Whether an explainer explains what PyG's ``Explainer`` is configured for; logs why if not."""
    config = explainer.model_config
    task = "regression" if config.mode.value == "regression" else "classification"
    for asked, known in ((task, explainer.tasks), (config.task_level.value, explainer.levels)):
        if asked not in known:
            name = type(explainer).__name__
            logger.error(f"{name} does not explain {asked}; it explains: {', '.join(known)}")
            return False
    return True


def check_weights(explainer: GraphExplainer, adapter: ModelAdapter, num_edges: int) -> None:
    """Refuses, or warns of, models without edge weights where the explainer works by these."""
    if adapter.weighting != "none" or not explainer.needs_weights:
        return
    if not num_edges or passes_messages(adapter.model):
        logger.warning(NO_EFFECT)
        return
    raise ModelError(
        f"{type(explainer).__name__} works by weights of edges, and none reaches "
        f"{type(adapter.model).__name__}: its output does not change with edge_weight, and it has "
        "no PyG layer on whose messages weights could act; use one that changes graphs: "
        + _those(lambda kind: not kind.needs_weights and kind.slug not in ("random", "att"))
    )


def passes_messages(model: torch.nn.Module) -> bool:
    """Whether a model has message-passing layers of PyG."""
    return any(isinstance(module, MessagePassing) for module in model.modules())


def _those(fitting: Callable[[type[GraphExplainer]], bool]) -> str:
    """The slugs of some explainers."""
    from hpme.explainers.registry import EXPLAINERS  # which is built on this module

    return ", ".join(slug for slug, kind in EXPLAINERS.items() if fitting(kind))
