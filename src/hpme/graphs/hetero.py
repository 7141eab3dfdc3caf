"""PyG's heterogeneous graphs as flat graphs with a type for every row, and back."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from hpme.errors import InputError
from hpme.graphs.checks import check_edge_index, check_edge_rows, check_ends
from hpme.graphs.schema import EDGE_TYPE, NODE_TYPE, EdgeType, Schema, padded, shown
from hpme.graphs.segment import exclusive_cumsum

_OWN = (
    *("x", "edge_index", "edge_attr", "edge_weight", "anchors", "num_nodes", "batch", "ptr"),
    *(NODE_TYPE, EDGE_TYPE),
)
"""Attributes with rules of their own."""
GLOBAL = "_global_store"
"""Where PyG's ``to_dict`` puts attributes of a whole graph."""


Graph = dict[str, Any]
"""Attributes of a flat graph by name."""


def flattened(graphs: Sequence[Any], *, others: bool = True) -> tuple[Schema, list[Graph]]:
    """Heterogeneous graphs as flat ones, type by type, and ``others`` that all their types have."""
    for number, graph in enumerate(graphs):
        if not isinstance(graph, HeteroData):
            raise InputError(
                f"graph {number} is a {type(graph).__name__} among heterogeneous graphs; give "
                "graphs of one kind"
            )
    given = [graph.to_dict() for graph in graphs]  # asking each for every value takes long
    schema = _schema(graphs, given)
    try:
        return schema, _flat(given, schema, others)
    except RuntimeError as error:
        raise InputError(f"the graphs cannot be put into one batch: {error}") from error


def flat_views(*collections: Sequence[Any]) -> list[list[Any]]:
    """Collections of graphs, or of explanations, for what reads flat ones: pictures and scores.

    Heterogeneous ones become flat, in the same order of types, with their ``type_names``; others
    stay as they are, but for those without ``edge_index``, which have no edges.
    """
    every = [graph for graphs in collections for graph in graphs]
    if any(isinstance(graph, HeteroData) for graph in every):
        schema, flat = flattened(every)
        every = [Data(**graph, type_names=schema.node_types) for graph in flat]
    for place, graph in enumerate(every):
        if isinstance(graph, Data) and getattr(graph, "edge_index", None) is None:
            every[place] = copy.copy(graph)
            every[place].edge_index = torch.empty(2, 0, dtype=torch.long)
    rows = iter(every)
    return [[next(rows) for _ in graphs] for graphs in collections]


def _schema(graphs: Sequence[HeteroData], read: Sequence[dict[Any, Any]]) -> Schema:
    nodes: dict[str, int] = {}
    dtypes: dict[str, torch.dtype] = {}
    edges: dict[EdgeType, int | None] = {}
    declared: dict[EdgeType, None] = {}  # a type without edges is part of the model's world, too
    for number, (graph, stores) in enumerate(zip(graphs, read, strict=True)):
        for kind, store in stores.items():
            if kind == GLOBAL:
                continue
            if isinstance(kind, tuple):
                if store.get("edge_index") is not None:
                    declared[kind] = None
                    _read_edge_type(edges, kind, store, number)
                continue
            x = store.get("x")
            if x is None and not graph[kind].num_nodes:
                continue
            if not isinstance(x, Tensor) or x.dim() != 2 or x.is_complex():
                found = "no x" if x is None else f"x of type {type(x).__name__}"
                if isinstance(x, Tensor):
                    found = f"x of shape {tuple(x.shape)}, {x.dtype}"
                raise InputError(
                    f"graph {number}: node type '{kind}' has {found}; it must be a tensor of real "
                    "numbers, integers or booleans of shape [nodes, features]: a column of ones if "
                    "there are none, x.view(-1, 1) if there is one code per node"
                )
            _agree(nodes, kind, x.shape[1], number)
            known = dtypes.setdefault(kind, x.dtype)
            if known != x.dtype and not (known.is_floating_point and x.is_floating_point()):
                raise InputError(
                    f"graph {number}: x of node type '{kind}' is {x.dtype}, {known} in a graph "
                    "before; all graphs need the same"
                )
    for kind in declared:
        for end in (kind[0], kind[2]):
            if end not in nodes:
                raise InputError(f"edges {shown(kind)} join nodes of type '{end}', which has no x")
    widths = tuple(edges.get(kind) for kind in declared)
    coded = not all(dtype.is_floating_point for dtype in dtypes.values())
    names = tuple(str(dtype).removeprefix("torch.") for dtype in dtypes.values()) if coded else ()
    return Schema(tuple(nodes), tuple(declared), tuple(nodes.values()), widths, names)


