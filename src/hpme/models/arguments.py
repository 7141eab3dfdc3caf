"""The arguments of a model as PyG's ``Explainer`` has them, checked and as graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from hpme.data.info import Level
from hpme.errors import InputError
from hpme.graphs import GraphBatch, GraphStore
from hpme.graphs.checks import check_graph_tensors, check_node_numbers
from hpme.graphs.ego import WholeGraph, link_index
from hpme.graphs.schema import EDGE_TYPE, NODE_TYPE, Schema
from hpme.models.calling import LINK
from hpme.models.explained import ExplainedModel
from hpme.models.replicas import close, given_output

BY_TYPE = ("x", "edge_index", "batch", "edge_attr", "edge_weight")
"""Arguments of models that are dictionaries by type, with or without ``_dict``."""


@dataclass(frozen=True)
class Tensors:
    """Tensors of one graph, or of several told apart by ``batch``, as PyG has them."""

    x: Any  # a dictionary by type for heterogeneous graphs, as ``edge_index`` is
    edge_index: Any
    arguments: Mapping[str, Any]  # further arguments of the model by name, as they were given
    anchors: Tensor | None = None  # nodes the graphs are about, if any
    data: HeteroData | None = None  # the tensors of heterogeneous graphs

    @classmethod
    def of(cls, x: Any, edge_index: Any, anchors: Tensor | None, **arguments: Any) -> Tensors:
        """From what PyG's ``Explainer`` passes."""
        given = {name: value for name, value in arguments.items() if value is not None}
        if not isinstance(x, Mapping):
            return cls(x, edge_index, given, anchors)
        data = HeteroData()
        tensors = {"x": x, "edge_index": edge_index, **given}
        for name in BY_TYPE:
            values = tensors.get(name, tensors.get(f"{name}_dict", {}))
            if not isinstance(values, Mapping):
                raise InputError(
                    f"{name} of heterogeneous graphs is a dictionary by type, got "
                    f"{type(values).__name__}"
                )
            for kind, value in values.items():
                data[kind][name] = value.detach() if isinstance(value, Tensor) else value
        return cls(x, edge_index, given, data=data)

    @property
    def links(self) -> Any:
        """Both ends of the links that a model is asked about, if any."""
        return self.arguments.get(LINK, self.arguments.get(f"{LINK}_dict"))

    @property
    def batch(self) -> Any:
        """Graph number of every node, by type if there are types; ``None`` for one graph."""
        return self.arguments.get("batch", self.arguments.get("batch_dict"))

    def stray(self, level: Level | None) -> bool:
        """Whether there are arguments that neither separate graphs nor ego graphs have."""
        links = self.links is not None and level != "edge"
        return links or (self.batch is not None and level != "graph")

    def doubtful(self, explained: ExplainedModel) -> bool:
        """Whether rows of the output may be others than those of graphs, nodes or links."""
        level = explained.level
        named = level == "node" and explained.node_type is not None
        untold = level == "edge" or (self.batch is None and not named)
        return self.stray(level) or (self.data is not None and untold)

    def needed(self, level: Level | None) -> dict[str, Any]:
        """Arguments that a model of a level is given: links only for links, one graph for nodes."""
        kept = dict(self.arguments)
        for name in ("batch", "batch_dict") if level != "graph" else ():
            value = kept.get(name)
            if isinstance(value, Mapping):
                kept[name] = {kind: torch.zeros_like(rows) for kind, rows in value.items()}
            elif value is not None:
                kept[name] = torch.zeros_like(value)
        links = (LINK, f"{LINK}_dict") if level != "edge" else ()
        return {name: value for name, value in kept.items() if name not in links}

    def per_row(self, names: Sequence[str]) -> dict[str, dict[str, Tensor]]:
        """Arguments with a row per node or per edge, by group; only those that the model names."""
        groups: dict[str, dict[str, Tensor]] = {"node": {}, "edge": {}}
        if not isinstance(self.x, Tensor) or not isinstance(self.edge_index, Tensor):
            return groups
        rows = {"node": self.x.shape[0], "edge": self.edge_index.shape[-1]}
        for name, value in self.arguments.items():
            if name in (*BY_TYPE, LINK) or name not in names or not isinstance(value, Tensor):
                continue
            fits = [group for group in groups if value.dim() and len(value) == rows[group]]
            if fits:
                group = fits[-1] if name.startswith("edge") else fits[0]
                groups[group][name] = value.detach()
        return groups

    def others(self, fields: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Any]:
        """Arguments that are passed on to the model as they are: those that are in no field."""
        known = {*BY_TYPE, LINK, *(name for group in fields.values() for name in group)}
        known |= set() if self.data is None else {"batch_size"}  # that of the model's graphs
        return {n: v for n, v in self.arguments.items() if n.removesuffix("_dict") not in known}

    def graphs(self, schema: Schema | None, **fields: Any) -> GraphBatch:
        """The graphs as a batch, with types numbered as in a schema."""
        if self.data is not None:
            return hetero_batch(self.data, schema)
        return self._flat(self.arguments.get("batch"), anchors=self.anchors, **fields)

    def _flat(self, batch: Tensor | None, **fields: Any) -> GraphBatch:
        edges = {name: self.arguments.get(name) for name in ("edge_attr", "edge_weight")}
        return checked_batch(self.x, self.edge_index, batch, **edges, **fields)

    def whole(self, reach: Mapping[str, Any], **fields: Any) -> WholeGraph:
        """The graph as one of which nodes or links are explained, by ego graphs of some reach."""
        if self.data is not None:
            return WholeGraph.of(self.data, **reach)
        return WholeGraph(GraphStore.from_graphs(self._flat(None, **fields)), **reach)

    def type_of_rows(self, explained: ExplainedModel, graph: WholeGraph, rows: int) -> str | None:
        """The type of nodes that an output has rows for: the one that is known, else that fits."""
        if graph.schema is None or explained.node_type is not None:
            return explained.node_type
        fitting = [kind for kind in graph.schema.node_types if len(graph.numbers(kind)) == rows]
        return fitting[0] if len(fitting) == 1 else None

    def as_usual(
        self, explained: ExplainedModel, whole: GraphBatch | WholeGraph, output: Tensor
    ) -> bool:
        """Whether an output has a row per graph, node or link, whatever else the model is given."""
        level, hetero = explained.level, whole.schema is not None
        if isinstance(whole, GraphBatch):
            rows = whole.num_graphs
        elif level == "node":
            known = not hetero or explained.node_type is not None
            rows = len(whole.numbers(explained.node_type)) if known else -1
        elif not hetero and self.links is None:
            return True  # index names the links, and the model was not asked about them
        else:
            rows = -1 if hetero else len(link_index(self.links, len(whole.x), whole.x.device))
        if rows != len(output) or not self.stray(level):
            return rows == len(output)
        needed = given_output(explained, self.x, self.edge_index, self.needed(level))
        return needed is not None and close(needed, output)

    def inner(self, whole: WholeGraph) -> Tensor | None:
        """Graph number of every node of the whole graph, if the model is given it."""
        if self.batch is None:
            return None
        return self.batch if self.data is None else flat_batch(self.data, whole)


