"""Ego graphs: what a node-level model sees of a large graph when it looks at single nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData

from hpme.errors import InputError
from hpme.graphs.edges import Adjacency
from hpme.graphs.schema import EDGE_TYPE, NODE_TYPE, Schema, TypeRows
from hpme.graphs.segment import among, exclusive_cumsum, segment_sum
from hpme.graphs.store import GraphStore

NUM_HOPS = 3
"""Radius of ego graphs: as many layers as most node-level models have."""
MAX_EDGES = 2**21
"""Edges looked at together; bounds the memory on large graphs."""
Both = tuple[Tensor, Tensor]
"""Of nodes and of edges."""


@dataclass(frozen=True)
class WholeGraph:
    r"""A graph of which ego graphs are cut out.

    The ego graph of a node has all nodes from which it is reached within ``num_hops`` edges, and
    all edges between them, both in the order of the whole graph, as PyG's ``k_hop_subgraph`` has
    them. It has their numbers as ``node_ids`` and ``edge_ids``, all other attributes of the whole
    graph, and as ``anchors`` its target node, or both ends of its link.

    Args:
        store: The graph, with labels of the nodes as ``node["y"]``, if any.
        num_hops: Radius of the ego graphs.
        either_way: Whether nodes are reached whatever the direction of edges.
        max_edges: Edges looked at together.
        num_neighbors: At most so many edges of every type that lead to a node are followed, for
            each hop; -1 for all; as PyG's ``NeighborLoader``, but the same in all ego graphs.
        seed: Decides which they are.
    """

    store: GraphStore
    num_hops: int = NUM_HOPS
    either_way: bool = False
    max_edges: int = field(default=MAX_EDGES, repr=False)
    num_neighbors: Sequence[int] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.num_neighbors is not None:
            if not self.num_neighbors or not all(
                type(most) is int and (most > 0 or most == -1) for most in self.num_neighbors
            ):
                raise InputError(
                    "num_neighbors must hold a whole number for each hop, at least 1 or -1 for "
                    f"all, got {self.num_neighbors}"
                )
            object.__setattr__(self, "num_hops", len(self.num_neighbors))
        if self.num_hops < 1:
            raise InputError(f"num_hops must be at least 1, got {self.num_hops}")

    @classmethod
    def of(cls, data: Data | HeteroData, *, everything: bool = False, **reach: Any) -> WholeGraph:
        """Reads a PyG graph, with ``everything`` also attributes that not every model reads.

        ``y`` is taken if it has one value per node; ``reach`` says how far ego graphs reach.
        """
        if not isinstance(data, Data | HeteroData):
            raise InputError(
                "index numbers the nodes of one graph: pass a Data or HeteroData, not "
                f"{type(data).__name__}"
            )
        store = GraphStore.from_graphs([data], attributes="fitting")
        y, store = store.y, store.detached(everything=everything)
        node, graph = ({name: v for name, v in group.items() if name not in ("y", "anchors")}
                       for group in (store.node, store.graph))  # fmt: skip
        if y is not None and y.shape == store.x.shape[:1]:
            node["y"] = y
        return cls(replace(store, node=node, graph=graph, text={}), **reach)

    @property
    def x(self) -> Tensor:
        """Node features :math:`[N, F]`."""
        return self.store.x

    @property
    def edge_index(self) -> Tensor:
        """Directed edges :math:`[2, E]`."""
        return self.store.local_edge_index

    @property
    def schema(self) -> Schema | None:
        """Types of nodes and edges, if there are any."""
        return self.store.schema

    @property
    def type_rows(self) -> TypeRows:
        """Where the rows of every type are."""
        assert self.schema is not None
        return TypeRows.of(self.schema, self.store.node[NODE_TYPE], self.store.edge[EDGE_TYPE])

    def numbered(self, store: GraphStore) -> GraphStore:
        """Ego graphs whose ``node_ids`` and ``edge_ids`` number the rows of each type, if any."""
        if self.schema is None:
            return store
        rows, edge = self.type_rows, dict(store.edge)
        node = {"node_ids": rows.place[store.node["node_ids"]]}
        if "edge_ids" in edge:
            edge["edge_ids"] = rows.edge_place[edge["edge_ids"]]
        return store.with_attributes(node=node, edge=edge)

    def numbers(self, node_type: str | None) -> Tensor:
        """Numbers of the nodes of a type, in their order; of all nodes if there are no types."""
        if self.schema is None:
            return torch.arange(len(self.x), device=self.x.device)
        return (self.store.node[NODE_TYPE] == self.schema.number(node_type)).nonzero().view(-1)

    @cached_property
    def _inward(self) -> Adjacency:
        """The edges that any hop follows, by the node they lead to."""
        most = self.num_neighbors or [-1]
        kept = None if -1 in most else self._place < max(most)
        return Adjacency.of(self.edge_index.flip(0), len(self.x), kept)

    @cached_property
    def _place(self) -> Tensor:
        """Place of every edge, in random order, among those of its type into the same node."""
        into = self.edge_index[1]
        if self.schema is not None:
            into = into * len(self.schema.edge_types) + self.store.edge[EDGE_TYPE]
        generator = torch.Generator().manual_seed(self.seed)
        order = torch.randperm(len(into), generator=generator).to(into.device)
        order = order[into[order].argsort(stable=True)]
        into = into[order]
        place = torch.arange(len(into), device=into.device) - torch.searchsorted(into, into)
        return torch.empty_like(place).index_copy_(0, order, place)

    @cached_property
    def _around(self) -> Adjacency:
        """The edges along which nodes are reached."""
        if not self.either_way:
            return self._inward
        return Adjacency.of(torch.cat([self.edge_index, self.edge_index.flip(0)], 1), len(self.x))

    @cached_property
    def _reach(self) -> Tensor:
        """Upper bound of the edges that are looked at for the ego graph of every node."""
        adjacency = self._around
        owner = torch.repeat_interleave(adjacency.degree)
        bound = adjacency.degree
        for _ in range(self.num_hops):
            bound = adjacency.degree + segment_sum(bound[adjacency.target], owner, len(self.x))
            bound = bound.clamp(max=max(1, len(owner)))
        return bound + 1

    def parts(self, nodes: Tensor, batch_size: int) -> Iterator[GraphStore]:
        """Ego graphs of consecutive nodes, or of links :math:`[L, 2]`; repetition is allowed.

        They are few enough at a time for any memory, and at most ``batch_size``.
        """
        reach = self._reach[nodes].view(len(nodes), -1).sum(1)
        few = exclusive_cumsum(reach) // self.max_edges
        many = torch.arange(len(nodes), device=nodes.device) // batch_size
        group = torch.unique_consecutive(torch.stack([few, many]), dim=1, return_counts=True)
        for part in nodes.split(group[1].tolist()):  # type: ignore[no-untyped-call]
            yield self._cut_out(part)

    def ego_graphs(self, nodes: Tensor) -> GraphStore:
        """Ego graphs of any number of nodes, or of links :math:`[L, 2]`, in their order."""
        first, *others = self.parts(nodes, max(1, len(nodes)))
        return first.joined(*others)

    def copies(self, count: int, roots: Tensor | None) -> GraphStore:
        """The graph several times over, as ego graphs of any radius of ``roots`` would be."""
        node_ids, edge_ids = (torch.arange(n, device=self.x.device).repeat(count)
                              for n in (len(self.x), self.edge_index.shape[1]))  # fmt: skip
        counts = self.store.sizes.repeat(count), self.store.edge_counts.repeat(count)
        about = {} if roots is None else {"anchors": roots.view(count, -1)}
        return self._made((node_ids, edge_ids), counts, self.edge_index.repeat(1, count), about)

    def _cut_out(self, nodes: Tensor) -> GraphStore:
        # A node of an ego graph is a number: that of its graph times num_nodes, plus its own.
        num_nodes, device = len(self.x), nodes.device
        own = torch.arange(len(nodes), device=device).unsqueeze(1) * num_nodes
        roots = own + nodes.view(len(nodes), -1)
        reached = frontier = torch.unique(roots)
        followed: list[tuple[Tensor, Tensor]] = []
        for most in self.num_neighbors or [-1] * self.num_hops:
            rows, owner = self._around.rows(frontier % num_nodes)
            if most >= 0:
                few = self._place[self._around.edge[rows]] < most
                rows, owner = rows[few], owner[few]
            followed.append((rows, frontier[owner]))
            found = torch.unique(
                frontier[owner] // num_nodes * num_nodes + self._around.target[rows]
            )
            frontier = found[~among(found, reached)[1]]
            reached = torch.cat([reached, frontier]).sort().values
        graph, node_ids = reached // num_nodes, reached % num_nodes
        sizes = torch.bincount(graph, minlength=len(nodes))
        start = exclusive_cumsum(sizes)

        if self.num_neighbors is None:
            rows, target = self._inward.rows(node_ids)
        else:  # of each node those of the hop that found it
            rows, target = (torch.cat(part) for part in zip(*followed, strict=True))
            target = torch.searchsorted(reached, target)
        source = graph[target] * num_nodes + self._inward.target[rows]
        source, inside = among(source, reached)
        source, target, rows = source[inside], target[inside], rows[inside]
        edge_ids, edge_graph = self._inward.edge[rows], graph[target]
        order = torch.argsort(edge_graph * max(1, self.edge_index.shape[1]) + edge_ids)
        edge_ids, edge_graph = edge_ids[order], edge_graph[order]
        edge_index = torch.stack([source[order], target[order]]) - start[edge_graph]
        about = {"anchors": torch.searchsorted(reached, roots) - start.unsqueeze(1)}
        if "y" in self.store.node and nodes.dim() == 1:
            about["y"] = self.store.node["y"][nodes]
        counts = sizes, torch.bincount(edge_graph, minlength=len(nodes))
        return self._made((node_ids, edge_ids), counts, edge_index, about)

    def _made(
        self, ids: Both, counts: Both, edge_index: Tensor, about: dict[str, Tensor]
    ) -> GraphStore:
        """Graphs of nodes and edges of this one, with their attributes."""
        (node_ids, edge_ids), whole, total = ids, self.store, len(counts[0])
        node = {name: value[node_ids] for name, value in whole.node.items() if name != "y"}
        edge = {name: value[edge_ids] for name, value in whole.edge.items()}
        graph = {name: v.expand(total, *v.shape[1:]) for name, v in whole.graph.items()}
        node, edge = {**node, "node_ids": node_ids}, {**edge, "edge_ids": edge_ids}
        return GraphStore(*counts, edge_index, node, edge, {**graph, **about}, schema=self.schema)


def node_index(
    index: int | Sequence[int] | Tensor | None, num_nodes: int, device: Any, what: str = "node"
) -> Tensor:
    """Node numbers, from one, several, a boolean mask over all nodes, or ``None`` for all."""
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
    """Both ends ``[L, 2]`` of links, from what users pass as index: ``[2]`` or ``[2, L]``."""
    links = None if index is None else torch.as_tensor(index, device=device)
    if links is None or links.dim() not in (1, 2) or links.shape[0] != 2 or links.numel() == 0:
        shape = None if links is None else tuple(links.shape)
        raise InputError(
            f"a model of links needs the two ends of each as index (or edge_label_index) of shape "
            f"[2, links], got {shape}"
        )
    return node_index(links.reshape(2, -1).T.reshape(-1), num_nodes, device).view(-1, 2)
