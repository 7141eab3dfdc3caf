"""How often an explainer asks the target, in passes over the graphs it explains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import HeteroData


class Passes:
    """Edges a model was shown while it was watched; one pass shows every edge of the graphs once.

    Edges, not calls, because calls differ in how many graphs they are about, and mixes are larger
    than the graphs they come from.
    """

    def __init__(self) -> None:
        self.edges = 0

    def over(self, graphs: Iterable[Any]) -> float | None:
        """Passes over some graphs; ``None`` if they have no edge."""
        once = sum(_edges_of(graph) for graph in graphs)
        return self.edges / once if once else None


@contextmanager
def counted(model: nn.Module) -> Iterator[Passes]:
    """Watches a model, and copies that are made of it meanwhile."""
    passes = Passes()

    def watch(_: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        passes.edges += _edges_seen((*args, *kwargs.values()))

    handle = model.register_forward_pre_hook(watch, with_kwargs=True)
    try:
        yield passes
    finally:
        handle.remove()


def _edges_seen(values: Iterable[Any]) -> int:
    """Number of edges among the arguments of a call: integers in two rows, or several by type."""
    for value in values:
        parts = list(value.values()) if isinstance(value, Mapping) else [value]
        if parts and all(_is_edge_index(part) for part in parts):
            return sum(part.shape[1] for part in parts)
    return 0


def _is_edge_index(value: Any) -> bool:
    integer = isinstance(value, Tensor) and value.dtype == torch.long
    return integer and value.dim() == 2 and value.shape[0] == 2


def _edges_of(graph: Any) -> int:
    if isinstance(graph, HeteroData):
        return sum(graph[kind].edge_index.shape[1] for kind in graph.edge_types)
    return int(graph.edge_index.shape[1])
