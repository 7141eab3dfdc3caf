"""Enclosing subgraphs of links, their nodes labelled as SEAL does (DRNL) or by the ends alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import index_to_mask

from hpme.errors import InputError
from hpme.graphs.checks import check_edge_index, check_node_numbers
from hpme.graphs.edges import Adjacency
from hpme.graphs.ego import WholeGraph
from hpme.graphs.store import GraphStore

NUM_LABELS = 24
"""Columns of the one-hot labels; the last one stands for all higher labels, too."""
Labels = Literal["drnl", "ends"]


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
    exist and links that do not are treated alike; ``y`` says which it was, 1 or 0.

    Every graph has ``x``, the one-hot label of each node's place relative to the two ends (see
    :func:`drnl`); ``edge_index``; ``y``; ``anchors``, the positions of the first and the second
    end; and ``node_ids``, the nodes' numbers in ``data``. Labels of SEAL tell distances even where
    edges are masked; with ``labels="ends"`` structure is in the edges alone.

    Args:
        data: A graph with ``edge_index``.
        links: Pairs of nodes, or a tensor of shape ``[links, 2]``; repetition is allowed.
        num_hops: Radius of the neighbourhoods.
        num_labels: Columns of the one-hot labels of SEAL.
        use_x: Whether the nodes' own features follow the labels in ``x``.
        labels: ``"drnl"``, those of SEAL, or ``"ends"``: two columns, the second for the ends.
    """
    base = base_graph(data, use_x=use_x)
    pairs = _checked_links(links, len(base.x)).to(base.device)
    store = cut_out(base, pairs, num_hops=num_hops, num_labels=num_labels, labels=labels)
    return store.with_attributes(graph={"y": are_linked(base, pairs).long()}).to_data_list()


def base_graph(data: Data, *, use_x: bool) -> GraphStore:
    """The checked graph that links are part of, with features of width 0 if none are used."""
    edge_index, x = data.get("edge_index"), data.get("x")
    check_edge_index(edge_index)
    num_nodes = int(data.num_nodes or 0)
    check_node_numbers(edge_index, num_nodes)
    if not use_x:
        x = torch.empty(num_nodes, 0, device=edge_index.device)
    elif not isinstance(x, Tensor) or x.dim() != 2 or not x.is_floating_point():
        raise InputError("use_x=True needs features x: a floating-point [nodes, features]")
    sizes, edge_counts = edge_index.new_tensor([[num_nodes], [edge_index.shape[1]]])
    return GraphStore(sizes, edge_counts, edge_index, node={"x": x})


def pair_key(base: GraphStore, ends: Tensor) -> Tensor:
    """One number per pair of nodes ``[2, P]``, whatever their order."""
    return ends.min(0).values * len(base.x) + ends.max(0).values


def are_linked(base: GraphStore, links: Tensor) -> Tensor:
    """Whether each pair ``[L, 2]`` is an edge, in either direction."""
    return torch.isin(pair_key(base, links.T), pair_key(base, base.local_edge_index))


def cut_out(
    base: GraphStore,
    links: Tensor,
    *,
    num_hops: int,
    num_labels: int = NUM_LABELS,
    labels: Labels = "drnl",
) -> GraphStore:
    """Enclosing subgraphs of links ``[L, 2]`` with ``x``, ``node_ids`` and ``anchors``."""
    if labels not in get_args(Labels):
        raise InputError(f"labels must be one of {get_args(Labels)}, got {labels!r}")
    if num_labels < 2:
        raise InputError(f"num_labels must be at least 2, got {num_labels}")
    whole = WholeGraph(base, num_hops, either_way=True)
    store = whole.ego_graphs(links)
    anchors = store.graph["anchors"] + store.node_start.unsqueeze(1)
    end = index_to_mask(anchors.flatten(), len(store.x))
    edge_index, owner = store.edge_index, store.edge_graph
    kept = (edge_index[0] == edge_index[1]) | ~end[edge_index].all(0)

    label, width = end.long(), 2
    if labels == "drnl":
        label, width = drnl(edge_index[:, kept], len(store.x), anchors), num_labels
    x = F.one_hot(label.clamp(max=width - 1), width).float()
    return replace(
        store,
        edge_counts=torch.bincount(owner[kept], minlength=len(store)),
        local_edge_index=store.local_edge_index[:, kept],
        node={**store.node, "x": torch.cat([x, store.x.float()], dim=1)},
        edge={},
    )


def drnl(edge_index: Tensor, num_nodes: int, ends: Tensor) -> Tensor:
    r"""Double-radius node labels of enclosing subgraphs laid out as one disconnected graph.

    With :math:`d_u` the distance of a node to the first end while the second is taken out,
    :math:`d_v` the other way round, :math:`d = d_u + d_v` and integer division, the label is
    :math:`1 + \min(d_u, d_v) + (d / 2) (d / 2 + d \bmod 2 - 1)`. Both ``ends`` ``[L, 2]`` have
    label 1, nodes that do not reach both have 0. Edges, without the links, count in both
    directions.
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
