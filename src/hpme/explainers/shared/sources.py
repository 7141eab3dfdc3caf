"""What users pass as graphs, checked and brought into one form.

A collection, nodes or links of one large graph, or the tensors of PyG's ``Explainer``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch, HeteroData
from torch_geometric.data.data import BaseData

from hpme.data.info import Level
from hpme.errors import InputError
from hpme.graphs import GraphBatch, GraphStore
from hpme.graphs.checks import check_graph_tensors, check_node_numbers
from hpme.graphs.ego import WholeGraph, link_index, node_index
from hpme.graphs.schema import EDGE_TYPE, NODE_TYPE, Schema, padded

Index = int | Sequence[int] | Tensor
"""Nodes of one graph: a number, several, or a boolean mask over all; or links ``[2, L]``."""
BY_TYPE = ("x", "edge_index", "batch", "edge_attr", "edge_weight")
"""Arguments of models that are dictionaries by type, with or without ``_dict``."""


@dataclass(frozen=True)
class Collection:
    """Graphs as they were given.

    Args:
        store: The graphs.
        copied: Whether the store is a copy, so that what is shown of it may be the store itself.
    """

    store: GraphStore
    copied: bool = False

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
    """Ego graphs of nodes or links, cut out a few at a time.

    Args:
        whole: The graph.
        roots: Target nodes ``[L]``, or both ends of links ``[L, 2]``.
        schema: How the types of ego graphs are numbered; by default as in the graph.
    """

    whole: WholeGraph
    roots: Tensor
    schema: Schema | None = None

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
        return self._known(self.whole.ego_graphs(self.roots).store)

    def _known(self, store: GraphStore) -> GraphStore:
        return store if self.schema is None else store.conformed(self.schema)

    def shown(self, store: GraphStore) -> GraphStore:
        """Ego graphs as users see them."""
        return self.whole.numbered(store)

    def parts(self, numbers: Tensor, batch_size: int) -> Iterator[tuple[Tensor, GraphStore]]:
        """Numbers of a few roots at a time, and their ego graphs."""
        done = 0
        for egos in self.whole.parts(self.roots[numbers], batch_size):
            yield numbers[done : done + len(egos.store)], self._known(egos.store)
            done += len(egos.store)

    def spread(
        self, store: GraphStore, masks: Mapping[str, Tensor], columns: dict[str, Tensor]
    ) -> None:
        """Puts masks of ego graphs where they belong in the whole graph; the highest stays."""
        for name, value in masks.items():
            per_edge = name == "edge_mask"
            place = store.edge["edge_ids"] if per_edge else store.node["node_ids"]
            rows = self.whole.edge_index.shape[1] if per_edge else len(self.whole.x)
            if name not in columns:
                columns[name] = value.new_zeros((rows, *value.shape[1:]))
            place = place.view(-1, *[1] * (value.dim() - 1)).expand_as(value)
            columns[name].scatter_reduce_(0, place, value, "amax")


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


def checked_batch(
    x: Tensor,
    edge_index: Tensor,
    batch: Tensor | None,
    edge_attr: Tensor | None,
    edge_weight: Tensor | None,
    anchors: Tensor | None,
    **types: Any,
) -> GraphBatch:
    """Tensors of one or several graphs as a batch, if they fit together.

    Raises:
        InputError: If they do not; the message says what is wrong.
    """
    check_graph_tensors(x, edge_index, edge_attr, edge_weight)
    if batch is None:
        batch = torch.zeros(x.shape[0], dtype=torch.long, device=x.device)
    if batch.shape != x.shape[:1] or batch.dtype != torch.long:
        raise InputError(f"batch must be torch.long of shape [{x.shape[0]}], got {batch.dtype} "
                         f"{tuple(batch.shape)}")  # fmt: skip
    if batch.numel() and (int(batch.min()) < 0 or bool((batch.diff() < 0).any())):
        raise InputError(
            "batch must be sorted and start at 0 or above; use PyG's Batch to build it"
        )
    check_node_numbers(edge_index, len(x))
    if bool((batch[edge_index[0]] != batch[edge_index[1]]).any()):
        raise InputError("an edge joins two different graphs of the batch; check batch")
    num_graphs = int(batch[-1]) + 1 if batch.numel() else 0
    if anchors is not None:
        anchors = _checked_anchors(anchors, batch, num_graphs)
    return without_history(
        GraphBatch(
            x,
            edge_index,
            batch,
            num_graphs,
            edge_attr=edge_attr,
            edge_weight=edge_weight,
            anchors=anchors,
            **types,
        )
    )


def _checked_anchors(anchors: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
    fits = anchors.dtype == torch.long and anchors.numel() in (num_graphs, 2 * num_graphs)
    if fits and num_graphs:
        rows = anchors.view(num_graphs, -1)
        own = torch.arange(num_graphs, device=batch.device).unsqueeze(1)
        inside = 0 <= int(rows.min()) <= int(rows.max()) < batch.numel()
        if inside and bool((batch[rows] == own).all()):
            return rows
    raise InputError(
        "anchors must be a LongTensor with one or two node numbers per graph, of nodes of that "
        "graph, numbered over the whole batch"
    )


def as_batch(store: GraphStore, *, everything: bool = False) -> GraphBatch:
    """Graphs as a model is shown them: what models usually read, or ``everything``."""
    return without_history(store.detached(everything=everything).batch())


def without_history(graphs: GraphBatch) -> GraphBatch:
    """The graphs without the history of the user's tensors, and without empty ones at the end.

    A batch vector does not show these, so a model returns no row for them.
    """
    last = int(graphs.batch[-1]) + 1 if graphs.num_nodes else 0
    seen = {name: value[:last] for name, value in graphs.graph.items()}
    return replace(graphs.detached(), num_graphs=last, graph=seen)


@dataclass(frozen=True)
class Tensors:
    """Tensors of one graph, or of several told apart by ``batch``, as PyG's ``Explainer`` has them.

    Those of heterogeneous graphs are in ``data``, and nowhere else.
    """

    x: Tensor | None = None
    edge_index: Tensor | None = None
    batch: Tensor | None = None
    edge_attr: Tensor | None = None
    edge_weight: Tensor | None = None
    anchors: Tensor | None = None
    data: HeteroData | None = None

    @classmethod
    def by_type(cls, arguments: dict[str, Any], *tensors: Any) -> Tensors:
        """Dictionaries by type; those among ``arguments`` of the model are taken out of these."""
        data = HeteroData()
        for name, values in zip(BY_TYPE, tensors, strict=True):
            other = arguments.pop(f"{name}_dict", None)
            values = other if values is None else values
            if values is None:
                continue
            if not isinstance(values, Mapping):
                raise InputError(
                    f"{name} of heterogeneous graphs is a dictionary by type, got "
                    f"{type(values).__name__}"
                )
            for kind, value in values.items():
                data[kind][name] = value.detach() if isinstance(value, Tensor) else value
        return cls(data=data)

    def graphs(self, schema: Schema | None) -> GraphBatch:
        """The graphs as a batch, with types numbered as in a schema."""
        if self.data is not None:
            return hetero_batch(self.data, schema)
        assert self.x is not None and self.edge_index is not None
        others = self.batch, self.edge_attr, self.edge_weight, self.anchors
        return checked_batch(self.x, self.edge_index, *others)

    def whole(self, num_hops: int, *, everything: bool) -> WholeGraph:
        """The graph as one of which nodes or links are explained."""
        if self.data is not None:
            return WholeGraph.of(self.data, num_hops=num_hops, everything=everything)
        assert self.x is not None and self.edge_index is not None
        others = self.edge_attr, self.edge_weight
        return WholeGraph(self.x.detach(), self.edge_index, *others, num_hops=num_hops)


def hetero_batch(data: HeteroData, schema: Schema | None) -> GraphBatch:
    """One batch of graphs, told apart by ``batch`` of every type, as flat rows with types.

    Args:
        data: All graphs together; without ``batch`` they are one.
        schema: The types, numbered as before; by default as here.

    Raises:
        InputError: If the tensors do not fit together.
    """
    whole = WholeGraph.of(data)
    assert whole.schema is not None
    kinds, rows = whole.schema.node_types, whole.types[NODE_TYPE]
    given = [kind for kind in kinds if data[kind].get("batch") is not None]
    if given and len(given) != len(kinds):
        missing = next(kind for kind in kinds if kind not in given)
        raise InputError(f"batch_dict lacks node type '{missing}'; give the batch of every type")
    batch = torch.zeros_like(rows)
    for kind in given:
        part = data[kind].batch
        if part.shape != data[kind].x.shape[:1] or bool((part.diff() < 0).any()):
            raise InputError(f"batch of node type '{kind}' must be sorted, with a number per node")
        batch[rows == whole.schema.number(kind)] = part.to(batch)
    order = torch.argsort(batch, stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device)
    node_type, edge_type = rows[order], whole.types[EDGE_TYPE]
    x, attr = whole.x[order], whole.edge_attr
    own = whole.schema
    if schema is not None and schema != own:
        node_places, edge_places = own.places_in(schema, edge_type)
        node_type, edge_type = node_places[node_type], edge_places[edge_type]
        x = padded(x, schema.width)
        if schema.edge_width is not None:
            attr = x.new_zeros(len(edge_type), 0) if attr is None else attr
            attr = padded(attr, schema.edge_width)
        own = schema
    types = {"node": {NODE_TYPE: node_type}, "edge": {EDGE_TYPE: edge_type}, "schema": own}
    edges = place[whole.edge_index]
    return checked_batch(x, edges, batch[order], attr, whole.edge_weight, None, **types)
