"""Random importance: the line every explainer must beat."""

from __future__ import annotations

from typing import Any

from hpme.explainers.shared.base import GraphExplainer
from hpme.explainers.shared.masks import Masks
from hpme.explainers.shared.noise import pair_noise
from hpme.graphs import GraphBatch
from hpme.models.adapter import ModelAdapter


class RandomExplainer(GraphExplainer):
    """Uniform noise that belongs to the graph, see :func:`pair_noise`."""

    slug = "random"
    title = "Random"
    summary = "Random edge scores; the line every explainer must beat."
    typical_seconds = 0.2
    needs_weights = False
    hetero = True
    needs_fit = False

    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        return Masks(edge_mask=pair_noise(graphs, graphs.edge_index, self.seed))
