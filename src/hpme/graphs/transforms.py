"""Graphs made of others: without some edges, two as one, with further edges, renumbered, moved."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import index_to_mask

from hpme.graphs.batch import GraphBatch, both
from hpme.graphs.schema import NODE_TYPE, Schema
from hpme.graphs.segment import at, exclusive_cumsum
from hpme.graphs.store import GROUPS, MATCH_NODE, GraphStore


def to_tensors(store: GraphStore) -> dict[str, Tensor]:
    """One flat mapping, for storage; the inverse is :func:`from_tensors`."""
    counts = {"sizes": store.sizes, "edge_counts": store.edge_counts}
    tensors = {**counts, "edge_index": store.local_edge_index}
    for group in GROUPS:
        tensors.update({f"{group}.{key}": value for key, value in getattr(store, group).items()})
    if store.match_counts is not None:
        tensors["match_counts"] = store.match_counts
    for key, texts in store.text.items():
        tensors[f"letters.{key}"], tensors[f"lengths.{key}"] = _pack(texts)
    if store.schema is not None:
        tensors["schema"] = _pack([store.schema.to_text()])[0]
    return {key: value.contiguous() for key, value in tensors.items()}


def from_tensors(tensors: Mapping[str, Tensor]) -> GraphStore:
    """Rebuilds the graphs from what :func:`to_tensors` gave."""
    groups: dict[str, dict[str, Tensor]] = {group: {} for group in (*GROUPS, "letters", "lengths")}
    for key, value in tensors.items():
        group, dot, name = key.partition(".")
        if dot:
            groups[group][name] = value
    anchors = groups["graph"].get("anchors")
    if anchors is not None:  # older files have a row of them if they are one per graph
        groups["graph"]["anchors"] = anchors.view(tensors["sizes"].numel(), -1)
    letters, lengths = groups.pop("letters"), groups.pop("lengths")
    schema = tensors.get("schema")
    return GraphStore(
        schema=None if schema is None else Schema.from_text(bytes(schema.tolist()).decode()),
        text={key: _unpack(value, lengths[key]) for key, value in letters.items()},
        match_counts=tensors.get("match_counts"),
        sizes=tensors["sizes"],
        edge_counts=tensors["edge_counts"],
        local_edge_index=tensors["edge_index"],
        **{group: groups[group] for group in GROUPS},  # type: ignore[arg-type]
    )


def _pack(texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    encoded = [text.encode() for text in texts]
    letters = np.frombuffer(b"".join(encoded), dtype=np.uint8).copy()
    return torch.from_numpy(letters), torch.tensor([len(t) for t in encoded], dtype=torch.long)


def _unpack(letters: Tensor, lengths: Tensor) -> list[str]:
    content, ends = letters.numpy().tobytes(), lengths.cumsum(0).tolist()
    starts = [0, *ends[:-1]]
    return [content[a:b].decode() for a, b in zip(starts, ends, strict=True)]


MAX_ELEMENTS, NARROW = 30_000, 50
"""Nodes and edges per forward pass of a model of at most so many channels."""


def elements_per_pass(channels: int) -> int:
    """Nodes and edges that a model with some channels may read at once, to stay in the cache."""
    return MAX_ELEMENTS * NARROW // max(NARROW, channels)


def chunks(store: GraphStore, ids: Tensor, channels: int = NARROW) -> Iterator[Tensor]:
    """Consecutive parts of graph numbers, each of about as many elements as a pass may read."""
    cost = (store.sizes + store.edge_counts)[ids]
    part = exclusive_cumsum(cost) // elements_per_pass(channels)
    counts = torch.unique_consecutive(part, return_counts=True)[1]
    yield from ids.split(counts.tolist())  # type: ignore[no-untyped-call]


def keep_edges(graphs: GraphBatch, kept: Tensor, *, drop_isolated: bool = False) -> GraphBatch:
    """The graphs with the edges of a boolean mask.

    With ``drop_isolated``, nodes without a kept edge to another node go, too, but for anchors, and
    for all nodes of a graph that would have none left.
    """
    graphs = graphs.edges(kept)
    if not drop_isolated:
        return graphs
    nodes = index_to_mask(graphs.edge_index[:, ~graphs.loops].flatten(), graphs.num_nodes)
    if graphs.anchors is not None:
        nodes[graphs.anchors.flatten()] = True
    left = torch.bincount(graphs.batch[nodes], minlength=graphs.num_graphs)
    return graphs.nodes(nodes | (left == 0)[graphs.batch])


def side_by_side(first: GraphBatch, second: GraphBatch) -> tuple[GraphBatch, Tensor]:
    """Each graph of ``first`` and that of the same number in ``second`` as one, unconnected.

    Attributes of nodes and edges that both have stay with them, those of graphs and anchors are
    those of ``first``, whose edges come first. Also the new numbers of all nodes.
    """
    # A node moves by as many places as graphs of the other batch come before it.
    moved = [at(second.ptr, first.batch), at(first.ptr + first.sizes, second.batch)]
    number = torch.arange(first.num_nodes + second.num_nodes, device=first.batch.device)
    place = torch.cat([number[: first.num_nodes], number[: second.num_nodes]]) + torch.cat(moved)
    origin = torch.empty_like(place).scatter_(0, place, number)
    batch = torch.cat([first.batch, second.batch])
    edges = [at(place, first.edge_index), at(place, second.edge_index + first.num_nodes)]
    ours, theirs = first.groups(), second.groups()
    graphs = GraphBatch.of(
        both(ours["node"], theirs["node"], origin),
        both(ours["edge"], theirs["edge"]),
        edge_index=torch.cat(edges, dim=1),
        batch=at(batch, origin),
        num_graphs=first.num_graphs,
        anchors=None if first.anchors is None else place[first.anchors],
        graph=first.graph,
    )
    return graphs, place


def with_edges(graphs: GraphBatch, edge_index: Tensor, generator: torch.Generator) -> GraphBatch:
    """The graphs with further edges of weight 1, and of attributes of random edges: real ones."""
    count, total = edge_index.shape[1], graphs.num_edges
    like: Tensor | None = None
    if total and (graphs.edge_attr is not None or graphs.edge):
        like = torch.randint(total, (count,), generator=generator).to(edge_index.device)

    def longer(value: Tensor) -> Tensor:
        more = value.new_zeros((count, *value.shape[1:])) if like is None else value[like]
        return torch.cat([value, more])

    attr, weight = graphs.edge_attr, graphs.edge_weight
    return replace(
        graphs,
        edge_index=torch.cat([graphs.edge_index, edge_index], dim=1),
        edge_attr=None if attr is None else longer(attr),
        edge_weight=None if weight is None else torch.cat([weight, weight.new_ones(count)]),
        edge={name: longer(value) for name, value in graphs.edge.items()},
        known_pairs=None,
    )


def shuffled(store: GraphStore, rng: np.random.Generator) -> GraphStore:
    """Renumbers the nodes of every graph at random, those of a type together, and sorts its edges.

    Generators put motif nodes last and motif edges in a row; after this no number says anything.
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


CPU = torch.device("cpu")


def on_cpu(graphs: Any) -> Any:
    """The same graphs on the CPU; what is there already is not copied."""
    if isinstance(graphs, GraphBatch):
        return graphs.to(CPU)
    if isinstance(graphs, GraphStore):
        if graphs.device == CPU:
            return graphs
        return from_tensors({name: value.to(CPU) for name, value in to_tensors(graphs).items()})
    if isinstance(graphs, list | tuple):
        return [on_cpu(graph) for graph in graphs]
    edge_index = graphs.edge_index if isinstance(graphs, Data) else None
    if not isinstance(edge_index, Tensor) or edge_index.device.type in ("cpu", "meta"):
        return graphs
    return copy.copy(graphs).to(CPU)  # PyG moves a graph in place
