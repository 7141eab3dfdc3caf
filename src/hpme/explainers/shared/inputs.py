"""What users pass to explainers, checked and brought into one form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.data.data import BaseData

from hpme.data.info import Level
from hpme.errors import InputError
from hpme.graphs import GraphBatch
from hpme.graphs.checks import check_graph_tensors, check_node_numbers


def checked_batch(
    x: Tensor,
    edge_index: Tensor,
    batch: Tensor | None,
    edge_attr: Tensor | None,
    edge_weight: Tensor | None,
    anchors: Tensor | None,
    **types: Any,
) -> GraphBatch:
    """Tensors of one or several graphs as a batch, if they fit together.

    Raises:
        InputError: If they do not; the message says what is wrong.
    """
    check_graph_tensors(x, edge_index, edge_attr, edge_weight)
    if batch is None:
        batch = torch.zeros(x.shape[0], dtype=torch.long, device=x.device)
    if batch.shape != x.shape[:1] or batch.dtype != torch.long:
        raise InputError(f"batch must be torch.long of shape [{x.shape[0]}], got {batch.dtype} "
                         f"{tuple(batch.shape)}")  # fmt: skip
    if batch.numel() and (int(batch.min()) < 0 or bool((batch.diff() < 0).any())):
        raise InputError(
            "batch must be sorted and start at 0 or above; use PyG's Batch to build it"
        )
    check_node_numbers(edge_index, len(x))
    if bool((batch[edge_index[0]] != batch[edge_index[1]]).any()):
        raise InputError("an edge joins two different graphs of the batch; check batch")
    num_graphs = int(batch[-1]) + 1 if batch.numel() else 0
    if anchors is not None:
        anchors = _checked_anchors(anchors, batch, num_graphs)
    return as_seen(
        GraphBatch(
            x,
            edge_index,
            batch,
            num_graphs,
            edge_attr=edge_attr,
            edge_weight=edge_weight,
            anchors=anchors,
            **types,
        )
    )


def _checked_anchors(anchors: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
    fits = anchors.dtype == torch.long and anchors.numel() in (num_graphs, 2 * num_graphs)
    if fits and num_graphs:
        rows = anchors.view(num_graphs, -1)
        own = torch.arange(num_graphs, device=batch.device).unsqueeze(1)
        inside = 0 <= int(rows.min()) <= int(rows.max()) < batch.numel()
        if inside and bool((batch[rows] == own).all()):
            return rows
    raise InputError(
        "anchors must be a LongTensor with one or two node numbers per graph, of nodes of that "
        "graph, numbered over the whole batch"
    )


def as_seen(graphs: GraphBatch) -> GraphBatch:
    """The graphs without the history of the user's tensors, and without empty ones at the end.

    A batch vector does not show these, so a model returns no row for them.
    """
    last = int(graphs.batch[-1]) + 1 if graphs.num_nodes else 0
    seen = {name: value[:last] for name, value in graphs.graph.items()}
    return replace(graphs.detached(), num_graphs=last, graph=seen)


def natural_level(anchors: Tensor | None) -> Level:
    """Graphs about one node belong to a node-level model, unless something says otherwise."""
    return "node" if anchors is not None and anchors.shape[1] == 1 else "graph"


def is_whole(graphs: Any) -> bool:
    """Whether this is one graph, not a collection of ego graphs."""
    if isinstance(graphs, Batch) or not isinstance(graphs, BaseData):
        return False
    return not any("anchors" in store for store in graphs.stores)