def hetero_batch(data: HeteroData, schema: Schema | None) -> GraphBatch:
    """One batch of graphs, told apart by ``batch`` of every type, as flat rows with types."""
    whole = WholeGraph.of(data)
    batch = flat_batch(data, whole)
    store = whole.store if schema is None else whole.store.conformed(schema)
    order = torch.argsort(batch, stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device)
    return checked_batch(
        store.x[order],
        place[whole.edge_index],
        batch[order],
        edge_attr=store.edge_attr,
        edge_weight=store.edge_weight,
        node={NODE_TYPE: store.node[NODE_TYPE][order]},
        edge={EDGE_TYPE: store.edge[EDGE_TYPE]},
        schema=store.schema,
    )


def flat_batch(data: HeteroData, whole: WholeGraph) -> Tensor:
    """Graph number of every flat row; without ``batch`` all are of one graph."""
    assert whole.schema is not None
    kinds, rows = whole.schema.node_types, whole.store.node[NODE_TYPE]
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
    return batch


def checked_batch(x: Tensor, edge_index: Tensor, batch: Tensor | None, **fields: Any) -> GraphBatch:
    """Tensors of one or several graphs as a batch, if they fit together; edges may join graphs."""
    check_graph_tensors(x, edge_index, fields.get("edge_attr"), fields.get("edge_weight"))
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
    num_graphs = int(batch[-1]) + 1 if batch.numel() else 0
    if fields.get("anchors") is not None:
        fields["anchors"] = _checked_anchors(fields["anchors"], batch, num_graphs)
    return without_history(GraphBatch(x, edge_index, batch, num_graphs, **fields))


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


def without_history(graphs: GraphBatch) -> GraphBatch:
    """The graphs without the history of the user's tensors, and without empty ones at the end."""
    last = int(graphs.batch[-1]) + 1 if graphs.num_nodes else 0
    seen = {name: value[:last] for name, value in graphs.graph.items()}
    return replace(graphs.detached(), num_graphs=last, graph=seen)
