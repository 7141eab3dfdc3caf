"""Distribution shift: how far other graphs are from the originals in the model's eyes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hpme.data.info import Level
from hpme.errors import InputError
from hpme.graphs import GraphBatch, Graphs, GraphStore
from hpme.graphs.transforms import chunks, keep_edges, on_cpu
from hpme.metrics.shared import GraphScores, truth_edges
from hpme.models.adapter import ModelAdapter
from hpme.models.explained import ExplainedModel, Model
from hpme.models.output import check_rows

_WEIGHT = "given weight"
"""Name of the given edge weights, beside those the graphs have; no attribute has one like it."""


@dataclass(frozen=True)
class Shift:
    """Distance between graph embeddings, as they are; a zero one has no angle."""

    cosine: GraphScores  # similarity; the higher, the closer
    euclidean: GraphScores  # the lower, the closer


def shift(
    model: Model,
    graphs: GraphStore | Graphs,
    others: GraphBatch | GraphStore | Graphs,
    edge_weight: Tensor | None = None,
    *,
    embedding_layer: str | None = None,
    level: Level | None = None,
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
        embedding_layer, level: As in :class:`~hpme.models.adapter.ModelAdapter`; the layer is of
            use for node-level models, and for graph-level ones whose readout is not found.
    """  # noqa: E501
    explained = ExplainedModel.of(model, level=level, embedding_layer=embedding_layer)
    before = _weighted(explained, graphs, None)
    after = _weighted(explained, others, edge_weight)
    if len(before) != len(after):
        raise InputError(f"one other graph per graph is needed, got {len(after)} for {len(before)}")
    present = (before.sizes > 0) & (after.sizes > 0)
    ids = present.nonzero().squeeze(1)
    values = torch.full((2, len(before)), torch.nan, dtype=torch.double)
    if ids.numel():
        with explained.frozen(), torch.no_grad():
            adapter = explained.adapter()
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
    model: Model,
    graphs: Sequence[Any],
    *,
    drop_isolated: bool = True,
    embedding_layer: str | None = None,
    level: Level | None = None,
) -> Shift:
    """:func:`shift` from graphs to their ground-truth subgraphs, undefined without ground truth.

    Args:
        model: The model; it is left exactly as it was.
        graphs: Graphs with a boolean ``edge_mask``.
        drop_isolated: Whether nodes without a ground-truth edge are left out; a readout that takes
            the mean over nodes depends strongly on it.
        embedding_layer, level: As in :func:`shift`.
    """
    store = ExplainedModel.of(model).read(graphs)
    pairs = store.pairs.proper
    truth = pairs.any(truth_edges(graphs))
    missing = torch.bincount(pairs.graph[truth], minlength=len(store)) == 0
    kept = pairs.per_edge(truth, loops=True)
    subgraphs = keep_edges(store.batch(), kept, drop_isolated=drop_isolated)
    result = shift(model, store, subgraphs, embedding_layer=embedding_layer, level=level)
    none = "no edge is ground truth" if bool(missing.all()) else None
    cosine, euclidean = (
        GraphScores(scores.per_graph.masked_fill(missing, torch.nan), none or scores.why)
        for scores in (result.cosine, result.euclidean)
    )
    return Shift(cosine, euclidean)


def _weighted(
    explained: ExplainedModel, graphs: GraphBatch | GraphStore | Graphs, edge_weight: Tensor | None
) -> GraphStore:
    """Graphs and, apart from weights of their own, a weight per edge."""
    graphs = on_cpu(graphs)
    if edge_weight is None:
        return explained.read(graphs)
    batch = graphs if isinstance(graphs, GraphBatch) else explained.read(graphs).batch()
    if edge_weight.shape != (batch.num_edges,):
        raise InputError(
            f"edge_weight must have one value for each of {batch.num_edges} edges, got shape "
            f"{tuple(edge_weight.shape)}"
        )
    return GraphStore.from_graphs(
        replace(batch, edge={**batch.edge, _WEIGHT: edge_weight.detach()})
    )


def _embeddings(adapter: ModelAdapter, store: GraphStore, ids: Tensor) -> Tensor:
    parts = []
    for part in chunks(store, ids):
        graphs = store.batch(part)
        weight = graphs.edge.get(_WEIGHT)
        if weight is not None:
            adapter.ensure_probed(graphs)
            weight = adapter.beside_loops(graphs, weight)
        embedding = adapter.trace(graphs, weight)
        check_rows(embedding.output, part.numel())
        parts.append(embedding.graph.view(part.numel(), -1).double())
    return torch.cat(parts)
