"""Any collection of PyG graphs as the flat tensors of a store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.data.data import BaseData

from hpme.errors import InputError
from hpme.graphs.batch import GraphBatch
from hpme.graphs.checks import check_edge_rows
from hpme.graphs.hetero import Graph, flattened
from hpme.graphs.schema import EDGE_TYPE, NODE_TYPE

Parts = dict[str, Any]
"""Arguments of a :class:`~hpme.graphs.store.GraphStore`."""
Attributes = Literal["inputs", "fitting", "all"]
"""Which attributes of graphs are read, see :meth:`~hpme.graphs.store.GraphStore.from_graphs`."""
SHOWN = ("smiles", "name")
"""Texts that pictures of explanations show."""
_FIXED = {"x": "node", "z": "node", "pos": "node", "node_mask": "node", "y": "graph"}
_OWN = ("x", "edge_index", "edge_attr", "edge_weight", "anchors", "num_nodes")
"""Attributes with rules of their own."""
_COUNTED = ("x", "z", "pos")
"""Attributes with a row per node, by which nodes are counted; the first that a graph has."""


def read_graphs(graphs: GraphBatch | Iterable[Any], attributes: Attributes) -> Parts:
    """Reads a dataset, a list of ``Data``, a loader, a batch or one ``Data``."""
    if isinstance(graphs, GraphBatch):
        graphs = graphs.grouped()  # whatever the order of its edges
        names = ("sizes", "edge_counts", "local_edge_index", "schema")
        return {**{name: getattr(graphs, name) for name in names}, **graphs.groups()}
    if isinstance(graphs, BaseData):
        graphs = [graphs]
    items: list[Any] = []
    for item in graphs:
        items.extend(_taken_apart(item) if isinstance(item, Batch) else [item])
    if not any(isinstance(item, HeteroData) for item in items):
        return _of_list(items, attributes)
    schema, flat = flattened(items, others=attributes != "inputs")
    if not schema.node_types:
        raise InputError("no graph has nodes: every node type needs x")
    parts = _of_list(flat, attributes)
    for group, name in (("node", NODE_TYPE), ("edge", EDGE_TYPE)):
        parts[group] = {**parts[group], name: torch.cat([graph[name] for graph in flat])}
    return {**parts, "schema": schema}


def _taken_apart(batch: Any) -> Sequence[Any]:
    """The graphs of a batch; PyG's own way takes longer than most models do."""
    slices, shifts = getattr(batch, "_slice_dict", {}), getattr(batch, "_inc_dict", {})
    given = {} if isinstance(batch, HeteroData) else batch.to_dict()
    columns: dict[str, Sequence[Any]] = {}
    for name in given.keys() - {"batch", "ptr"}:
        value, shift = given[name], shifts.get(name)
        if isinstance(value, Tensor) and shift is not None and shift.dim() == 1:
            counts, dim = slices[name].diff(), batch.__cat_dim__(name, value)
            if bool(shift.any()):
                by = shift.repeat_interleave(counts).to(value.device)
                value = (value.movedim(dim, -1) - by).movedim(-1, dim)
            columns[name] = value.split(counts.tolist(), dim)
        elif isinstance(value, list) and len(value) == batch.num_graphs and _are_texts(value):
            columns[name] = value
    if columns.keys() != given.keys() - {"batch", "ptr"} or not {"x", "edge_index"} <= set(columns):
        graphs: list[Any] = batch.to_data_list()
        return graphs
    return [dict(zip(columns, parts, strict=True)) for parts in zip(*columns.values(), strict=True)]


def _attributes(graph: Any) -> Graph:
    if isinstance(graph, dict):
        return graph
    # Asking ``Data`` itself for each of them takes long.
    found: Graph = graph.to_dict() if isinstance(graph, Data) else {}
    if found.get("x") is not None and found.get("edge_index") is not None:
        return found
    # Computed by a subclass, or missing.
    given = {name: getattr(graph, name, None) for name in (*_OWN[:5], "z", "pos", "y", *SHOWN)}
    return {**found, **{name: value for name, value in given.items() if value is not None}}


def _completed(graph: Graph, number: int) -> Graph:
    """A graph with ``x`` of width 0 if it has no node features, and no edges if it has none."""
    if graph.get("x") is not None and graph.get("edge_index") is not None:
        return graph
    rows = next((v for name in _COUNTED if isinstance(v := graph.get(name), Tensor)), None)
    count = graph.get("num_nodes") if rows is None or not rows.dim() else len(rows)
    if not isinstance(count, int):
        raise InputError(
            f"graph {number} has no x, and neither z, pos nor num_nodes says how many nodes it "
            "has; give one of them"
        )
    edges = graph.get("edge_index")
    device = edges.device if isinstance(edges, Tensor) else None if rows is None else rows.device
    given = {
        "x": torch.empty(count, 0, device=device),
        "edge_index": torch.empty(2, 0, dtype=torch.long, device=device),
    }
    return {**graph, **{name: v for name, v in given.items() if graph.get(name) is None}}


