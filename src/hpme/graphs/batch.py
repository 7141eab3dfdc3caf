"""Graphs as flat tensors: any collection of PyG graphs in, mini-batches by graph number out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, InMemoryDataset

from hpme.errors import InputError
from hpme.graphs.segment import concatenated_ranges, exclusive_cumsum

Graphs = Iterable[Any]
"""What :func:`GraphStore.from_graphs` accepts: a dataset, a list of ``Data``, or a loader."""


@dataclass(frozen=True)
class Pairs:
    r"""Every connected pair of nodes once, whatever the directions between them.

    Args:
        index: :math:`[2, P]` with the smaller node first; a self-loop is a pair of one node.
        graph: Graph number of every pair.
        forward: Position of the edge from the first to the second node, -1 if there is none.
        backward: Position of the edge from the second to the first node, -1 if there is none.
    """

    index: Tensor
    graph: Tensor
    forward: Tensor
    backward: Tensor


@dataclass(frozen=True)
class GraphBatch:
    r"""Several graphs laid out as one disconnected graph.

    Args:
        x: Node features :math:`[N, F]`.
        edge_index: Directed edges :math:`[2, E]`, grouped by graph.
        batch: Graph number of every node, non-decreasing.
        num_graphs: Number of graphs, empty ones included.
        edge_attr: Edge features :math:`[E, D]`, if the graphs have them.
        edge_weight: The graphs' own edge weights :math:`[E]`, if they have them.
        node_ids: Rows of the store the nodes were taken from, if they were.
        pairs: The connected pairs of nodes, if asked for.
        anchors: Nodes every graph is about :math:`[G, c]`, if the graphs have them: the target
            node of an ego graph (:math:`c = 1`), the two ends of a link (:math:`c = 2`).
    """

    x: Tensor
    edge_index: Tensor
    batch: Tensor
    num_graphs: int
    edge_attr: Tensor | None = None
    edge_weight: Tensor | None = None
    node_ids: Tensor | None = None
    pairs: Pairs | None = None
    anchors: Tensor | None = None

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all graphs together."""
        return int(self.x.shape[0])

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


