"""Distribution shift: how far other graphs are from the originals in the model's eyes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hpme.errors import InputError
from hpme.graphs.batch import GraphBatch, Graphs, GraphStore
from hpme.graphs.perturb import chunks, keep_edges
from hpme.graphs.segment import concatenated_ranges
from hpme.metrics.selection import PairTable, truth_edges
from hpme.metrics.value import GraphScores
from hpme.models.adapter import Level, ModelAdapter, frozen
from hpme.models.task import check_rows


@dataclass(frozen=True)
class Shift:
    """Distance between graph embeddings.

    Args:
        cosine: Cosine similarity; the higher, the closer. Undefined if an embedding is zero.
        euclidean: Euclidean distance, of embeddings as they are; the lower, the closer.
    """

    cosine: GraphScores
    euclidean: GraphScores


def shift(
    model: nn.Module,
    graphs: GraphStore | Graphs,
    others: GraphBatch | GraphStore | Graphs,
    edge_weight: Tensor | None = None,
    *,
    embedding_layer: str | None = None,
    level: Level = "graph",
) -> Shift:
    r"""Cosine similarity and Euclidean distance between :math:`\mathbf{h}_G` and :math:`\mathbf{h}_{G'}`.

    The graph embedding :math:`\mathbf{h}_G` is what enters the model's head, its last linear layers;
    if there is none, the output. Distances are in the model's own unit: compare them for one model
    only. Undefined where either graph has no nodes.

    Args:
        model: The model; it is left exactly as it was.
        graphs: The original graphs :math:`G`.
        others: One graph :math:`G'` for each, such as mixup graphs.
        edge_weight: Weights of the edges of ``others``, if they are weighted.
        embedding_layer: As in :class:`~hpme.models.adapter.ModelAdapter`; of use for node-level
            models, and for graph-level ones whose readout is not found.
        level: As in :class:`~hpme.models.adapter.ModelAdapter`.
    """  # noqa: E501
    before = _Weighted.of(graphs, None)
    after = _Weighted.of(others, edge_weight)
    if len(before.store) != len(after.store):
        raise InputError(
            f"one other graph per graph is needed, got {len(after.store)} for {len(before.store)}"
        )
    present = (before.store.sizes > 0) & (after.store.sizes > 0)
    ids = present.nonzero().squeeze(1)
    values = torch.full((2, len(before.store)), torch.nan, dtype=torch.double)
    if ids.numel():
        with frozen(model), torch.no_grad():
            adapter = ModelAdapter(model, embedding_layer=embedding_layer, level=level)
            h, other = (_embeddings(adapter, side, ids) for side in (before, after))
        zero = (h.norm(dim=1) == 0) | (other.norm(dim=1) == 0)
        cosine = F.cosine_similarity(h, other, dim=1).masked_fill(zero, torch.nan)
        values[:, ids] = torch.stack([cosine, (h - other).norm(dim=1)]).to(values)
    empty = "no graph has nodes in both forms"
    return Shift(
        GraphScores(values[0], "all embeddings are zero" if ids.numel() else empty),
        GraphScores(values[1], empty),
    )


def truth_shift(
    model: nn.Module,
    graphs: Sequence[Any],
    *,
    drop_isolated: bool = True,
    embedding_layer: str | None = None,
    level: Level = "graph",
) -> Shift:
    """:func:`shift` from graphs to their ground-truth subgraphs, undefined without ground truth.

    Args:
        model: The model; it is left exactly as it was.
        graphs: Graphs with a boolean ``edge_mask``.
        drop_isolated: Whether nodes without a ground-truth edge are left out; a readout that takes
            the mean over nodes depends strongly on it.
        embedding_layer: As in :class:`~hpme.models.adapter.ModelAdapter`; of use for node-level
            models, and for graph-level ones whose readout is not found.
        level: As in :class:`~hpme.models.adapter.ModelAdapter`.
    """
    store = GraphStore.from_graphs(graphs)
    whole = store.batch()
    table = PairTable.of(whole)
    truth = table.any(truth_edges(graphs))
    kept = table.per_edge(truth, loops=True)
    missing = torch.bincount(table.graph[truth], minlength=len(store)) == 0
    result = shift(
        model,
        store,
        keep_edges(whole, kept, drop_isolated=drop_isolated),
        embedding_layer=embedding_layer,
        level=level,
    )
    return Shift(
        *(
            GraphScores(
                scores.per_graph.masked_fill(missing, torch.nan),
                "no edge is ground truth" if bool(missing.all()) else scores.why,
            )
            for scores in (result.cosine, result.euclidean)
        )
    )


@dataclass(frozen=True)
class _Weighted:
    """Graphs and, apart from weights of their own, a weight per edge."""

    store: GraphStore
    edge_weight: Tensor | None

    @classmethod
    def of(cls, graphs: GraphBatch | GraphStore | Graphs, edge_weight: Tensor | None) -> _Weighted:
        order = None
        if isinstance(graphs, GraphBatch):
            store, order = _as_store(graphs)
        else:
            store = graphs if isinstance(graphs, GraphStore) else GraphStore.from_graphs(graphs)
        if edge_weight is None:
            return cls(store, None)
        if edge_weight.shape != store.local_edge_index.shape[1:]:
            raise InputError(
                f"edge_weight must have one value for each of {store.local_edge_index.shape[1]} "
                f"edges, got shape {tuple(edge_weight.shape)}"
            )
        weight = edge_weight.detach()
        return cls(store, weight if order is None else weight[order])


def _as_store(graphs: GraphBatch) -> tuple[GraphStore, Tensor]:
    """A batch as a store, and its edges in the order of the store."""
    order = graphs.edge_batch.argsort(stable=True)
    graph = graphs.edge_batch[order]
    store = GraphStore(
        x=graphs.x,
        local_edge_index=graphs.edge_index[:, order] - graphs.ptr[graph],
        sizes=graphs.sizes,
        edge_counts=torch.bincount(graph, minlength=graphs.num_graphs),
        edge_attr=None if graphs.edge_attr is None else graphs.edge_attr[order],
        edge_weight=None if graphs.edge_weight is None else graphs.edge_weight[order],
        anchors=None if graphs.anchors is None else graphs.anchors - graphs.ptr.unsqueeze(1),
    )
    return store, order


def _embeddings(adapter: ModelAdapter, graphs: _Weighted, ids: Tensor) -> Tensor:
    parts = []
    for part in chunks(graphs.store, ids):
        batch, weight = graphs.store.batch(part), None
        if graphs.edge_weight is not None:
            edges, _ = concatenated_ranges(
                graphs.store.edge_start[part], graphs.store.edge_counts[part]
            )
            weight = graphs.edge_weight[edges]
            if adapter.weighting in (None, "none"):  # graphs before may have had no edges
                adapter.probe(batch)
            if adapter.weighting == "message":  # layers replace self-loops by their own
                loops = batch.edge_index[0] == batch.edge_index[1]
                weight = weight.masked_fill(loops, 1.0)
        embedding = adapter.trace(batch, weight)
        check_rows(embedding.output, part.numel())
        parts.append(embedding.graph.view(part.numel(), -1).double())
    return torch.cat(parts)
