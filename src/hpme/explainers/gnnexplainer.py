"""GNNExplainer (Ying et al., NeurIPS 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hpme.explainers.shared.masks import Masks, nothing_in
from hpme.explainers.shared.noise import pair_classes, pair_normal
from hpme.explainers.shared.options import Count, Positive, Weight
from hpme.explainers.shared.parametric import mask_penalty
from hpme.explainers.shared.templates import Predict, TrainingFreeExplainer, weighted_model
from hpme.graphs import GraphBatch
from hpme.models.adapter import ModelAdapter
from hpme.models.output import Task


class GNNExplainer(TrainingFreeExplainer):
    r"""Finds for each graph the edge mask under which the model keeps its prediction.

    See :class:`MaskDescent` for what is minimised. Both directions of an edge share one weight.
    First logits are drawn from :math:`\mathcal{N}(\mu, 2/N)`, with noise that belongs to the graph.

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
        epochs: Count = 100,
        lr: Positive = 0.03,
        size_weight: Weight = 0.003,
        entropy_weight: Weight = 0.01,
        start: float = 1.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.epochs, self.lr = epochs, lr
        self.size_weight, self.entropy_weight, self.start = size_weight, entropy_weight, start

    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        if not graphs.num_edges:
            return Masks(nothing_in(graphs))
        predict = weighted_model(adapter, graphs, model_kwargs)
        task = self._task_of(adapter, predict(None))
        pairs = graphs.pairs
        classes = pair_classes(graphs, pairs.index, pairs.of_edge)
        noise = pair_normal(graphs, pairs.index, self.seed, classes) * spread(graphs)
        descent = MaskDescent(self.epochs, self.lr, self.size_weight, self.entropy_weight)
        return Masks(descent(predict, graphs, task, self.start + noise, classes))


@dataclass(frozen=True)
class MaskDescent:
    r"""Finds edge weights under which the model keeps its predictions.

    Minimises :math:`\mathcal{L}(f(G, w), f(G)) + c_s \sum_e w_e + c_e\,\mathrm{mean}_e H(w_e)` over
    :math:`w = \sigma(m)`, with one :math:`m` per connected pair of nodes. Losses are reduced graph
    by graph and then summed, and Adam treats every element by itself: each graph gets its own mask.
    """

    epochs: int
    lr: float
    size_weight: float
    entropy_weight: float

    def __call__(
        self, predict: Predict, graphs: GraphBatch, task: Task, start: Tensor, classes: Any = None
    ) -> Tensor:
        """Edge weights ``[E]`` from the first logits of pairs; those of one class share theirs."""
        # Else rounding decides which a maximum picks, and descent makes the most of it.
        pairs = graphs.pairs
        if classes is None:
            classes = torch.arange(len(start), device=start.device)
        count = int(classes.max()) + 1 if len(classes) else 0
        start = start.new_zeros(count).scatter(0, classes, start)
        with torch.no_grad():
            target = task.prediction(predict(None))
        logits = start.clone().requires_grad_()
        optimiser = torch.optim.Adam([logits], lr=self.lr)
        for _ in range(self.epochs):
            weight = pairs.per_edge(logits.sigmoid().index_select(0, classes))
            charged = self.size_weight, self.entropy_weight
            penalty = mask_penalty(weight, graphs.edge_batch, graphs.num_graphs, *charged)
            loss = (task.loss(predict(weight), target) + penalty).sum()
            (logits.grad,) = torch.autograd.grad(loss, logits)  # nothing may reach the model
            optimiser.step()
        return pairs.per_edge(logits.detach().sigmoid()[classes])


def spread(graphs: GraphBatch) -> Tensor:
    r"""Standard deviation :math:`\sqrt{2} \sqrt{2 / 2N}` of first logits, ``[P]``."""
    sizes: Tensor = graphs.sizes[graphs.pairs.graph]
    return (2 / sizes.to(torch.get_default_dtype())).sqrt()