@dataclass(frozen=True)
class GraphStore:
    """All graphs of a collection as flat tensors.

    Edges and anchors number nodes from each graph's first.
    """

    x: Tensor
    local_edge_index: Tensor
    sizes: Tensor
    edge_counts: Tensor
    edge_attr: Tensor | None = None
    edge_weight: Tensor | None = None
    y: Tensor | None = None
    anchors: Tensor | None = None

    def __len__(self) -> int:
        return int(self.sizes.numel())

    @classmethod
    def from_graphs(cls, graphs: Graphs) -> GraphStore:
        """Reads a dataset, a list of ``Data`` or a loader once, and checks it.

        Raises:
            InputError: If there is nothing to read, or features or edges are unusable.
        """
        if isinstance(graphs, GraphStore):
            return graphs
        if isinstance(graphs, Data):
            graphs = graphs.to_data_list() if isinstance(graphs, Batch) else [graphs]
        store = _from_in_memory(graphs) if isinstance(graphs, InMemoryDataset) else None
        if store is None:
            store = _from_list(_flatten(graphs))
        store.check()
        return store

    @cached_property
    def node_start(self) -> Tensor:
        """Position of every graph's first node."""
        return exclusive_cumsum(self.sizes)

    @cached_property
    def edge_start(self) -> Tensor:
        """Position of every graph's first edge."""
        return exclusive_cumsum(self.edge_counts)

    @cached_property
    def pairs(self) -> Pairs:
        """Connected pairs of all graphs; nodes are numbered from each graph's first."""
        graph = torch.repeat_interleave(self.edge_counts)
        low, high = self.local_edge_index.min(0).values, self.local_edge_index.max(0).values
        stride = int(self.sizes.max())
        key, pair = torch.unique((graph * stride + low) * stride + high, return_inverse=True)
        missing = torch.full_like(key, -1)
        edge = torch.arange(pair.numel(), device=pair.device)
        is_forward = self.local_edge_index[0] == low
        index = torch.stack([key // stride % stride, key % stride])
        return Pairs(
            index=index,
            graph=key // stride**2,
            forward=missing.index_put((pair[is_forward],), edge[is_forward]),
            backward=missing.index_put((pair[~is_forward],), edge[~is_forward]),
        )

    @cached_property
    def undirected(self) -> bool:
        """Whether every edge but self-loops has its reverse."""
        loop = self.pairs.index[0] == self.pairs.index[1]
        both = (self.pairs.forward >= 0) & (self.pairs.backward >= 0)
        return bool((both | loop).all())

    def batch(self, ids: Tensor | None = None, *, with_pairs: bool = False) -> GraphBatch:
        """The graphs with the given numbers (repetition allowed), or all of them, as one batch."""
        if ids is None:
            ids = torch.arange(len(self), device=self.sizes.device)
        sizes, edge_counts = self.sizes[ids], self.edge_counts[ids]
        nodes, node_graph = concatenated_ranges(self.node_start[ids], sizes)
        edges, edge_graph = concatenated_ranges(self.edge_start[ids], edge_counts)
        offset = exclusive_cumsum(sizes)
        return GraphBatch(
            x=self.x.index_select(0, nodes),
            edge_index=self.local_edge_index.index_select(1, edges) + offset[edge_graph],
            batch=node_graph,
            num_graphs=ids.numel(),
            edge_attr=None if self.edge_attr is None else self.edge_attr[edges],
            edge_weight=None if self.edge_weight is None else self.edge_weight[edges],
            node_ids=nodes,
            pairs=self._pairs_of(ids, offset) if with_pairs else None,
            anchors=None if self.anchors is None else self.anchors[ids] + offset.unsqueeze(1),
        )

    @cached_property
    def _pair_counts(self) -> Tensor:
        return torch.bincount(self.pairs.graph, minlength=len(self))

    @cached_property
    def _pair_start(self) -> Tensor:
        return exclusive_cumsum(self._pair_counts)

    def _pairs_of(self, ids: Tensor, offset: Tensor) -> Pairs:
        chosen, graph = concatenated_ranges(self._pair_start[ids], self._pair_counts[ids])
        shift = (exclusive_cumsum(self.edge_counts[ids]) - self.edge_start[ids])[graph]
        forward, backward = self.pairs.forward[chosen], self.pairs.backward[chosen]
        return Pairs(
            index=self.pairs.index[:, chosen] + offset[graph],
            graph=graph,
            forward=torch.where(forward < 0, forward, forward + shift),
            backward=torch.where(backward < 0, backward, backward + shift),
        )

    def subset(self, ids: Tensor) -> GraphStore:
        """A store of the graphs with the given numbers."""
        nodes, _ = concatenated_ranges(self.node_start[ids], self.sizes[ids])
        edges, _ = concatenated_ranges(self.edge_start[ids], self.edge_counts[ids])
        return GraphStore(
            x=self.x[nodes],
            local_edge_index=self.local_edge_index[:, edges],
            sizes=self.sizes[ids],
            edge_counts=self.edge_counts[ids],
            edge_attr=None if self.edge_attr is None else self.edge_attr[edges],
            edge_weight=None if self.edge_weight is None else self.edge_weight[edges],
            y=None if self.y is None else self.y[ids],
            anchors=None if self.anchors is None else self.anchors[ids],
        )

    def joined(self, other: GraphStore) -> GraphStore:
        """The graphs of this store followed by those of another; labels are left out."""

        def both(ours: Tensor | None, theirs: Tensor | None) -> Tensor | None:
            return None if ours is None or theirs is None else torch.cat([ours, theirs.to(ours)])

        return GraphStore(
            x=torch.cat([self.x, other.x.to(self.x)]),
            local_edge_index=torch.cat([self.local_edge_index, other.local_edge_index], dim=1),
            sizes=torch.cat([self.sizes, other.sizes]),
            edge_counts=torch.cat([self.edge_counts, other.edge_counts]),
            edge_attr=both(self.edge_attr, other.edge_attr),
            edge_weight=both(self.edge_weight, other.edge_weight),
            anchors=both(self.anchors, other.anchors),
        )

    def check(self) -> None:
        """Raises :class:`InputError` naming the first unusable graph."""
        if len(self) == 0:
            raise InputError("no graphs: the dataset, list or loader is empty")
        check_graph_tensors(self.x, self.local_edge_index, self.edge_attr)
        limit = torch.repeat_interleave(self.sizes, self.edge_counts)
        bad = ((self.local_edge_index < 0) | (self.local_edge_index >= limit)).any(0)
        if bool(bad.any()):
            graph = int(torch.repeat_interleave(self.edge_counts)[bad][0])
            raise InputError(
                f"edge_index out of range in graph {graph}: node numbers must lie in "
                f"[0, {int(self.sizes[graph])}); check how the graph was built"
            )
        if self.anchors is not None:
            bad = ((self.anchors < 0) | (self.anchors >= self.sizes.unsqueeze(1))).any(1)
            if bool(bad.any()):
                graph = int(bad.nonzero()[0])
                raise InputError(
                    f"anchors out of range in graph {graph}: they number its own nodes, "
                    f"[0, {int(self.sizes[graph])})"
                )


def check_graph_tensors(x: Any, edge_index: Any, edge_attr: Any = None) -> None:
    """Checks dtype, shape and finiteness of one graph's (or a whole collection's) tensors."""
    if not isinstance(x, Tensor) or x.dim() != 2:
        shape = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise InputError(f"x must be a tensor of shape [nodes, features], got {shape}")
    if not x.is_floating_point():
        raise InputError(f"x must be floating point, got {x.dtype}; convert it with x.float()")
    if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.shape[0] != 2:
        shape = (
            tuple(edge_index.shape) if isinstance(edge_index, Tensor) else type(edge_index).__name__
        )
        raise InputError(f"edge_index must be a tensor of shape [2, edges], got {shape}")
    if edge_index.dtype != torch.long:
        raise InputError(
            f"edge_index must be torch.long, got {edge_index.dtype}; convert it with "
            "edge_index.long()"
        )
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


def _flatten(graphs: Graphs) -> list[Data]:
    flat: list[Data] = []
    for item in graphs:
        flat.extend(item.to_data_list() if isinstance(item, Batch) else [item])
    return flat


def _from_list(graphs: Sequence[Data]) -> GraphStore:
    if not graphs:
        raise InputError("no graphs: the dataset, list or loader is empty")
    for number, graph in enumerate(graphs):
        x, edge_index = getattr(graph, "x", None), getattr(graph, "edge_index", None)
        if x is None or edge_index is None:
            raise InputError(f"graph {number} has no x or no edge_index; both are needed")
    labels = [getattr(graph, "y", None) for graph in graphs]
    try:
        return GraphStore(
            x=torch.cat([graph.x for graph in graphs]),
            local_edge_index=torch.cat([graph.edge_index for graph in graphs], dim=1),
            sizes=torch.tensor([graph.x.shape[0] for graph in graphs]),
            edge_counts=torch.tensor([graph.edge_index.shape[1] for graph in graphs]),
            edge_attr=_stack_edges(graphs, "edge_attr"),
            edge_weight=_stack_edges(graphs, "edge_weight"),
            y=_stack_labels(labels),
            anchors=_stack_anchors(graphs),
        )
    except (RuntimeError, TypeError, AttributeError, IndexError) as error:
        raise InputError(f"the graphs cannot be put into one batch: {error}") from error


def _all_or_none(graphs: Sequence[Data], name: str) -> list[Tensor] | None:
    values = [getattr(graph, name, None) for graph in graphs]
    missing = [value is None for value in values]
    if all(missing):
        return None
    if any(missing):
        raise InputError(f"graph {missing.index(True)} has no {name} while others have")
    return [value for value in values if value is not None]


def _stack_edges(graphs: Sequence[Data], name: str) -> Tensor | None:
    values = _all_or_none(graphs, name)
    return None if values is None else torch.cat(values)


def _stack_anchors(graphs: Sequence[Data]) -> Tensor | None:
    values = _all_or_none(graphs, "anchors")
    if values is None:
        return None
    for number, value in enumerate(values):
        if not isinstance(value, Tensor) or value.dtype != torch.long:
            raise InputError(f"anchors of graph {number} must be a LongTensor of node numbers")
        if value.numel() not in (1, 2) or value.numel() != values[0].numel():
            raise InputError(
                f"graph {number} has {value.numel()} anchors, graph 0 has {values[0].numel()}; "
                "all graphs need one (a target node) or all two (the ends of a link)"
            )
    return torch.stack([value.flatten() for value in values])


def _stack_labels(labels: list[Any]) -> Tensor | None:
    if not all(isinstance(label, Tensor) and label.numel() == 1 for label in labels):
        return None
    return torch.cat([label.view(1) for label in labels])


def _from_in_memory(dataset: InMemoryDataset) -> GraphStore | None:
    """Fast path: an in-memory dataset already holds flat tensors. ``None`` if it does not apply."""
    data, slices = dataset._data, dataset.slices
    if dataset.transform is not None or slices is None or data is None:
        return None
    if not all(key in slices for key in ("x", "edge_index")):
        return None
    y = data.get("y")
    y_slices = slices.get("y")
    scalar_y = y is not None and y_slices is not None and bool((y_slices.diff() == 1).all())
    anchors = data.get("anchors")
    if anchors is not None:
        width = slices["anchors"].diff()
        if not bool((width == width[0]).all()):
            return None  # the error that names the graph is raised graph by graph
        anchors = anchors.view(width.numel(), -1)
    store = GraphStore(
        x=data.x,
        local_edge_index=data.edge_index,
        sizes=slices["x"].diff(),
        edge_counts=slices["edge_index"].diff(),
        edge_attr=data.get("edge_attr"),
        edge_weight=data.get("edge_weight"),
        y=y.view(-1) if scalar_y else None,
        anchors=anchors,
    )
    if dataset._indices is None:
        return store
    return store.subset(torch.as_tensor(list(dataset._indices), dtype=torch.long))
