"""Several graphs laid out as one disconnected graph, as models see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from hpme.graphs.edges import Pairs
from hpme.graphs.schema import EDGE_TYPE, NODE_TYPE, EdgeType, Schema, TypeRows
from hpme.graphs.segment import exclusive_cumsum, reverse_edge_index, stable_order


@dataclass(frozen=True)
class GraphBatch:
    r"""Several graphs laid out as one disconnected graph.

    Args:
        x: Node features :math:`[N, F]`, of any real, integer or boolean type; integer codes may
            also be :math:`[N]`. Graphs without any have width 0, which no model is shown.
        edge_index: Directed edges :math:`[2, E]`, grouped by graph.
        batch: Graph number of every node, non-decreasing.
        num_graphs: Number of graphs, empty ones included.
        edge_attr: Edge features :math:`[E, D]`, if the graphs have them.
        edge_weight: The graphs' own edge weights :math:`[E]`, if they have them.
        node_ids: Rows of the store the nodes were taken from, if they were.
        known_pairs: :attr:`pairs`, if they are known already.
        anchors: Nodes every graph is about :math:`[G, c]`, if the graphs have them: the target
            node of an ego graph (:math:`c = 1`), the two ends of a link (:math:`c = 2`).
        node: Further attributes with one row per node, by name.
        edge: Further attributes with one row per directed edge.
        graph: Further attributes with one row per graph.
        schema: Types of nodes and edges, if the graphs have any: ``node`` and ``edge`` then hold
            the numbers of these types as ``node_type`` and ``edge_type``.
    """

    x: Tensor
    edge_index: Tensor
    batch: Tensor
    num_graphs: int
    edge_attr: Tensor | None = None
    edge_weight: Tensor | None = None
    node_ids: Tensor | None = None
    known_pairs: Pairs | None = field(default=None, repr=False)
    anchors: Tensor | None = None
    node: Mapping[str, Tensor] = field(default_factory=dict)
    edge: Mapping[str, Tensor] = field(default_factory=dict)
    graph: Mapping[str, Tensor] = field(default_factory=dict)
    schema: Schema | None = None

    @classmethod
    def of(cls, node: dict[str, Any], edge: dict[str, Any], **form: Any) -> GraphBatch:
        """From all attributes of nodes and of edges by name, as :meth:`groups` gives them."""
        attr, weight = (edge.pop(name, None) for name in ("edge_attr", "edge_weight"))
        return cls(node.pop("x"), edge_attr=attr, edge_weight=weight, node=node, edge=edge, **form)

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all graphs together."""
        return int(self.x.shape[0])

    @property
    def num_edges(self) -> int:
        """Number of directed edges of all graphs together."""
        return int(self.edge_index.shape[1])

    @property
    def has_x(self) -> bool:
        """Whether the graphs have node features under the name ``x``."""
        return self.x.dim() == 1 or self.x.shape[1] > 0

    @property
    def coded(self) -> bool:
        """Whether nodes are told by codes, or by other fields than ``x``: no number means none."""
        typed = self.schema is not None and bool(self.schema.coded)
        return typed or not (self.has_x and self.x.is_floating_point())

    @property
    def kinds(self) -> Tensor:
        """What tells kinds of nodes apart, see :func:`node_kinds`."""
        return node_kinds(self.x, self.node)

    @property
    def float_dtype(self) -> torch.dtype:
        """Type of numbers beside the features: that of ``x`` if it is floating point."""
        real = self.x.is_floating_point() and (self.schema is None or not self.schema.coded)
        return self.x.dtype if real else torch.get_default_dtype()

    @cached_property
    def sizes(self) -> Tensor:
        """Number of nodes of every graph."""
        return torch.bincount(self.batch, minlength=self.num_graphs)

    @cached_property
    def ptr(self) -> Tensor:
        """Position of the first node of every graph."""
        return exclusive_cumsum(self.sizes)

    @cached_property
    def edge_batch(self) -> Tensor:
        """Graph number of every edge."""
        return self.batch[self.edge_index[0]]

    @cached_property
    def edge_counts(self) -> Tensor:
        """Number of directed edges of every graph."""
        return torch.bincount(self.edge_batch, minlength=self.num_graphs)

    @cached_property
    def reverse(self) -> Tensor:
        """Position of the edge in the other direction, of every edge; its own if there is none."""
        # Where edges are sorted by their ends and go both ways, the order by targets is the answer.
        guess = stable_order(self.edge_index[1], self.num_nodes)
        if bool((self.edge_index.index_select(1, guess) == self.edge_index.flip(0)).all()):
            return guess
        return reverse_edge_index(self.edge_index, self.num_nodes)

    @cached_property
    def loops(self) -> Tensor:
        """Boolean :math:`[E]`: whether an edge joins a node to itself."""
        return self.edge_index[0] == self.edge_index[1]

    @property
    def loops_last(self) -> Tensor:
        """Positions of the edges with self-loops last, sorted by node, as PyG's layers put them."""
        return torch.argsort(torch.where(self.loops, 1 + self.edge_index[0], 0), stable=True)

    @cached_property
    def pairs(self) -> Pairs:
        """The connected pairs of nodes."""
        if self.known_pairs is not None:
            return self.known_pairs
        return Pairs.of(self.edge_index, self.batch, self.num_graphs, self.edge_type)

    @property
    def node_type(self) -> Tensor | None:
        """Number of every node's type, if the graphs have types."""
        return None if self.schema is None else self.node[NODE_TYPE]

    @property
    def edge_type(self) -> Tensor | None:
        """Number of every edge's type, if the graphs have types."""
        return None if self.schema is None else self.edge[EDGE_TYPE]

    @cached_property
    def type_rows(self) -> TypeRows:
        """Where the rows of every type are."""
        assert self.schema is not None
        return TypeRows.of(self.schema, self.node[NODE_TYPE], self.edge[EDGE_TYPE])

    @cached_property
    def x_dict(self) -> dict[str, Tensor]:
        """Node features by type, as they were given; embeddings are recognised by these tensors."""
        found = self.type_rows.features(self.x)
        return {k: v if len(v) else v.new_zeros(1, v.shape[1])[:0] for k, v in found.items()}

    @cached_property
    def edge_index_dict(self) -> dict[EdgeType, Tensor]:
        """Edges by type; layers are recognised by the very tensors they get."""
        return self.type_rows.edge_index(self.edge_index)

    @cached_property
    def batch_dict(self) -> dict[str, Tensor]:
        """Graph number of every node by type; readouts are recognised by these tensors."""
        found = self.type_rows.per_node(self.batch)
        # A tensor without elements has no address of its own; a part of another one has.
        return {kind: v if len(v) else v.new_zeros(1)[:0] for kind, v in found.items()}

    @property
    def anchors_per_graph(self) -> int:
        """Number of anchors :math:`c` of every graph."""
        return 0 if self.anchors is None else int(self.anchors.shape[1])

    @cached_property
    def anchor_order(self) -> Tensor | None:
        r"""For every node its column in :attr:`anchors`, :math:`c` if it is no anchor.

        ``None`` if the graphs have no anchors. A node that is several has the first column.
        """
        if self.anchors is None:
            return None
        width = self.anchors_per_graph
        order = torch.full((self.num_nodes,), width, device=self.x.device)
        column = torch.arange(width, device=self.x.device).expand_as(self.anchors)
        return order.scatter_reduce(0, self.anchors.flatten(), column.flatten(), "amin")

    def edges(self, which: Tensor) -> GraphBatch:
        """The graphs with some of their edges, given by a mask or by their positions."""
        return replace(
            self,
            edge_index=self.edge_index[:, which],
            edge_attr=_rows(self.edge_attr, which),
            edge_weight=_rows(self.edge_weight, which),
            edge={name: value[which] for name, value in self.edge.items()},
            known_pairs=None,
        )

    def nodes(self, mask: Tensor) -> GraphBatch:
        """The graphs with the nodes of a boolean mask, all anchors among them, and their edges."""
        kept = self.edges(mask[self.edge_index].all(0))
        number = mask.long().cumsum(0) - 1
        return replace(
            kept,
            x=self.x[mask],
            edge_index=number[kept.edge_index],
            batch=self.batch[mask],
            node_ids=_rows(self.node_ids, mask),
            anchors=None if self.anchors is None else number[self.anchors],
            node={name: value[mask] for name, value in self.node.items()},
        )

    def without(self, gone: Tensor) -> GraphBatch:
        """The graphs without what some nodes tell a model.

        Features that are floating point are zeroed, and the structure stays. Codes have no zero, so
        other nodes are deleted with their edges; anchors, and the last node of a graph, get the
        code 0.
        """
        if not self.coded:
            return replace(self, x=self.x.masked_fill(gone.unsqueeze(1), 0.0))
        stay = ~gone
        if self.anchors is not None:
            stay = stay.index_fill(0, self.anchors.flatten(), True)
        left = torch.bincount(self.batch[stay], minlength=self.num_graphs)
        stay[self.ptr[(left == 0) & (self.sizes > 0)]] = True
        named = {"x": self.x} if self.has_x else self.node
        neutral = {
            name: value.masked_fill(gone.view(-1, *[1] * (value.dim() - 1)), 0)
            for name, value in named.items()
            if name == "x" or not value.is_floating_point()
        }
        x = neutral.pop("x", self.x)
        return replace(self, x=x, node={**self.node, **neutral}).nodes(stay)

    def grouped(self) -> GraphBatch:
        """The graphs with edges grouped by graph, for edges in any order."""
        return self.edges(self.edge_batch.argsort(stable=True))

    def placed(self) -> GraphBatch:
        """The graphs with ``node_ids`` and ``edge_ids``, the places of their nodes and edges."""
        nodes, edges = (torch.arange(n, device=self.x.device)
                        for n in (self.num_nodes, self.num_edges))  # fmt: skip
        node, edge = {**self.node, "node_ids": nodes}, {**self.edge, "edge_ids": edges}
        return replace(self, node=node, edge=edge)

    def detached(self) -> GraphBatch:
        """The graphs without the history of their tensors."""
        return self._with(Tensor.detach)

    def to(self, device: torch.device) -> GraphBatch:
        """The graphs on another device, and as tensors autograd can use."""
        given = [getattr(self, name) for name in _TENSORS]
        if all(v is None or (v.device == device and not v.is_inference()) for v in given):
            return self
        pairs = None if self.known_pairs is None else self.known_pairs.to(device)
        moved = self._with(lambda value: value.to(device, copy=value.is_inference()))
        return replace(moved, known_pairs=pairs)

    def _with(self, change: Callable[[Tensor], Tensor]) -> GraphBatch:
        """The graphs with all their tensors changed."""
        changes: dict[str, Any] = {name: change(value) for name in _TENSORS
                                   if (value := getattr(self, name)) is not None}  # fmt: skip
        for group in ("node", "edge", "graph"):
            changes[group] = {name: change(v) for name, v in getattr(self, group).items()}
        return replace(self, **changes)

    def groups(self) -> dict[str, dict[str, Tensor]]:
        """All attributes by group and name; anchors number nodes from each graph's first."""
        anchors = None if self.anchors is None else self.anchors - self.ptr.unsqueeze(1)
        edge = {"edge_attr": self.edge_attr, "edge_weight": self.edge_weight, **self.edge}
        groups: tuple[tuple[str, Mapping[str, Tensor | None]], ...] = (
            ("node", {"x": self.x, **self.node}),
            ("edge", edge),
            ("graph", {"anchors": anchors, **self.graph}),
        )
        return {key: {n: v for n, v in group.items() if v is not None} for key, group in groups}

    @property
    def local_edge_index(self) -> Tensor:
        """Edges that number nodes from each graph's first."""
        return self.edge_index - self.ptr[self.edge_batch]


def node_kinds(x: Tensor, node: Mapping[str, Tensor]) -> Tensor:
    """Rows :math:`[N, F]` that tell kinds of nodes apart: ``x``, else the codes ``z`` if any."""
    rows = node.get("z", x) if x.shape[1:] == (0,) else x
    return rows.unsqueeze(1) if rows.dim() == 1 else rows


def both(
    first: Mapping[str, Tensor], second: Mapping[str, Tensor], rows: Tensor | None = None
) -> dict[str, Tensor]:
    """Attributes that two have, one's behind the other's, or some rows of them."""
    found = {name: torch.cat([v, second[name]]) for name, v in first.items() if name in second}
    return found if rows is None else {n: v.index_select(0, rows) for n, v in found.items()}


_TENSORS = ("x", "edge_index", "batch", "edge_attr", "edge_weight", "node_ids", "anchors")


def _rows(value: Tensor | None, which: Tensor) -> Tensor | None:
    return None if value is None else value[which]