def _read_edge_type(
    widths: dict[EdgeType, int | None], kind: EdgeType, store: dict[str, Any], number: int
) -> None:
    check_edge_index(store["edge_index"])
    attr, count = store.get("edge_attr"), store["edge_index"].shape[1]
    if attr is None:
        if count:
            _agree(widths, kind, None, number)
        return
    check_edge_rows(attr, count, f"edge_attr of {shown(kind)}", number)
    if attr.dim() != 2:
        raise InputError(
            f"graph {number}: edge_attr of {shown(kind)} must have shape [edges, "
            f"features], got {tuple(attr.shape)}; use edge_attr.view(-1, 1)"
        )
    _agree(widths, kind, attr.shape[1], number)


def _agree(known: dict[Any, Any], kind: Any, width: int | None, number: int) -> None:
    if known.setdefault(kind, width) != width:
        raise InputError(
            f"graph {number}: {shown(kind)} has {width or 'no'} features, {known[kind] or 'none'} "
            "in a graph before; all graphs need the same"
        )


def _flat(graphs: Sequence[dict[Any, Any]], schema: Schema, others: bool) -> list[Graph]:
    """All graphs at once, type by type, then put into the order of graphs; see :func:`_common`."""
    nodes = [_column(graphs, kind, "x") for kind in schema.node_types]
    edges = [_column(graphs, kind, "edge_index") for kind in schema.edge_types]
    device = next((x.device for x in _there(*nodes)), torch.device("cpu"))
    size, count = _rows(nodes, 0, len(graphs)).to(device), _rows(edges, 1, len(graphs)).to(device)
    node_type, node_graph = _types_and_graphs(size)
    edge_type, edge_graph = _types_and_graphs(count)
    empty = torch.empty(0, schema.width, device=device)
    features = [padded(torch.cat(_there(column)), schema.width) for column in nodes]
    if schema.coded:  # double precision has room for codes and for numbers
        every = len(schema.coded) == len(features)
        features = [x.to(torch.long if every else torch.double) for x in features]
    none = torch.empty(2, 0, dtype=torch.long, device=device)
    index = torch.cat([none, *_there(*edges)], dim=1)
    ends = schema.ends().to(device)[:, edge_type]
    check_ends(index, size[ends, edge_graph], edge_type, edge_graph, schema)
    first = size.cumsum(0) - size
    node_order, edge_order = (torch.argsort(v, stable=True) for v in (node_graph, edge_graph))
    in_graph = [size.sum(0).tolist(), count.sum(0).tolist()]
    columns: dict[str, Sequence[Tensor]] = {
        "x": _split((torch.cat(features) if features else empty)[node_order], in_graph[0]),
        "edge_index": _split((index + first[ends, edge_graph])[:, edge_order], in_graph[1], 1),
        NODE_TYPE: _split(node_type[node_order], in_graph[0]),
        EDGE_TYPE: _split(edge_type[edge_order], in_graph[1]),
    }
    if schema.edge_width is not None:
        attr = _edge_attr(graphs, schema, count.sum(1).tolist(), columns["x"][0])
        columns["edge_attr"] = _split(attr[edge_order], in_graph[1])
    flat = [dict(zip(columns, rows, strict=True)) for rows in zip(*columns.values(), strict=True)]
    tables = (table.T.tolist() for table in (size, count, first))
    for number, (sizes, counts, starts) in enumerate(zip(*tables, strict=True)):
        graph, made = graphs[number], flat[number]
        anchors = [
            own.view(-1) + start
            for kind, start in zip(schema.node_types, starts, strict=True)
            if (own := graph.get(kind, {}).get("anchors")) is not None
        ]
        if anchors:
            made["anchors"] = torch.cat(anchors)
        used = {kind: n for kind, n in zip(schema.edge_types, counts, strict=True) if n}
        if any(graph[kind].get("edge_weight") is not None for kind in used):
            made["edge_weight"] = _edge_weight(graph, used, number)
        if others:
            made.update(_common(graph, zip(schema.node_types, sizes, strict=True)))
            made.update(_common(graph, used.items()))
        made.update(graph[GLOBAL])
    return flat


