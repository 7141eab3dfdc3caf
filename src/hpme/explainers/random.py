"""Random importance: the line every explainer must beat."""

from __future__ import annotations

from typing import Any

from hpme.explainers.shared.base import GraphExplainer
from hpme.explainers.shared.masks import Masks, from_nodes
from hpme.explainers.shared.noise import node_keys, pair_noise, uniform
from hpme.graphs import GraphBatch
from hpme.models.adapter import ModelAdapter


class RandomExplainer(GraphExplainer):
    """Uniform noise that belongs to the graph, see :func:`pair_noise`.

    Nodes have noise of their own where the model reads no edges.
    """

    slug = "random"
    title = "Random"
    summary = "Random edge scores; the line every explainer must beat."
    typical_seconds = 0.2
    needs_weights = False
    hetero = True
    needs_fit = False
    needs_edges = False

    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        if not adapter.reads_edges(graphs):
            return from_nodes(uniform(node_keys(graphs, self.seed)), graphs)
        return Masks(edge_mask=pair_noise(graphs, graphs.edge_index, self.seed))
