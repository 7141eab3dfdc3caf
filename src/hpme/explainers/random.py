"""Random importance: the line every explainer must beat."""

from __future__ import annotations

from typing import Any

from hpme.data.batch import GraphBatch
from hpme.explainers.base import GraphExplainer, Masks
from hpme.explainers.noise import pair_noise
from hpme.models.adapter import ModelAdapter


class RandomExplainer(GraphExplainer):
    """Uniform noise that belongs to the graph, see :func:`~hpme.explainers.noise.pair_noise`."""

    slug = "random"
    summary = "Random edge scores; the line every explainer must beat."
    needs_fit = False

    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        return Masks(edge_mask=pair_noise(graphs, graphs.edge_index, self.seed))
