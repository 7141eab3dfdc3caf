"""Whether tensors of graphs can be used: dtype, shape and finiteness."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hpme.errors import InputError


def check_graph_tensors(x: Any, edge_index: Any, edge_attr: Any = None) -> None:
    """Checks dtype, shape and finiteness of one graph's (or a whole collection's) tensors.

    Raises:
        InputError: If they are unusable; the message says why.
    """
    if not isinstance(x, Tensor) or x.dim() != 2:
        raise InputError(f"x must be a tensor of shape [nodes, features], got {_shape(x)}")
    if not x.is_floating_point():
        raise InputError(f"x must be floating point, got {x.dtype}; convert it with x.float()")
    check_edge_index(edge_index)
    if edge_index.device != x.device:
        raise InputError(f"x is on {x.device}, edge_index on {edge_index.device}; move one of them")
    if edge_attr is not None:
        if edge_attr.shape[0] != edge_index.shape[1]:
            raise InputError(
                f"edge_attr has {edge_attr.shape[0]} rows for {edge_index.shape[1]} edges"
            )
        if edge_attr.is_floating_point() and not bool(torch.isfinite(edge_attr).all()):
            raise InputError("edge_attr contains NaN or infinite values; clean or impute them")
    if not bool(torch.isfinite(x).all()):
        node = int((~torch.isfinite(x).all(1)).nonzero()[0])
        raise InputError(
            f"x contains NaN or infinite values (first at node row {node}); clean or impute them"
        )


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


def check_edge_weight(edge_weight: Tensor | None, edge_index: Tensor) -> None:
    """Checks that there is one weight per edge, if there are any."""
    if edge_weight is not None and edge_weight.shape != edge_index.shape[1:]:
        raise InputError(
            f"edge_weight must have shape [{edge_index.shape[1]}], one value per edge, got "
            f"{tuple(edge_weight.shape)}"
        )


def _shape(value: Any) -> object:
    return tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
