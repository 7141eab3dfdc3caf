"""Distilled occlusion: one scorer for all graphs, fitted to what occlusion says about each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hpme.explainers.hpme.search.distil import Distiller, LinearPool, importance
from hpme.explainers.hpme.search.occlusion import occlusion
from hpme.explainers.hpme.search.representation import NodeReader
from hpme.explainers.shared.base import GraphExplainer
from hpme.explainers.shared.context import Context
from hpme.explainers.shared.masks import Masks, from_nodes
from hpme.explainers.shared.options import Count
from hpme.graphs import GraphBatch
from hpme.models.adapter import ModelAdapter


class DistilledOcclusionExplainer(GraphExplainer):
    """Ridge regression of occlusion on what the model sees of nodes at every depth.

    The log odds of the predicted class, or the value, fall when a node or an edge is gone: signed
    for classes, absolute for values. What a node and its edges say is fitted by one linear scorer
    for all graphs, which averages out the noise of single graphs, so explaining a graph takes one
    forward pass. Edges are as important as the less important of their ends.

    Args:
        fit_graphs: The scorer is fitted on at most this many of the graphs.
        **options: Arguments of :class:`~hpme.explainers.shared.base.GraphExplainer`.
    """

    slug = "distilled-occlusion"
    title = "Distilled occlusion"
    summary = "One linear scorer for all graphs, fitted to the occlusion of nodes and edges."
    typical_seconds = 0.6
    needs_weights = False
    needs_edges = False
    hetero = True

    def __init__(self, *, fit_graphs: Count = 128, **options: Any) -> None:
        super().__init__(**options)
        self.fit_graphs = fit_graphs
        self.reader: NodeReader | None = None
        self.scorer: LinearPool | None = None

    def _fit(self, context: Context, *, progress: bool) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        self.reader = NodeReader.of(context, self.batch_size)
        every = int(context.store.edge_counts.sum())
        few = context.sample(self.fit_graphs, every, generator)
        graphs = few.store.batch()
        features = self.reader(few.layers, few.h, graphs)
        weight = self._weight(few, Distiller(features, graphs), generator)
        spread = float((features @ weight).std(unbiased=False))
        self.scorer = LinearPool(weight.unsqueeze(0) / (spread if spread > 0 else 1.0))
        self.requires_grad_(False)

    def _weight(self, context: Context, distiller: Distiller, generator: torch.Generator) -> Tensor:
        """Weights ``[D]`` of the scorer."""
        return distiller.fit(*occlusion(context))[0]

    @torch.no_grad()
    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        assert self.reader is not None and self.scorer is not None
        if graphs.num_nodes == 0:
            return from_nodes(torch.zeros(0, device=graphs.x.device), graphs)
        embedding = adapter.embed(graphs, **model_kwargs)
        weight = self.scorer.weight[0]
        score = self.reader.scores(weight, embedding.layers, embedding.nodes, graphs)
        score = importance(score.unsqueeze(0), graphs)[0]
        if graphs.anchors is not None:
            score = score.index_fill(0, graphs.anchors.flatten(), 1.0)
        return from_nodes(score, graphs)

    def _meta(self) -> dict[str, Any]:
        assert self.reader is not None
        return self.reader.meta()

    def _build(self, meta: dict[str, Any]) -> None:
        self.reader = NodeReader(meta["widths"], meta["codes"], meta["widest"])
        self.scorer = LinearPool(torch.zeros(1, self.reader.map.shape[1]))
        self.requires_grad_(False)
