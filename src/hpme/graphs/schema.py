"""Types of nodes and edges: what heterogeneous graphs have besides flat tensors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

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

    Features of all types stand in one tensor that is as wide as the widest type; the other rows are
    filled with zeros that no model sees.

    Args:
        node_types: Types of nodes.
        edge_types: Types of edges.
        widths: Number of features of every node type.
        edge_widths: Number of features of every edge type, ``None`` for none.
    """

    node_types: tuple[str, ...]
    edge_types: tuple[EdgeType, ...]
    widths: tuple[int, ...]
    edge_widths: tuple[int | None, ...]

    @property
    def width(self) -> int:
        """Features of the widest node type."""
        return max(self.widths, default=0)

    @property
    def edge_width(self) -> int | None:
        """Features of the widest edge type; ``None`` if no edge has any."""
        return max((width for width in self.edge_widths if width is not None), default=None)

    def number(self, node_type: str | None) -> int:
        """Number of a node type.

        Raises:
            InputError: If there is none of that name.
        """
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
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Schema:
        """What :meth:`to_text` wrote."""
        fields = json.loads(text)
        fields["edge_types"] = [tuple(kind) for kind in fields["edge_types"]]
        return cls(**{name: tuple(values) for name, values in fields.items()})

    def places_in(self, other: Schema, edge_type: Tensor) -> tuple[Tensor, Tensor]:
        """Number of every node type and edge type in another schema.

        Args:
            other: The other schema.
            edge_type: Types of all edges; a type without edges may lack its features.

        Raises:
            InputError: If it lacks one, or one has other features there.
        """
        node = [
            _place(kind, width, other.node_types, other.widths, "node")
            for kind, width in zip(self.node_types, self.widths, strict=True)
        ]
        used = torch.bincount(edge_type, minlength=len(self.edge_types)) > 0
        edge = [
            _place(kind, width, other.edge_types, other.edge_widths, "edge", used=bool(there))
            for kind, width, there in zip(self.edge_types, self.edge_widths, used, strict=True)
        ]
        return torch.tensor(node, dtype=torch.long), torch.tensor(edge, dtype=torch.long)


def padded(rows: Tensor, width: int) -> Tensor:
    """Rows filled with zeros up to a width."""
    return torch.nn.functional.pad(rows, (0, width - rows.shape[1]))


def shown(kind: str | Sequence[str]) -> str:
    """A type in words."""
    return repr(kind) if isinstance(kind, str) else f"({', '.join(kind)})"


def _place(
    kind: str | EdgeType,
    width: int | None,
    kinds: Sequence[str | EdgeType],
    widths: Sequence[int | None],
    level: str,
    *,
    used: bool = True,
) -> int:
    if kind not in kinds:
        raise InputError(
            f"{level} type {shown(kind)} is unknown to what was fitted; it knows: "
            f"{', '.join(map(shown, kinds))}; fit again with graphs that have it"
        )
    place = kinds.index(kind)
    if width != widths[place] and (used or width is not None):
        raise InputError(
            f"{level} type {shown(kind)} has {width or 'no'} features, {widths[place] or 'none'} "
            "when it was fitted; give the same features"
        )
    return place
