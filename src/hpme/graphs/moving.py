"""Collections of graphs on the CPU, wherever they came from: for numbers and pictures."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from hpme.graphs.batch import GraphBatch
from hpme.graphs.store import LEVELS, GraphStore

CPU = torch.device("cpu")


def on_cpu(graphs: Any) -> Any:
    """The same graphs on the CPU; what is there already is not copied."""
    if isinstance(graphs, GraphBatch):
        return graphs.to(CPU)
    if isinstance(graphs, GraphStore):
        return _store_on_cpu(graphs)
    if isinstance(graphs, Data):
        return _graph_on_cpu(graphs)
    if isinstance(graphs, list | tuple):
        return [_graph_on_cpu(graph) for graph in graphs]
    return graphs


def masks_on_cpu(masks: Iterable[Tensor]) -> list[Tensor]:
    """The same tensors on the CPU."""
    return [mask.to(CPU) for mask in masks]


def _graph_on_cpu(graph: Any) -> Any:
    edge_index = getattr(graph, "edge_index", None)
    if not isinstance(edge_index, Tensor) or edge_index.device.type in ("cpu", "meta"):
        return graph
    return copy.copy(graph).to(CPU)  # PyG moves a graph in place


def _store_on_cpu(store: GraphStore) -> GraphStore:
    if store.device == CPU:
        return store
    counts = store.match_counts
    return replace(
        store,
        sizes=store.sizes.to(CPU),
        edge_counts=store.edge_counts.to(CPU),
        local_edge_index=store.local_edge_index.to(CPU),
        match_counts=None if counts is None else counts.to(CPU),
        batch_device=None,
        schema=store.schema,
        **{
            level: {name: value.to(CPU) for name, value in getattr(store, level).items()}
            for level in LEVELS
        },
    )
