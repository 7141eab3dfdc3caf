"""Enclosing subgraphs of links, their nodes labelled as SEAL does (DRNL) or by the ends alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from hpme.errors import InputError
from hpme.graphs.checks import check_edge_index, check_node_numbers
from hpme.graphs.edges import Adjacency
from hpme.graphs.store import GraphStore

NUM_LABELS = 24
"""Columns of the one-hot labels; the last one stands for all higher labels, too."""
Labels = Literal["drnl", "ends"]
CHUNK = 512
"""Links whose subgraphs are cut out at the same time; bounds the memory."""


def enclosing_subgraph(
    data: Data,
    links: Iterable[tuple[int, int]] | Tensor,
    *,
    num_hops: int = 1,
    num_labels: int = NUM_LABELS,
    use_x: bool = False,
    labels: Labels = "drnl",
) -> list[Data]:
    """The enclosing subgraph of every link: what SEAL looks at to tell whether the link exists.

    It has the two ends and all nodes within ``num_hops`` of either, whatever the direction of
    edges, and the edges between them, but never the link itself, in neither direction. Links that
    exist and links that do not are treated alike; ``y`` says which it was, 1 or 0. An end without
    other edges is a node without edges.

    Every graph has ``x``, the one-hot label of each node's place relative to the two ends (see
    :func:`drnl`); ``edge_index``; ``y``; ``anchors``, the positions of the first and the second
    end; and ``node_ids``, the nodes' numbers in ``data``. Labels are features: masking edges
    leaves them as they are. Those of SEAL tell distances, and so stand in for edges that are gone;
    with ``labels="ends"`` only the two ends are marked, and structure is in the edges alone.

    Args:
        data: A graph with ``edge_index``.
        links: Pairs of nodes, or a tensor of shape ``[links, 2]``; repetition is allowed.
        num_hops: Radius of the neighbourhoods.
        num_labels: Columns of the one-hot labels of SEAL.
        use_x: Whether the nodes' own features follow the labels in ``x``.
        labels: ``"drnl"``, those of SEAL, or ``"ends"``: two columns, the second for the ends.

    Raises:
        InputError: If a link has an end that is no node, or joins a node to itself.
    """
    base = BaseGraph.of(data, use_x=use_x)
    pairs = _checked_links(links, base.num_nodes).to(base.edge_index.device)
    store = cut_out(base, pairs, num_hops=num_hops, num_labels=num_labels, labels=labels)
    return store.with_attributes(graph={"y": base.has(pairs).long()}).to_data_list()


@dataclass(frozen=True)
class BaseGraph:
    """The graph links are part of.

    Args:
        edge_index: Directed edges.
        num_nodes: Number of nodes.
        x: Node features, if they are to be used.
    """

    edge_index: Tensor
    num_nodes: int
    x: Tensor | None = None

    @classmethod
    def of(cls, data: Data, *, use_x: bool) -> BaseGraph:
        """Reads and checks a PyG graph."""
        edge_index, x = data.get("edge_index"), data.get("x")
        check_edge_index(edge_index)
        num_nodes = int(data.num_nodes or 0)
        check_node_numbers(edge_index, num_nodes)
        if use_x and (not isinstance(x, Tensor) or x.dim() != 2 or not x.is_floating_point()):
            raise InputError("use_x=True needs features x: a floating-point [nodes, features]")
        return cls(edge_index, num_nodes, x if use_x else None)

    def links(self) -> Tensor:
        """Every linked pair of different nodes once, ``[L, 2]``."""
        proper = self.edge_index[:, self.edge_index[0] != self.edge_index[1]]
        key = torch.unique(self.key(*proper))
        return torch.stack([key // self.num_nodes, key % self.num_nodes], dim=1)

    def without(self, links: Tensor) -> BaseGraph:
        """The graph without some links, in both directions."""
        gone = torch.isin(self.key(*self.edge_index), self.key(*links.T))
        return replace(self, edge_index=self.edge_index[:, ~gone])

    def key(self, source: Tensor, target: Tensor) -> Tensor:
        """One number per pair of nodes, whatever their order."""
        return torch.minimum(source, target) * self.num_nodes + torch.maximum(source, target)

    def has(self, links: Tensor) -> Tensor:
        """Whether each pair ``[L, 2]`` is joined, in either direction."""
        return torch.isin(self.key(*links.T), self.key(*self.edge_index))


def cut_out(
    base: BaseGraph,
    links: Tensor,
    *,
    num_hops: int,
    num_labels: int = NUM_LABELS,
    labels: Labels = "drnl",
) -> GraphStore:
    """Enclosing subgraphs of links ``[L, 2]`` with ``x``, ``node_ids`` and ``anchors``.

    Raises:
        InputError: If ``num_hops`` or ``num_labels`` is too small, or ``labels`` unknown.
    """
    if labels not in get_args(Labels):
        raise InputError(f"labels must be one of {get_args(Labels)}, got {labels!r}")
    if num_hops < 1 or num_labels < 2:
        raise InputError(
            f"num_hops must be at least 1 and num_labels at least 2, got {num_hops}, {num_labels}"
        )
    either_way = torch.cat([base.edge_index, base.edge_index.flip(0)], dim=1)
    reach = Adjacency.of(either_way, base.num_nodes)
    edges = Adjacency.of(base.edge_index, base.num_nodes)
    parts = [
        _cut_out(base, part, reach, edges, num_hops, num_labels if labels == "drnl" else None)
        for part in links.split(CHUNK)  # type: ignore[no-untyped-call]
    ]
    return parts[0].joined(*parts[1:])


def _cut_out(
    base: BaseGraph,
    links: Tensor,
    reach: Adjacency,
    edges: Adjacency,
    num_hops: int,
    num_labels: int | None,
) -> GraphStore:
    # A node of a subgraph is a number: that of its link times num_nodes, plus its own.
    first = torch.arange(len(links), device=links.device) * base.num_nodes
    ends = first.unsqueeze(1) + links
    nodes = frontier = torch.unique(ends)
    for _ in range(num_hops):
        neighbour, owner = reach.neighbours(frontier % base.num_nodes)
        found = frontier[owner] // base.num_nodes * base.num_nodes + neighbour
        frontier = torch.unique(found[~torch.isin(found, nodes)])
        nodes = torch.cat([nodes, frontier])
    nodes = nodes.sort().values
    link, number = nodes // base.num_nodes, nodes % base.num_nodes
    sizes = torch.bincount(link, minlength=len(links))
    start = sizes.cumsum(0) - sizes
    anchors = torch.searchsorted(nodes, ends)

    target, source = edges.neighbours(number)
    target = first[link[source]] + target
    position = torch.searchsorted(nodes, target).clamp(max=nodes.numel() - 1)
    inside = nodes[position] == target
    edge_index = torch.stack([source[inside], position[inside]])
    end = torch.zeros_like(nodes, dtype=torch.bool).index_fill(0, anchors.flatten(), True)
    loop = edge_index[0] == edge_index[1]
    edge_index = edge_index[:, loop | ~end[edge_index].all(0)]

    if num_labels is None:
        x = F.one_hot(end.long(), 2).float()
    else:
        label = drnl(edge_index, nodes.numel(), anchors).clamp(max=num_labels - 1)
        x = F.one_hot(label, num_labels).float()
    if base.x is not None:
        x = torch.cat([x, base.x[number].float()], dim=1)
    owner = link[edge_index[0]]
    return GraphStore(
        sizes=sizes,
        edge_counts=torch.bincount(owner, minlength=len(links)),
        local_edge_index=edge_index - start[owner],
        node={"x": x, "node_ids": number},
        graph={"anchors": anchors - start.unsqueeze(1)},
    )


def drnl(edge_index: Tensor, num_nodes: int, ends: Tensor) -> Tensor:
    r"""Double-radius node labels of enclosing subgraphs laid out as one disconnected graph.

    With :math:`d_u` the distance of a node to the first end while the second is taken out,
    :math:`d_v` the other way round, :math:`d = d_u + d_v` and integer division, the label is
    :math:`1 + \min(d_u, d_v) + (d / 2) (d / 2 + d \bmod 2 - 1)`. Both ends have label 1, nodes
    that do not reach both ends have 0. Edges count in both directions.

    Args:
        edge_index: Edges :math:`[2, E]`, without the links themselves.
        num_nodes: Number of nodes.
        ends: The two ends :math:`[L, 2]` of every subgraph's link.
    """
    reach = Adjacency.of(torch.cat([edge_index, edge_index.flip(0)], dim=1), num_nodes)
    first = reach.distances(ends[:, 0], without=ends[:, 1])
    second = reach.distances(ends[:, 1], without=ends[:, 0])
    total = first + second
    half, odd = total // 2, total % 2
    label = 1 + torch.minimum(first, second) + half * (half + odd - 1)
    label = torch.where((first < 0) | (second < 0), 0, label)
    return label.index_fill(0, ends.flatten(), 1)


def _checked_links(links: Any, num_nodes: int) -> Tensor:
    try:
        pairs = torch.as_tensor(links if isinstance(links, Tensor) else list(links))
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"links must be pairs of node numbers: {error}") from error
    if pairs.dim() != 2 or pairs.shape[1] != 2 or len(pairs) == 0:
        raise InputError(
            f"links must be at least one pair of node numbers, shape [links, 2], got shape "
            f"{tuple(pairs.shape)}; transpose an edge_index first"
        )
    if pairs.is_floating_point() or pairs.is_complex() or pairs.dtype == torch.bool:
        raise InputError(f"links must be whole numbers, got {pairs.dtype}")
    for bad, problem in (
        ((pairs < 0) | (pairs >= num_nodes), f"node numbers must lie in [0, {num_nodes})"),
        ((pairs[:, :1] == pairs[:, 1:]), "a link joins two different nodes"),
    ):
        rows = bad.any(1).nonzero().view(-1)
        if rows.numel():
            row = int(rows[0])
            raise InputError(f"link {row} is {tuple(pairs[row].tolist())}: {problem}")
    return pairs.long()
