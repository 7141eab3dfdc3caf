"""Flat tensors of many graphs taken apart into PyG graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor
from torch_geometric.data import Data, HeteroData

from hpme.graphs.hetero import split_typed
from hpme.graphs.schema import Schema


def split_graphs(
    local_edge_index: Tensor,
    counts: Mapping[str, Tensor],
    levels: Mapping[str, Mapping[str, Tensor]],
    text: Mapping[str, Sequence[str]] | None = None,
    *,
    kind: Any = None,
    schema: Schema | None = None,
) -> list[Any]:
    """The graphs one by one.

    Args:
        local_edge_index: Edges that number nodes from each graph's first, grouped by graph.
        counts: Rows of every graph by level; one row per graph where a level is missing.
        levels: Attributes by level and name.
        text: Attributes with one text per graph.
        kind: What to make of each graph; by default ``Data``, or ``HeteroData`` with a schema.
        schema: Types of nodes and edges, if the graphs have any.
    """
    if schema is not None:
        return split_typed(local_edge_index, counts, levels, schema, text, kind=kind or HeteroData)
    kind = kind or Data
    total = counts["node"].numel()
    rows = {level: count.tolist() for level, count in counts.items()}
    columns: dict[str, Sequence[Any]] = {
        name: value.split(rows.get(level, 1))  # type: ignore[no-untyped-call]
        for level, values in levels.items()
        for name, value in values.items()
    }
    columns["edge_index"] = local_edge_index.split(rows["edge"], dim=1)  # type: ignore[no-untyped-call]
    if "anchors" in columns:
        columns["anchors"] = levels["graph"]["anchors"].view(total, -1).unbind()
    columns.update(text or {})
    return [_made(kind, columns, i) for i in range(total)]


def _made(kind: type[Data], columns: Mapping[str, Sequence[Any]], number: int) -> Data:
    graph = kind()
    (attributes,) = graph.stores
    # A new graph has nothing cached, so what its store does for every attribute is left out.
    attributes._mapping.update({name: parts[number] for name, parts in columns.items()})
    return graph