def _column(graphs: Sequence[dict[Any, Any]], kind: Any, name: str) -> list[Tensor | None]:
    """What a type has under a name in every graph."""
    return [graph.get(kind, {}).get(name) for graph in graphs]


def _there(*columns: Sequence[Tensor | None]) -> list[Tensor]:
    return [value for column in columns for value in column if value is not None]


def _rows(columns: Sequence[Sequence[Tensor | None]], dim: int, graphs: int) -> Tensor:
    """Number of rows ``[types, graphs]`` of every type in every graph."""
    table = [[0 if value is None else value.shape[dim] for value in column] for column in columns]
    return torch.tensor(table, dtype=torch.long).view(-1, graphs)


def _types_and_graphs(count: Tensor) -> tuple[Tensor, Tensor]:
    """Type and graph of every row, where rows are in the order of types, then of graphs."""
    cell = torch.repeat_interleave(count.flatten())
    return cell // max(1, count.shape[1]), cell % max(1, count.shape[1])


def _split(rows: Tensor, counts: list[int], dim: int = 0) -> Sequence[Tensor]:
    parts: Sequence[Tensor] = rows.split(counts, dim)  # type: ignore[no-untyped-call]
    return parts


def _edge_attr(
    graphs: Sequence[dict[Any, Any]], schema: Schema, counts: list[int], like: Tensor
) -> Tensor:
    """Features of all edges, type by type; zeros for types that have none."""
    columns = {kind: _there(_column(graphs, kind, "edge_attr")) for kind in schema.edge_types}
    given = {value.dtype: kind for kind, found in columns.items() for value in found}
    if len(given) > 1 and not all(dtype.is_floating_point for dtype in given):
        named = ", ".join(f"{dtype} for {shown(kind)}" for dtype, kind in given.items())
        raise InputError(
            f"edge_attr of heterogeneous graphs is {named}; all types of edges need the same: give "
            "codes as edge_attr.float(), and turn them back with .long() inside the model"
        )
    like = like if len(given) != 1 else like.to(next(iter(given)))
    rows = (torch.cat(found) if found else like.new_zeros(total, 0)
            for found, total in zip(columns.values(), counts, strict=True))  # fmt: skip
    return torch.cat([padded(part, schema.edge_width or 0) for part in rows])


def _edge_weight(graph: dict[Any, Any], used: Mapping[EdgeType, int], number: int) -> Tensor:
    """Edges of types without weights weigh 1."""
    given = [graph[kind].get("edge_weight") for kind in used]
    like, parts = next(weight for weight in given if weight is not None), []
    for (kind, count), weight in zip(used.items(), given, strict=True):
        weight = like.new_ones(count) if weight is None else weight
        check_edge_rows(weight, count, f"edge_weight of {shown(kind)}", number)
        parts.append(weight)
    return torch.cat(parts)


def _common(graph: dict[Any, Any], rows: Iterable[tuple[Any, int]]) -> dict[str, Tensor]:
    """Other attributes that all types with rows have, with values for each and of one shape."""
    there = [(graph[kind], count) for kind, count in rows if count]
    found: dict[str, Tensor] = {}
    for name in there[0][0] if there else ():
        values = [store.get(name) for store, _ in there]
        if name in _OWN or not all(isinstance(v, Tensor) and v.dim() for v in values):
            continue
        shapes = {(v.shape[1:], v.dtype) for v in values}
        if len(shapes) == 1 and [len(v) for v in values] == [count for _, count in there]:
            found[name] = torch.cat(values)
    return found


