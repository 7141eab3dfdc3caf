"""GNNExplainer (Ying et al., NeurIPS 2019)."""

from __future__ import annotations

from typing import Any

from hpme.explainers.shared.checks import at_least, positive
from hpme.explainers.shared.mask_descent import MaskDescent, spread
from hpme.explainers.shared.masks import Masks
from hpme.explainers.shared.noise import pair_classes, pair_normal
from hpme.explainers.shared.training_free import TrainingFreeExplainer, no_edges, weighted_model
from hpme.graphs import GraphBatch
from hpme.models.adapter import ModelAdapter


class GNNExplainer(TrainingFreeExplainer):
    r"""Finds for each graph the edge mask under which the model keeps its prediction.

    See :class:`MaskDescent` for what is minimised. Both directions
    of an edge share one weight. First logits are drawn from :math:`\mathcal{N}(\mu, 2/N)`, with
    noise that belongs to the graph (:mod:`noise`), so a graph gets the same mask
    alone as in a batch.

    Args:
        epochs: Steps of Adam.
        lr: Its learning rate. A logit moves by at most about ``lr * epochs``, which should be well
            above the spread of the first logits: else the mask shows nothing but the noise. Large
            steps, such as 0.1, blow up rounding errors until masks differ between batches.
        size_weight: :math:`c_s`, weight of the sum of a graph's edge weights.
        entropy_weight: :math:`c_e`, weight of the mean entropy of a graph's edge weights.
        start: Mean :math:`\mu` of the first logits.
        **options: Arguments of :class:`~hpme.explainers.shared.base.GraphExplainer`.
    """

    slug = "gnnexplainer"
    title = "GNNExplainer"
    summary = "GNNExplainer: a mask per graph, found by gradient descent."
    typical_seconds = 2.0
    hetero = True

    def __init__(
        self,
        *,
        epochs: int = 100,
        lr: float = 0.03,
        size_weight: float = 0.003,
        entropy_weight: float = 0.01,
        start: float = 1.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.epochs, self.lr = epochs, lr
        self.size_weight, self.entropy_weight, self.start = size_weight, entropy_weight, start
        at_least("epochs", epochs, 1)
        positive("lr", lr)
        for name in ("size_weight", "entropy_weight"):
            at_least(name, getattr(self, name), 0)

    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        empty = no_edges(graphs)
        if empty is not None:
            return Masks(empty)
        predict = weighted_model(adapter, graphs, model_kwargs)
        task = self._task_of(adapter, predict(None))
        pairs = graphs.pairs
        classes = pair_classes(graphs, pairs.index, pairs.of_edge)
        noise = pair_normal(graphs, pairs.index, self.seed, classes) * spread(graphs)
        descent = MaskDescent(self.epochs, self.lr, self.size_weight, self.entropy_weight)
        return Masks(descent(predict, graphs, task, self.start + noise, classes))
