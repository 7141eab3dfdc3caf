"""Importance of nodes and of their features, from masks of edges and from the model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hpme.graphs import GraphBatch
from hpme.models.adapter import ModelAdapter


def edge_to_node(edge_mask: Tensor, graphs: GraphBatch) -> Tensor:
    """Importance ``[N, 1]`` of nodes: that of their most important edge."""
    ends = graphs.edge_index.flatten()
    nodes = edge_mask.new_zeros(graphs.num_nodes)
    return nodes.scatter_reduce(0, ends, edge_mask.repeat(2), "amax").unsqueeze(1)


@torch.no_grad()
def feature_importance(
    adapter: ModelAdapter, graphs: GraphBatch, nodes: Tensor, **model_kwargs: Any
) -> Tensor:
    """Importance ``[N, F]`` of every feature of every node.

    A feature counts as much as the output changes when it is set to zero at all nodes of the graph,
    relative to the feature that changes it most; and only at nodes that have it, as much as these
    count themselves. One forward pass per feature.

    Args:
        adapter: Calls the model.
        graphs: The graphs.
        nodes: Importance of nodes, ``[N, 1]``.
        **model_kwargs: Further arguments of the model.
    """
    output = adapter.predict(graphs, **model_kwargs)
    task = adapter.task(output)
    before = task.values(output)
    # Column 0 of one type has nothing to do with column 0 of another.
    kinds = [None] if graphs.schema is None else graphs.type_rows.nodes
    widths = [graphs.x.shape[1]] if graphs.schema is None else graphs.schema.widths
    change = nodes.new_zeros(len(widths), graphs.num_graphs, graphs.x.shape[1])
    for kind, (rows, width) in enumerate(zip(kinds, widths, strict=True)):
        for column in range(width):
            without = graphs.with_column(column, 0.0, rows)
            after = task.values(adapter.predict(without, **model_kwargs))
            change[kind, :, column] = (after - before).abs().sum(1).to(change)
    share = change / change.amax((0, 2), keepdim=True).clamp(min=torch.finfo(change.dtype).tiny)
    kind_of = torch.zeros_like(graphs.batch) if graphs.node_type is None else graphs.node_type
    return nodes * share[kind_of, graphs.batch] * (graphs.x != 0)
