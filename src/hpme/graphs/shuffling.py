"""Graphs whose numbering tells nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from hpme.graphs.schema import NODE_TYPE
from hpme.graphs.store import MATCH_NODE, GraphStore


def shuffled(store: GraphStore, rng: np.random.Generator) -> GraphStore:
    """Renumbers the nodes of every graph at random and sorts its edges.

    Generators put motif nodes last and motif edges in a row; after this neither the number of a
    node nor the position of an edge says anything about it. Nodes of a type stay together.
    """
    graph, start = store.node_graph, store.node_start
    keys: tuple[np.ndarray, ...] = (rng.random(graph.numel()), graph.numpy())
    if store.schema is not None:
        keys = (keys[0], store.node[NODE_TYPE].numpy(), keys[1])
    order = torch.from_numpy(np.lexsort(keys))
    new_number = torch.empty_like(order)
    new_number[order] = torch.arange(order.numel()) - start[graph]
    edge_index = new_number[store.edge_index]
    widest = int(store.sizes.max()) if len(store) else 0
    row = (edge_index[0] + start[store.edge_graph]) * widest + edge_index[1]
    edge_order = torch.argsort(row, stable=True)
    match = dict(store.match)
    if MATCH_NODE in match:
        owner = torch.repeat_interleave(store.counts()["match"])
        match[MATCH_NODE] = new_number[match[MATCH_NODE] + start[owner]]
    anchors = store.anchors
    if anchors is not None:
        store = store.with_attributes(graph={"anchors": new_number[anchors + start.unsqueeze(1)]})
    return replace(
        store,
        match=match,
        local_edge_index=edge_index[:, edge_order],
        node={name: value[order] for name, value in store.node.items()},
        edge={name: value[edge_order] for name, value in store.edge.items()},
    )
