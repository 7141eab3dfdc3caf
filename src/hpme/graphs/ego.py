"""Ego graphs: what a node-level model sees of a large graph when it looks at single nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from hpme.errors import InputError
from hpme.graphs.checks import check_graph_tensors, check_node_numbers
from hpme.graphs.edges import Adjacency
from hpme.graphs.hetero import flattened
from hpme.graphs.reading import completed, read_graphs
from hpme.graphs.schema import EDGE_TYPE, NODE_TYPE, Schema, TypeRows
from hpme.graphs.segment import exclusive_cumsum, segment_sum
from hpme.graphs.store import MODEL_INPUTS, GraphStore

NUM_HOPS = 3
"""Radius of ego graphs: as many layers as most node-level models have."""
MAX_EDGES = 2**21
"""Edges looked at together; bounds the memory on large graphs."""


@dataclass(frozen=True)
class EgoGraphs:
    """Ego graphs of some nodes, in the order of these nodes.

    Args:
        store: The graphs; the anchors of each are its target node, or both ends of its link.
    """

    store: GraphStore

    @property
    def node_ids(self) -> Tensor:
        """Number of every node of the store in the whole graph."""
        return self.store.node["node_ids"]

    @property
    def edge_ids(self) -> Tensor:
        """Position of every edge of the store in the whole graph."""
        return self.store.edge["edge_ids"]


@dataclass(frozen=True)
class WholeGraph:
    r"""A graph of which ego graphs are cut out.

    The ego graph of a node has all nodes from which it is reached within ``num_hops`` edges, and
    all edges between them, both in the order of the whole graph, as PyG's ``k_hop_subgraph`` has
    them.

    Args:
        x: Node features :math:`[N, F]`.
        edge_index: Directed edges :math:`[2, E]`.
        edge_attr: Edge features, if any.
        edge_weight: Edge weights, if any.
        y: Labels of the nodes, if any.
        num_hops: Radius of the ego graphs.
        types: Types of nodes and edges by number, ``node_type`` and ``edge_type``, if any.
        schema: What these are.
        node: Further attributes with one row per node, by name; ego graphs have their rows.
        edge: Further attributes with one row per directed edge.
        graph: Further attributes of one row, which all ego graphs have.
        max_edges: Edges looked at together.
    """

    x: Tensor
    edge_index: Tensor
    edge_attr: Tensor | None = None
    edge_weight: Tensor | None = None
    y: Tensor | None = None
    num_hops: int = NUM_HOPS
    types: Mapping[str, Tensor] = field(default_factory=dict)
    schema: Schema | None = None
    max_edges: int = field(default=MAX_EDGES, repr=False)
    node: Mapping[str, Tensor] = field(default_factory=dict)
    edge: Mapping[str, Tensor] = field(default_factory=dict)
    graph: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_graph_tensors(self.x, self.edge_index, self.edge_attr, self.edge_weight)
        check_node_numbers(self.edge_index, len(self.x))
        if self.num_hops < 1:
            raise InputError(f"num_hops must be at least 1, got {self.num_hops}")

    @classmethod
    def of(
        cls,
        data: Data | HeteroData,
        *,
        num_hops: int = NUM_HOPS,
        schema: Schema | None = None,
        everything: bool = False,
    ) -> WholeGraph:
        """Reads a PyG graph; ``y`` is taken if it has one value per node.

        Args:
            data: The graph.
            num_hops: Radius of the ego graphs.
            schema: Of a flat graph with a type for every row, its types.
            everything: Whether to take attributes along that not every model reads.
        """
        if isinstance(data, HeteroData):
            schema, (flat,) = flattened([data])
            data = Data(**flat)
        if not isinstance(data, Data):
            raise InputError(
                "index numbers the nodes of one graph: pass a Data or HeteroData, not "
                f"{type(data).__name__}"
            )
        given = completed(data.to_dict())
        y = data.get("y")
        labelled = isinstance(y, Tensor) and y.dim() == 1 and len(y) == len(given["x"])
        others = _others(data) if everything and schema is None else {}
        return cls(
            given["x"],
            given["edge_index"],
            data.get("edge_attr"),
            data.get("edge_weight"),
            y if labelled else None,
            num_hops,
            {} if schema is None else {name: data[name] for name in (NODE_TYPE, EDGE_TYPE)},
            schema,
            node=others.get("node", {}),
            edge=others.get("edge", {}),
            graph=others.get("graph", {}),
        )

    @property
    def type_rows(self) -> TypeRows:
        """Where the rows of every type are."""
        assert self.schema is not None
        return TypeRows.of(self.schema, self.types[NODE_TYPE], self.types[EDGE_TYPE])

    def numbered(self, store: GraphStore) -> GraphStore:
        """Ego graphs whose ``node_ids`` and ``edge_ids`` number the rows of each type from 0 on.

        Without types they stay as they are.
        """
        if self.schema is None:
            return store
        rows_of = self.type_rows
        edge_place = torch.empty_like(self.types[EDGE_TYPE])
        for rows in rows_of.edges:
            edge_place[rows] = torch.arange(len(rows), device=rows.device)
        places = {"node": ("node_ids", rows_of.place), "edge": ("edge_ids", edge_place)}
        changes = {
            group: {name: place[getattr(store, group)[name]]}
            for group, (name, place) in places.items()
            if name in getattr(store, group)
        }
        return store.with_attributes(**changes)

    def numbers(self, node_type: str | None) -> Tensor:
        """Numbers of the nodes of a type, in their order; of all nodes if there are no types."""
        if self.schema is None:
            return torch.arange(len(self.x), device=self.x.device)
        return (self.types[NODE_TYPE] == self.schema.number(node_type)).nonzero().view(-1)

    @cached_property
    def _inward(self) -> Adjacency:
        return Adjacency.of(self.edge_index.flip(0), len(self.x))

    @cached_property
    def _reach(self) -> Tensor:
        """Upper bound of the edges that are looked at for the ego graph of every node."""
        source, target = self.edge_index
        degree = self._inward.degree
        bound = degree
        for _ in range(self.num_hops):
            bound = degree + segment_sum(bound[source], target, len(self.x))
            bound = bound.clamp(max=max(1, self.edge_index.shape[1]))
        return bound + 1

    def parts(self, nodes: Tensor, batch_size: int) -> Iterator[EgoGraphs]:
        """Ego graphs of consecutive nodes, few enough at a time for any memory.

        Args:
            nodes: Their target nodes, or both ends :math:`[L, 2]` of links; repetition is allowed.
            batch_size: At most this many at a time.
        """
        reach = self._reach[nodes].view(len(nodes), -1).sum(1)
        few = exclusive_cumsum(reach) // self.max_edges
        many = torch.arange(len(nodes), device=nodes.device) // batch_size
        group = torch.unique_consecutive(torch.stack([few, many]), dim=1, return_counts=True)
        for part in nodes.split(group[1].tolist()):  # type: ignore[no-untyped-call]
            yield self._cut_out(part)

    def ego_graphs(self, nodes: Tensor) -> EgoGraphs:
        """Ego graphs of any number of nodes, or of links :math:`[L, 2]`."""
        first, *others = [part.store for part in self.parts(nodes, max(1, len(nodes)))]
        return EgoGraphs(first.joined(*others))

    def copies(self, count: int, roots: Tensor | None) -> GraphStore:
        """The graph several times over, as ego graphs of any radius would be.

        Args:
            count: How many times.
            roots: What each is about, if that is known: nodes, or both ends :math:`[L, 2]` of
                links.
        """
        device, edges = self.x.device, self.edge_index.shape[1]
        node = {"node_ids": torch.arange(len(self.x), device=device), **self.node}
        edge = {"edge_ids": torch.arange(edges, device=device), **self.edge}
        if self.schema is not None:
            node[NODE_TYPE], edge[EDGE_TYPE] = self.types[NODE_TYPE], self.types[EDGE_TYPE]
        one = GraphStore.of(
            x=self.x,
            local_edge_index=self.edge_index,
            sizes=torch.tensor([len(self.x)], device=device),
            edge_counts=torch.tensor([edges], device=device),
            edge_attr=self.edge_attr,
            edge_weight=self.edge_weight,
        )
        one = replace(one.with_attributes(node=node, edge=edge, graph=self.graph),
                      schema=self.schema)  # fmt: skip
        store = one.subset(torch.zeros(count, dtype=torch.long, device=device))
        anchors = {} if roots is None else {"anchors": roots.view(count, -1)}
        return store.with_attributes(graph=anchors)

    def _cut_out(self, nodes: Tensor) -> EgoGraphs:
        # A node of an ego graph is a number: that of its graph times num_nodes, plus its own.
        num_nodes, device = len(self.x), nodes.device
        own = torch.arange(len(nodes), device=device).unsqueeze(1) * num_nodes
        roots = own + nodes.view(len(nodes), -1)
        reached = frontier = torch.unique(roots)
        for _ in range(self.num_hops):
            rows, owner = self._inward.rows(frontier % num_nodes)
            found = frontier[owner] // num_nodes * num_nodes + self._inward.target[rows]
            found = torch.unique(found)
            frontier = found[~_among(found, reached)[1]]
            reached = torch.cat([reached, frontier]).sort().values
        graph, node_ids = reached // num_nodes, reached % num_nodes
        sizes = torch.bincount(graph, minlength=len(nodes))
        start = exclusive_cumsum(sizes)

        rows, target = self._inward.rows(node_ids)
        source = graph[target] * num_nodes + self._inward.target[rows]
        source, inside = _among(source, reached)
        source, target, rows = source[inside], target[inside], rows[inside]
        edge_ids, edge_graph = self._inward.edge[rows], graph[target]
        order = torch.argsort(edge_graph * max(1, self.edge_index.shape[1]) + edge_ids)
        edge_ids, edge_graph = edge_ids[order], edge_graph[order]
        edge_index = torch.stack([source[order], target[order]]) - start[edge_graph]
        store = GraphStore.of(
            x=self.x[node_ids],
            local_edge_index=edge_index,
            sizes=sizes,
            edge_counts=torch.bincount(edge_graph, minlength=len(nodes)),
            edge_attr=None if self.edge_attr is None else self.edge_attr[edge_ids],
            edge_weight=None if self.edge_weight is None else self.edge_weight[edge_ids],
            y=None if self.y is None or nodes.dim() == 2 else self.y[nodes],
            anchors=torch.searchsorted(reached, roots) - start.unsqueeze(1),
        )
        node, edge = {"node_ids": node_ids}, {"edge_ids": edge_ids}
        if self.schema is not None:
            node[NODE_TYPE] = self.types[NODE_TYPE][node_ids]
            edge[EDGE_TYPE] = self.types[EDGE_TYPE][edge_ids]
        more = store.with_attributes(
            node={name: value[node_ids] for name, value in self.node.items()} | node,
            edge={name: value[edge_ids] for name, value in self.edge.items()} | edge,
            graph={name: value.expand(len(nodes), *value.shape[1:])
                   for name, value in self.graph.items()},
        )  # fmt: skip
        return EgoGraphs(replace(more, schema=self.schema))


def _others(data: Data) -> dict[str, dict[str, Tensor]]:
    """Attributes with rules of their own aside, those of nodes, of edges and of the graph."""
    parts = read_graphs([data], "fitting")
    return {
        group: {name: v.detach() for name, v in parts[group].items() if name not in MODEL_INPUTS}
        for group in ("node", "edge", "graph")
    }


def node_index(
    index: int | Sequence[int] | Tensor | None, num_nodes: int, device: Any, what: str = "node"
) -> Tensor:
    """Node numbers as a tensor, from what users pass as ``index``.

    Args:
        index: One node, several, a boolean mask over all nodes, or ``None`` for all nodes.
        num_nodes: Number of nodes.
        device: Where the graph is.
        what: What is numbered, if it is not nodes.

    Raises:
        InputError: If a number is out of range, or there is none.
    """
    if index is None:
        return torch.arange(num_nodes, device=device)
    try:
        nodes = torch.as_tensor(index, device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"index must hold {what} numbers: {error}") from error
    if nodes.dtype == torch.bool:
        if nodes.shape != (num_nodes,):
            raise InputError(f"a boolean index must have shape [{num_nodes}], one flag per {what}")
        nodes = nodes.nonzero()
    nodes = nodes.view(-1)
    if nodes.numel() == 0:
        raise InputError(f"index is empty: name at least one {what}")
    if nodes.is_floating_point() or nodes.is_complex():
        raise InputError(f"index must hold whole numbers, got {nodes.dtype}")
    if not 0 <= int(nodes.min()) <= int(nodes.max()) < num_nodes:
        bad = int(nodes[(nodes < 0) | (nodes >= num_nodes)][0])
        raise InputError(
            f"index {bad} is out of range: {what} numbers must lie in [0, {num_nodes})"
        )
    return nodes.long()


def link_index(index: Any, num_nodes: int, device: Any) -> Tensor:
    """Both ends ``[L, 2]`` of links, from what users pass as index: ``[2]`` or ``[2, L]``.

    Raises:
        InputError: If it is missing, of another shape, or names nodes that are not there.
    """
    links = None if index is None else torch.as_tensor(index, device=device)
    if links is None or links.dim() not in (1, 2) or links.shape[0] != 2 or links.numel() == 0:
        shape = None if links is None else tuple(links.shape)
        raise InputError(
            f"a model of links needs the two ends of each as index (or edge_label_index) of shape "
            f"[2, links], got {shape}"
        )
    return node_index(links.reshape(2, -1).T.reshape(-1), num_nodes, device).view(-1, 2)


def _among(values: Tensor, sorted_values: Tensor) -> tuple[Tensor, Tensor]:
    """Position of every value in a sorted row, and whether it is there at all."""
    position = torch.searchsorted(sorted_values, values).clamp(max=sorted_values.numel() - 1)
    return position, sorted_values[position] == values