def _of_list(items: Sequence[Any], attributes: Attributes) -> Parts:
    if not items:
        raise InputError("no graphs: the dataset, list or loader is empty")
    graphs = [_attributes(item) for item in items]
    for name in ("x", "edge_index"):
        _all_or_none(graphs, name)
    graphs = [_completed(graph, number) for number, graph in enumerate(graphs)]
    for name in ("x", "edge_attr"):
        types = [value.dtype for graph in graphs if isinstance(value := graph.get(name), Tensor)]
        for number, dtype in enumerate(types):  # of codes and numbers, one would be cast
            if dtype != types[0] and not (dtype.is_floating_point and types[0].is_floating_point):
                raise InputError(
                    f"{name} of graph {number} is {dtype}, that of graph 0 {types[0]}; convert one "
                    "of them, so that all graphs have the same"
                )
    try:
        device = graphs[0]["edge_index"].device
        sizes = [graph["x"].shape[0] for graph in graphs]
        edge_counts = [graph["edge_index"].shape[1] for graph in graphs]
        parts: Parts = {
            "sizes": torch.tensor(sizes, device=device),
            "edge_counts": torch.tensor(edge_counts, device=device),
            "local_edge_index": torch.cat([graph["edge_index"] for graph in graphs], dim=1),
            "node": {"x": torch.cat([graph["x"] for graph in graphs])},
            "edge": {},
            "graph": _labels(graphs) | _anchors(graphs),
        }
        for name in ("edge_attr", "edge_weight"):
            if (values := _all_or_none(graphs, name)) is not None:
                for number, value in enumerate(values):
                    check_edge_rows(value, edge_counts[number], name, number)
                parts["edge"][name] = torch.cat(values)
    except (RuntimeError, TypeError, AttributeError, IndexError) as error:
        raise InputError(f"the graphs cannot be put into one batch: {error}") from error
    if attributes == "inputs":
        texts = {name: [graph.get(name) for graph in graphs] for name in SHOWN}
        parts["text"] = {name: values for name, values in texts.items() if _are_texts(values)}
        return parts
    return _with_others(parts, graphs, strict=attributes == "all")


def _all_or_none(graphs: Sequence[Graph], name: str) -> list[Tensor] | None:
    values = [graph.get(name) for graph in graphs]
    missing = [value is None for value in values]
    if all(missing):
        return None
    if any(missing):
        raise InputError(f"graph {missing.index(True)} has no {name} while others have")
    return [value for value in values if value is not None]


def _labels(graphs: Sequence[Graph]) -> dict[str, Tensor]:
    labels: list[Any] = [graph.get("y") for graph in graphs]
    if not all(isinstance(label, Tensor) and label.numel() == 1 for label in labels):
        return {}
    flat = all(label.dim() == 1 for label in labels)
    return {"y": torch.cat(labels if flat else [label.view(1) for label in labels])}


def _anchors(graphs: Sequence[Graph]) -> dict[str, Tensor]:
    values = _all_or_none(graphs, "anchors")
    if values is None:
        return {}
    for number, value in enumerate(values):
        if not isinstance(value, Tensor) or value.dtype != torch.long:
            raise InputError(f"anchors of graph {number} must be a LongTensor of node numbers")
        if value.numel() not in (1, 2) or value.numel() != values[0].numel():
            raise InputError(
                f"graph {number} has {value.numel()} anchors, graph 0 has {values[0].numel()}; "
                "all graphs need one (a target node) or all two (the ends of a link)"
            )
    return {"anchors": torch.stack([value.flatten() for value in values])}


def _with_others(parts: Parts, graphs: Sequence[Graph], *, strict: bool) -> Parts:
    """All other attributes by group; what does not fit is refused if ``strict``, else left out."""
    groups: dict[str, dict[str, Any]] = {
        group: dict(parts.get(group, {})) for group in ("node", "edge", "graph", "match", "text")
    }
    names = {*graphs[0], "num_nodes"}
    for number, graph in enumerate(graphs if strict else ()):
        if odd := graph.keys() - names:
            raise InputError(f"graph {number} has '{min(odd)}', which graph 0 has not")
    for name in graphs[0].keys():  # noqa: SIM118
        if name not in _OWN:
            values: list[Any] = [graph.get(name) for graph in graphs]
            try:
                group = _group(name, values, parts)
                groups[group][name] = values if group == "text" else torch.cat(values)
            except (InputError, RuntimeError):
                if strict:
                    raise
    if not strict:
        groups["match"] = {}  # ground truth
    if groups["match"]:
        first = min(groups["match"])
        parts["match_counts"] = parts["sizes"].new_tensor([len(graph[first]) for graph in graphs])
    return {**parts, **groups}


def _group(name: str, values: Sequence[Any], parts: Parts) -> str:
    """Where an attribute belongs; the name decides where the number of rows does not."""
    if _are_texts(values):
        return "text"
    for number, value in enumerate(values):
        if not isinstance(value, Tensor) or value.dim() == 0:
            found = "none" if value is None else f"a {type(value).__name__} without rows"
            raise InputError(
                f"attribute '{name}' of graph {number} is {found}; every graph needs a text, or a "
                "tensor with a row per node, per edge or for the graph"
            )
    if name.startswith("match_"):
        return "match"
    rows = parts["sizes"].new_tensor([value.shape[0] for value in values])
    counts = {"node": parts["sizes"], "edge": parts["edge_counts"], "graph": torch.ones_like(rows)}
    fitting = [group for group, count in counts.items() if torch.equal(rows, count)]
    named = _FIXED.get(name, "edge" if name.startswith("edge") else "")
    if not fitting:
        raise InputError(
            f"attribute '{name}' has neither a row per node nor per edge, nor one row for the "
            "graph (a vector for the whole graph has shape [1, C]); change or delete it"
        )
    return named if named in fitting else fitting[0]


def _are_texts(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) for value in values)
