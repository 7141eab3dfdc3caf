"""PyG's heterogeneous graphs as flat graphs with typed rows, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from hpme.errors import InputError
from hpme.graphs.checks import check_edge_index, check_edge_rows
from hpme.graphs.schema import EDGE_TYPE, NODE_TYPE, EdgeType, Schema, padded, shown
from hpme.graphs.segment import exclusive_cumsum

_OWN = ("x", "edge_index", "edge_attr", "edge_weight", "anchors", "num_nodes", "batch", "ptr")
"""Attributes with rules of their own."""


def flattened(graphs: Sequence[Any]) -> tuple[Schema, list[Data]]:
    """Heterogeneous graphs as flat ones: nodes of the first type, of the second, and so on.

    Graphs may lack types that others have.

    Raises:
        InputError: If some are homogeneous, or a type differs in features between graphs.
    """
    for number, graph in enumerate(graphs):
        if not isinstance(graph, HeteroData):
            raise InputError(
                f"graph {number} is a {type(graph).__name__} among heterogeneous graphs; give "
                "graphs of one kind"
            )
    schema = _schema(graphs)
    return schema, [_flat(graph, schema, number) for number, graph in enumerate(graphs)]


def flat_views(*collections: Sequence[Any]) -> list[list[Any]]:
    """Collections of graphs, or of explanations, for what reads flat ones: pictures and scores.

    Heterogeneous ones become flat, all in the same order of types; ``type_names`` are those of
    their nodes. Others stay as they are.
    """
    every = [graph for graphs in collections for graph in graphs]
    if not any(isinstance(graph, HeteroData) for graph in every):
        return [list(graphs) for graphs in collections]
    schema, flat = flattened(every)
    for graph in flat:
        graph.type_names = schema.node_types
    rows = iter(flat)
    return [[next(rows) for _ in graphs] for graphs in collections]


def _schema(graphs: Sequence[HeteroData]) -> Schema:
    nodes: dict[str, int] = {}
    edges: dict[EdgeType, int | None] = {}
    declared: dict[EdgeType, None] = {}  # a type without edges is part of the model's world, too
    for number, graph in enumerate(graphs):
        for kind in graph.node_types:
            x = graph[kind].get("x")
            if x is None and not graph[kind].num_nodes:
                continue
            if not isinstance(x, Tensor) or x.dim() != 2 or not x.is_floating_point():
                found = "no x" if x is None else f"x of {_described(x)}"
                raise InputError(
                    f"graph {number}: node type '{kind}' has {found}; it must be a floating-point "
                    "tensor of shape [nodes, features], a column of ones if there are none"
                )
            _agree(nodes, kind, x.shape[1], number)
        for kind in graph.edge_types:
            if graph[kind].get("edge_index") is None:
                continue
            check_edge_index(graph[kind].edge_index)
            declared[kind] = None
            attr, count = graph[kind].get("edge_attr"), graph[kind].edge_index.shape[1]
            if attr is None:
                if count:
                    _agree(edges, kind, None, number)
                continue
            check_edge_rows(attr, count, f"edge_attr of {shown(kind)}", number)
            if attr.dim() != 2:
                raise InputError(
                    f"graph {number}: edge_attr of {shown(kind)} must have shape [edges, "
                    f"features], got {tuple(attr.shape)}; use edge_attr.view(-1, 1)"
                )
            _agree(edges, kind, attr.shape[1], number)
    for kind in declared:
        for end in (kind[0], kind[2]):
            if end not in nodes:
                raise InputError(f"edges {shown(kind)} join nodes of type '{end}', which has no x")
    widths = tuple(edges.get(kind) for kind in declared)
    return Schema(tuple(nodes), tuple(declared), tuple(nodes.values()), widths)


def _agree(known: dict[Any, Any], kind: Any, width: int | None, number: int) -> None:
    if known.setdefault(kind, width) != width:
        raise InputError(
            f"graph {number}: {shown(kind)} has {width or 'no'} features, {known[kind] or 'none'} "
            "in a graph before; all graphs need the same"
        )


def _flat(graph: HeteroData, schema: Schema, number: int) -> Data:
    """One graph; where its types lack an attribute that others have, the attribute is left out."""
    device = _device(graph)
    present = set(graph.node_types)
    rows = {
        kind: graph[kind].x if kind in present and graph[kind].get("x") is not None else None
        for kind in schema.node_types
    }
    sizes = [0 if x is None else len(x) for x in rows.values()]
    first = dict(zip(schema.node_types, [0, *torch.tensor(sizes).cumsum(0).tolist()], strict=False))
    features = [padded(x, schema.width) for x in rows.values() if x is not None]
    kept = [(n, kind) for n, kind in enumerate(schema.edge_types) if _has_edges(graph, kind)]
    edges = [torch.empty(2, 0, dtype=torch.long, device=device)]
    for _, kind in kept:
        _check_ends(graph[kind].edge_index, kind, rows, number)
        offset = torch.tensor([[first[kind[0]]], [first[kind[2]]]], device=device)
        edges.append(graph[kind].edge_index + offset)
    flat = Data(
        x=torch.cat(features) if features else torch.zeros(0, schema.width, device=device),
        edge_index=torch.cat(edges, dim=1),
    )
    counts = [graph[kind].edge_index.shape[1] for _, kind in kept]
    flat[NODE_TYPE] = torch.repeat_interleave(torch.tensor(sizes)).to(device)
    flat[EDGE_TYPE] = (
        torch.tensor([n for n, _ in kept], dtype=torch.long)
        .repeat_interleave(torch.tensor(counts, dtype=torch.long))
        .to(device)
    )
    if schema.edge_width is not None:
        flat.edge_attr = _padded_edge_attr(graph, kept, counts, schema.edge_width, flat.x)
    if any(graph[kind].get("edge_weight") is not None for _, kind in kept):
        flat.edge_weight = _edge_weight(graph, kept, counts, flat.x, number)
    anchors = [
        graph[kind].anchors.view(-1) + first[kind]
        for kind in schema.node_types
        if kind in present and graph[kind].get("anchors") is not None
    ]
    if anchors:
        flat.anchors = torch.cat(anchors)
    there = [graph[kind] for kind, x in rows.items() if x is not None and len(x)]
    for stores in (there, [graph[kind] for _, kind in kept]):
        for name, value in _common(stores).items():
            flat[name] = value
    for name, value in graph._global_store.items():
        flat[name] = value
    return flat


def _has_edges(graph: HeteroData, kind: EdgeType) -> bool:
    if kind not in set(graph.edge_types):
        return False
    index = graph[kind].get("edge_index")
    return index is not None and index.shape[1] > 0


def _device(graph: HeteroData) -> torch.device:
    for store in graph.stores:
        for value in store.values():
            if isinstance(value, Tensor):
                return value.device
    return torch.device("cpu")


def _check_ends(
    edge_index: Tensor, kind: EdgeType, rows: Mapping[str, Tensor | None], number: int
) -> None:
    for nodes, end in zip(edge_index, (kind[0], kind[2]), strict=True):
        x = rows[end]
        size = 0 if x is None else len(x)
        if not 0 <= int(nodes.min()) <= int(nodes.max()) < size:
            raise InputError(
                f"edge_index out of range in graph {number}: edges {shown(kind)} must number the "
                f"{size} nodes of type '{end}' from 0 on"
            )


def _padded_edge_attr(
    graph: HeteroData, kept: Sequence[Any], counts: Sequence[int], width: int, like: Tensor
) -> Tensor:
    parts = [like.new_zeros(0, width)]
    for (_, kind), count in zip(kept, counts, strict=True):
        attr = graph[kind].get("edge_attr")
        attr = like.new_zeros(count, 0) if attr is None else attr
        parts.append(padded(attr, width))
    return torch.cat(parts)


def _edge_weight(
    graph: HeteroData, kept: Sequence[Any], counts: Sequence[int], like: Tensor, number: int
) -> Tensor:
    """Edges of types without weights weigh 1."""
    parts = []
    for (_, kind), count in zip(kept, counts, strict=True):
        weight = graph[kind].get("edge_weight")
        weight = like.new_ones(count) if weight is None else weight
        check_edge_rows(weight, count, f"edge_weight of {shown(kind)}", number)
        parts.append(weight)
    return torch.cat(parts)


def _common(stores: Sequence[Any]) -> dict[str, Tensor]:
    """Other attributes that all types have, with a row per node or edge and of one shape."""
    found: dict[str, Tensor] = {}
    for name in [] if not stores else list(stores[0].keys()):
        values = [store.get(name) for store in stores]
        if name in _OWN or not all(isinstance(v, Tensor) and v.dim() for v in values):
            continue
        rows = [_rows(store) for store in stores]
        shapes = {(v.shape[1:], v.dtype) for v in values}
        if len(shapes) == 1 and [len(v) for v in values] == rows:
            found[name] = torch.cat(values)
    return found


def _rows(store: Any) -> int:
    return int(store.edge_index.shape[1]) if "edge_index" in store else len(store.x)


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"shape {tuple(value.shape)}, {value.dtype}"
    return type(value).__name__


def split_typed(
    local_edge_index: Tensor,
    counts: Mapping[str, Tensor],
    levels: Mapping[str, Mapping[str, Tensor]],
    schema: Schema,
    text: Mapping[str, Sequence[str]] | None = None,
    *,
    kind: type[HeteroData] = HeteroData,
) -> list[HeteroData]:
    """Flat graphs with typed rows one by one; see :func:`~hpme.graphs.split.split_graphs`.

    Every graph has all types of the schema, empty where it has no such nodes or edges.
    """
    total = counts["node"].numel()
    node_type, edge_type = levels["node"][NODE_TYPE], levels["edge"][EDGE_TYPE]
    node_kinds, edge_kinds = len(schema.node_types), len(schema.edge_types)
    node_cell = torch.repeat_interleave(counts["node"]) * node_kinds + node_type
    edge_graph = torch.repeat_interleave(counts["edge"])
    edge_cell = edge_graph * edge_kinds + edge_type
    node_rows, node_counts = _sorted(node_cell, total * node_kinds)
    edge_rows, edge_counts = _sorted(edge_cell, total * edge_kinds)
    number = torch.empty_like(node_rows)
    place = torch.arange(len(node_rows), device=number.device)
    number[node_rows] = place - exclusive_cumsum(node_counts)[node_cell[node_rows]]
    start = exclusive_cumsum(counts["node"])
    edges = number[local_edge_index + start[edge_graph]][:, edge_rows]
    columns: dict[str, dict[str, Sequence[Any]]] = {
        "node": {
            name: value[node_rows].split(node_counts.tolist())  # type: ignore[no-untyped-call]
            for name, value in levels["node"].items()
            if name != NODE_TYPE
        },
        "edge": {
            name: value[edge_rows].split(edge_counts.tolist())  # type: ignore[no-untyped-call]
            for name, value in levels["edge"].items()
            if name != EDGE_TYPE
        },
    }
    columns["edge"]["edge_index"] = edges.split(edge_counts.tolist(), dim=1)  # type: ignore[no-untyped-call]
    whole = {name: value.unbind() for name, value in levels["graph"].items() if name != "anchors"}
    anchors = levels["graph"].get("anchors")
    about = None if anchors is None else anchors.view(total, -1) + start.unsqueeze(1)
    made = []
    for graph in range(total):
        data = kind()
        for n, name in enumerate(schema.node_types):
            for key, parts in columns["node"].items():
                value = parts[graph * node_kinds + n]
                wide = key == "x" or (key == "node_mask" and value.shape[1:] == (schema.width,))
                data[name][key] = value[:, : schema.widths[n]] if wide else value
        for n, relation in enumerate(schema.edge_types):
            for key, parts in columns["edge"].items():
                value = parts[graph * edge_kinds + n]
                if key == "edge_attr":
                    if schema.edge_widths[n] is None:
                        continue
                    value = value[:, : schema.edge_widths[n]]
                data[relation][key] = value
        for key, parts in whole.items():
            data[key] = parts[graph].unsqueeze(0)
        for key, texts in (text or {}).items():
            data[key] = texts[graph]
        for node in [] if about is None else about[graph].tolist():
            # Anchors of one graph may be of two types; the order inside a type is theirs.
            owner = data[schema.node_types[int(node_type[node])]]
            known = owner.get("anchors", number[:0])
            owner.anchors = torch.cat([known, number[node].view(1)])
        made.append(data)
    return made


def _sorted(cell: Tensor, total: int) -> tuple[Tensor, Tensor]:
    """Rows ordered by cell, and the number of rows of every cell."""
    return torch.argsort(cell, stable=True), torch.bincount(cell, minlength=total)
