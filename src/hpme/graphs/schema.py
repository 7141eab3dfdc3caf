"""Types of nodes and edges of heterogeneous graphs, and where the rows of every type are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from hpme.errors import InputError

EdgeType = tuple[str, str, str]
"""Type of the source, relation, type of the target."""
NODE_TYPE, EDGE_TYPE = "node_type", "edge_type"
"""Names of the attributes that hold the number of every node's and every edge's type."""


@dataclass(frozen=True)
class Schema:
    """Types of nodes and edges in the order in which they are numbered, and their features.

    Features of all types stand in one tensor, filled with zeros that no model sees. ``dtypes`` name
    the type of the features of every node type, if some are integers or booleans: models get each
    as it was given.
    """

    node_types: tuple[str, ...]
    edge_types: tuple[EdgeType, ...]
    widths: tuple[int, ...]  # number of features of every node type
    edge_widths: tuple[int | None, ...]  # of every edge type, ``None`` for none
    dtypes: tuple[str, ...] = ()

    @property
    def coded(self) -> tuple[int, ...]:
        """Numbers of the node types whose features are integers or booleans."""
        given = [getattr(torch, name) for name in self.dtypes]
        return tuple(n for n, dtype in enumerate(given) if not dtype.is_floating_point)

    def as_given(self, x: Tensor, number: int) -> Tensor:
        """Features of nodes of one type as that type has them."""
        x = x[:, : self.widths[number]]
        return x.to(getattr(torch, self.dtypes[number])) if self.dtypes else x

    def _kind_of(self, number: int) -> str:
        return self.dtypes[number] if number in self.coded else "floating point"

    @property
    def width(self) -> int:
        """Features of the widest node type."""
        return max(self.widths, default=0)

    @property
    def edge_width(self) -> int | None:
        """Features of the widest edge type; ``None`` if no edge has any."""
        return max((width for width in self.edge_widths if width is not None), default=None)

    def number(self, node_type: str | None) -> int:
        """Number of a node type; raises :class:`InputError` if there is none of that name."""
        if node_type not in self.node_types:
            found = "none is given" if node_type is None else f"there is no '{node_type}'"
            raise InputError(
                f"name the type of the nodes that are explained with node_type= ({found}); valid: "
                + ", ".join(self.node_types)
            )
        return self.node_types.index(node_type)

    def ends(self) -> Tensor:
        """Numbers ``[2, R]`` of the node types that every edge type joins."""
        number = self.node_types.index
        pairs = [(number(source), number(target)) for source, _, target in self.edge_types]
        return torch.tensor(pairs, dtype=torch.long).view(-1, 2).T

    def to_text(self) -> str:
        """As JSON."""
        fields = asdict(self)
        if not self.dtypes:  # as files had it before there were any
            del fields["dtypes"]
        return json.dumps(fields)

    @classmethod
    def from_text(cls, text: str) -> Schema:
        """What :meth:`to_text` wrote."""
        fields = json.loads(text)
        fields["edge_types"] = [tuple(kind) for kind in fields["edge_types"]]
        return cls(**{name: tuple(values) for name, values in fields.items()})

    def places_in(self, other: Schema, edge_type: Tensor) -> tuple[Tensor, Tensor]:
        """Number of every node type and edge type in another schema, given types of all edges."""
        known = dict(zip(other.node_types, other.widths, strict=True))
        node = _places_in(known, dict(zip(self.node_types, self.widths, strict=True)), "node")
        for number, place in enumerate(node.tolist()):
            if self._kind_of(number) != other._kind_of(place):
                raise InputError(
                    f"x of node type {shown(self.node_types[number])} is {self._kind_of(number)}, "
                    f"{other._kind_of(place)} when it was fitted; give the same"
                )
        fitted = dict(zip(other.edge_types, other.edge_widths, strict=True))
        used = torch.bincount(edge_type, minlength=len(self.edge_types)).tolist()
        edges = zip(self.edge_types, self.edge_widths, used, strict=True)
        # A type without edges may lack its features.
        widths = {k: width if n or width is not None else fitted.get(k) for k, width, n in edges}
        return node, _places_in(fitted, widths, "edge")


def padded(rows: Tensor, width: int) -> Tensor:
    """Rows filled with zeros up to a width."""
    return torch.nn.functional.pad(rows, (0, width - rows.shape[1]))


def shown(kind: str | Sequence[str]) -> str:
    """A type in words."""
    return repr(kind) if isinstance(kind, str) else f"({', '.join(kind)})"


def _places_in(known: Mapping[Any, Any], widths: Mapping[Any, Any], what: str) -> Tensor:
    """Number of every type, of some width, among those that are known."""
    for kind, width in widths.items():
        if kind not in known:
            raise InputError(
                f"{what} type {shown(kind)} is unknown to what was fitted; it knows: "
                f"{', '.join(map(shown, known))}; fit again with graphs that have it"
            )
        if width != known[kind]:
            raise InputError(
                f"{what} type {shown(kind)} has {width or 'no'} features, {known[kind] or 'none'} "
                "when it was fitted; give the same features"
            )
    return torch.tensor([[*known].index(kind) for kind in widths], dtype=torch.long)


@dataclass(frozen=True)
class TypeRows:
    """Where the rows of every type are."""

    schema: Schema
    nodes: tuple[Tensor, ...]  # rows of the nodes of every type
    edges: tuple[Tensor, ...]

    @classmethod
    def of(cls, schema: Schema, node_type: Tensor, edge_type: Tensor) -> TypeRows:
        """Finds the rows by their types."""
        rows = []
        for kind, names in ((node_type, schema.node_types), (edge_type, schema.edge_types)):
            counts = torch.bincount(kind, minlength=len(names)).tolist()
            rows.append(torch.argsort(kind, stable=True).split(counts))  # type: ignore[no-untyped-call]
        return cls(schema, *rows)

    @cached_property
    def place(self) -> Tensor:
        """For every node its place among those of its type."""
        return _places(self.nodes)

    @cached_property
    def edge_place(self) -> Tensor:
        """For every edge its place among those of its type."""
        return _places(self.edges)

    def per_node(self, values: Tensor) -> dict[str, Tensor]:
        """Values of all nodes by type."""
        given = zip(self.schema.node_types, self.nodes, strict=True)
        return {kind: values.index_select(0, rows) for kind, rows in given}

    def per_edge(self, values: Tensor) -> dict[EdgeType, Tensor]:
        """Values of all edges by type."""
        kinds = zip(self.schema.edge_types, self.edges, strict=True)
        return {kind: values.index_select(0, rows) for kind, rows in kinds}

    def features(self, x: Tensor) -> dict[str, Tensor]:
        """Node features by type, each as wide as it is."""
        given = enumerate(self.per_node(x).items())
        return {kind: self.schema.as_given(rows, number) for number, (kind, rows) in given}

    def edge_features(self, edge_attr: Tensor) -> dict[EdgeType, Tensor]:
        """Edge features of the types that have some."""
        kinds = zip(self.per_edge(edge_attr).items(), self.schema.edge_widths, strict=True)
        return {kind: rows[:, :width] for (kind, rows), width in kinds if width is not None}

    def edge_index(self, edge_index: Tensor) -> dict[EdgeType, Tensor]:
        """Edges by type; each numbers the nodes of its own two types."""
        placed = self.place[edge_index]
        kinds = zip(self.schema.edge_types, self.edges, strict=True)
        return {kind: placed.index_select(1, rows) for kind, rows in kinds}

    def flat(self, by_type: dict[str, Tensor]) -> Tensor:
        """The inverse of :meth:`per_node`; narrower types, and those that lack, get zeros."""
        width = max(value.shape[1] for value in by_type.values())
        result = next(iter(by_type.values())).new_zeros(len(self.place), width)
        for kind, value in by_type.items():
            rows = self.nodes[self.schema.node_types.index(kind)]
            result = result.index_copy(0, rows, padded(value, width).to(result.dtype))
        return result


def _places(parts: Sequence[Tensor]) -> Tensor:
    rows = torch.cat([*parts])
    place = torch.cat([torch.arange(len(part), device=rows.device) for part in parts])
    return torch.empty_like(rows).scatter_(0, rows, place)
