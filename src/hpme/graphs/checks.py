"""Whether tensors of graphs can be used: dtype, shape and finiteness."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.graphs.schema import Schema, shown


def check_graph_tensors(
    x: Any, edge_index: Any, edge_attr: Any = None, edge_weight: Any = None
) -> None:
    """Checks dtype, shape and finiteness of one graph's (or a whole collection's) tensors."""
    codes = isinstance(x, Tensor) and not (x.is_floating_point() or x.is_complex())
    if not isinstance(x, Tensor) or not (x.dim() == 2 or (x.dim() == 1 and codes)):
        raise InputError(
            f"x must be a tensor of shape [nodes, features], or [nodes] for integer codes, got "
            f"{_shape(x)}"
        )
    if x.layout is not torch.strided:
        raise InputError(f"x is sparse ({x.layout}); convert it with x.to_dense()")
    if x.is_complex():
        raise InputError(
            f"x must be floating point, integer or boolean, got {x.dtype}; give real and imaginary "
            "parts as columns: torch.view_as_real(x).flatten(1)"
        )
    check_edge_index(edge_index)
    if edge_attr is not None:
        check_edge_rows(edge_attr, edge_index.shape[1], "edge_attr")
    if edge_weight is not None and edge_weight.shape != edge_index.shape[1:]:
        raise InputError(
            f"edge_weight must have shape [edges] = [{edge_index.shape[1]}], one value per edge, "
            f"got {tuple(edge_weight.shape)}"
        )
    named = {"edge_index": edge_index, "edge_attr": edge_attr, "edge_weight": edge_weight}
    for name, value in {"x": x, **named}.items():
        if value is not None and value.device != x.device:
            raise InputError(f"x is on {x.device}, {name} on {value.device}; move one of them")
        if value is not None and value.is_floating_point() and not torch.isfinite(value).all():
            row = int((~torch.isfinite(value).view(len(value), -1).all(1)).nonzero()[0])
            raise InputError(
                f"{name} contains NaN or infinite values (first at "
                f"{'node' if name == 'x' else 'edge'} row {row}); clean or impute them"
            )


def check_edge_rows(value: Any, edges: int, name: str, graph: int | None = None) -> None:
    """Checks that a tensor has a row per edge of a graph, or of the graph with a number."""
    where = "" if graph is None else f"graph {graph}: "
    if not isinstance(value, Tensor) or value.layout is not torch.strided:
        raise InputError(f"{where}{name} must be a dense tensor with a row per edge")
    rows = value.shape[0] if value.dim() else 0
    if rows != edges:
        raise InputError(f"{where}{name} has {rows} rows for {edges} edges")


def check_edge_index(edge_index: Any) -> None:
    """Checks dtype and shape of edges."""
    if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise InputError(
            f"edge_index must be a tensor of shape [2, edges], got {_shape(edge_index)}"
        )
    if edge_index.dtype != torch.long:
        raise InputError(
            f"edge_index must be torch.long, got {edge_index.dtype}; convert it with "
            "edge_index.long()"
        )


def check_node_numbers(edge_index: Tensor, num_nodes: int) -> None:
    """Checks that the edges of a single graph, or of a batch, join nodes it has."""
    if edge_index.numel() and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < num_nodes:
        raise InputError(f"edge_index out of range: node numbers must lie in [0, {num_nodes})")


def check_own_nodes(
    local_edge_index: Tensor, sizes: Tensor, edge_counts: Tensor, anchors: Tensor | None
) -> None:
    """Checks that edges and anchors of every graph number nodes it has, from its first."""
    limit = torch.repeat_interleave(sizes, edge_counts)
    bad = ((local_edge_index < 0) | (local_edge_index >= limit)).any(0)
    if bool(bad.any()):
        graph = int(torch.repeat_interleave(edge_counts)[bad][0])
        raise InputError(
            f"edge_index out of range in graph {graph}: node numbers must lie in "
            f"[0, {int(sizes[graph])}); check how the graph was built"
        )
    if anchors is None:
        return
    bad = ((anchors < 0) | (anchors >= sizes.unsqueeze(1))).any(1)
    if bool(bad.any()):
        graph = int(bad.nonzero()[0])
        raise InputError(
            f"anchors out of range in graph {graph}: they number its own nodes, "
            f"[0, {int(sizes[graph])})"
        )


def _shape(value: Any) -> object:
    return tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__


def check_ends(
    index: Tensor, size: Tensor, edge_type: Tensor, edge_graph: Tensor, schema: Schema
) -> None:
    """Refuses edges that leave the ``size [2, E]`` nodes of the types they join."""
    wrong = (index < 0) | (index >= size)
    if bool(wrong.any()):
        end, edge = wrong.nonzero()[0].tolist()
        kind = schema.edge_types[int(edge_type[edge])]
        raise InputError(
            f"edge_index out of range in graph {int(edge_graph[edge])}: edges {shown(kind)} must "
            f"number the {int(size[end, edge])} nodes of type '{kind[2 * end]}' from 0 on"
        )
