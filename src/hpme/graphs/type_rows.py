"""Flat rows with types as the dictionaries by type that heterogeneous models read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hpme.graphs.schema import EdgeType, Schema, padded


@dataclass(frozen=True)
class TypeRows:
    """Where the rows of every type are.

    Args:
        schema: The types.
        nodes: Rows of the nodes of every type.
        edges: Rows of the edges of every type.
        place: For every node its place among those of its type.
    """

    schema: Schema
    nodes: tuple[Tensor, ...]
    edges: tuple[Tensor, ...]
    place: Tensor

    @classmethod
    def of(cls, schema: Schema, node_type: Tensor, edge_type: Tensor) -> TypeRows:
        """Finds the rows by their types."""
        nodes = _rows_of(node_type, len(schema.node_types))
        place = torch.empty_like(node_type)
        for rows in nodes:
            place[rows] = torch.arange(len(rows), device=place.device)
        return cls(schema, nodes, _rows_of(edge_type, len(schema.edge_types)), place)

    def per_node(self, values: Tensor) -> dict[str, Tensor]:
        """Values of all nodes by type."""
        kinds = zip(self.schema.node_types, self.nodes, strict=True)
        return {kind: values.index_select(0, rows) for kind, rows in kinds}

    def per_edge(self, values: Tensor) -> dict[EdgeType, Tensor]:
        """Values of all edges by type."""
        kinds = zip(self.schema.edge_types, self.edges, strict=True)
        return {kind: values.index_select(0, rows) for kind, rows in kinds}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        """Node features by type, each as wide as it is."""
        kinds = zip(self.per_node(x).items(), self.schema.widths, strict=True)
        return {kind: rows[:, :width] for (kind, rows), width in kinds}

    def edge_features(self, edge_attr: Tensor) -> dict[EdgeType, Tensor]:
        """Edge features of the types that have some."""
        kinds = zip(self.per_edge(edge_attr).items(), self.schema.edge_widths, strict=True)
        return {kind: rows[:, :width] for (kind, rows), width in kinds if width is not None}

    def edge_index(self, edge_index: Tensor) -> dict[EdgeType, Tensor]:
        """Edges by type; each numbers the nodes of its own two types."""
        placed = self.place[edge_index]
        kinds = zip(self.schema.edge_types, self.edges, strict=True)
        return {kind: placed.index_select(1, rows) for kind, rows in kinds}

    def flat(self, by_type: dict[str, Tensor]) -> Tensor | None:
        """The inverse of :meth:`per_node`; narrower types, and those that lack, get zeros.

        ``None`` if no type has values.
        """
        found = {kind: value for kind, value in by_type.items() if kind in self.schema.node_types}
        if not found:
            return None
        width = max(value.shape[1] for value in found.values())
        first = next(iter(found.values()))
        result = first.new_zeros(len(self.place), width)
        for kind, value in found.items():
            rows = self.nodes[self.schema.node_types.index(kind)]
            result = result.index_copy(0, rows, padded(value, width).to(result.dtype))
        return result


def _rows_of(kind: Tensor, kinds: int) -> tuple[Tensor, ...]:
    """Rows of every type, in their order."""
    order = torch.argsort(kind, stable=True)
    counts: Sequence[int] = torch.bincount(kind, minlength=kinds).tolist()
    parts: tuple[Tensor, ...] = order.split(counts)  # type: ignore[no-untyped-call]
    return parts