def split_hetero(
    local_edge_index: Tensor,
    counts: Mapping[str, Tensor],
    groups: Mapping[str, Mapping[str, Tensor]],
    schema: Schema,
    text: Mapping[str, Sequence[str]],
    *,
    kind: type[HeteroData],
) -> list[HeteroData]:
    """Flat graphs with types one by one, each with all types of the schema, if empty."""
    total = counts["node"].numel()
    node_type, edge_type = groups["node"][NODE_TYPE], groups["edge"][EDGE_TYPE]
    edge_graph = torch.repeat_interleave(counts["edge"])
    node_cell = node_type * total + torch.repeat_interleave(counts["node"])
    edge_cell = edge_type * total + edge_graph
    node_rows, edge_rows = (torch.argsort(v, stable=True) for v in (node_cell, edge_cell))
    node_counts = torch.bincount(node_cell, minlength=len(schema.node_types) * total)
    edge_counts = torch.bincount(edge_cell, minlength=len(schema.edge_types) * total)
    number = torch.empty_like(node_rows)
    place = torch.arange(len(node_rows), device=number.device)
    number[node_rows] = place - exclusive_cumsum(node_counts)[node_cell[node_rows]]
    start = exclusive_cumsum(counts["node"])
    edges = number[local_edge_index + start[edge_graph]]
    counted = (node_counts.view(-1, total).tolist(), edge_counts.view(-1, total).tolist())
    wide = {
        name: schema.widths
        for name, value in groups["node"].items()
        if name == "x" or (name == "node_mask" and value.shape[1:] == (schema.width,))
    }
    nodes_of = _by_type(groups["node"], node_rows, counted[0], wide, schema)
    of_edges = {"edge_attr": schema.edge_widths}
    edges_of = _by_type(groups["edge"], edge_rows, counted[1], of_edges, schema)
    edges = edges[:, edge_rows].split(edge_counts.tolist(), dim=1)  # type: ignore[no-untyped-call]
    whole = {name: value.unbind() for name, value in groups["graph"].items() if name != "anchors"}
    anchors = groups["graph"].get("anchors")
    about = None if anchors is None else anchors.view(total, -1) + start.unsqueeze(1)
    made = []
    for graph in range(total):
        data = kind()
        # The dictionaries of stores themselves: one by one through the graph values take long.
        for name, columns in zip(schema.node_types, nodes_of, strict=True):
            mapping = data.get_node_store(name)._mapping
            mapping.update({key: parts[graph] for key, parts in columns.items()})
        for n, (relation, columns) in enumerate(zip(schema.edge_types, edges_of, strict=True)):
            mapping = data.get_edge_store(*relation)._mapping
            mapping.update({key: parts[graph] for key, parts in columns.items()})
            mapping["edge_index"] = edges[n * total + graph]
        for key, parts in whole.items():
            data[key] = parts[graph].unsqueeze(0)
        for key, texts in text.items():
            data[key] = texts[graph]
        for node in [] if about is None else about[graph].tolist():
            # Anchors of one graph may be of two types; the order inside a type is theirs.
            owner = data[schema.node_types[int(node_type[node])]]
            known = owner.get("anchors", number[:0])
            owner.anchors = torch.cat([known, number[node].view(1)])
        made.append(data)
    return made


def _by_type(
    values: Mapping[str, Tensor],
    rows: Tensor,
    counts: Sequence[list[int]],
    widths: Mapping[str, Sequence[int | None]],
    schema: Schema,
) -> list[dict[str, Sequence[Tensor]]]:
    """For every type its attributes, graph by graph; ``widths`` where types differ in columns."""
    made = []
    for number, own in enumerate(rows.split([sum(count) for count in counts])):  # type: ignore[no-untyped-call]
        columns = {}
        for name, value in values.items():
            if name in (NODE_TYPE, EDGE_TYPE):
                continue
            part = value[own]
            if name in widths:
                width = widths[name][number]
                if width is None:
                    continue
                part = schema.as_given(part, number) if name == "x" else part[:, :width]
            columns[name] = _split(part, counts[number])
        made.append(columns)
    return made
