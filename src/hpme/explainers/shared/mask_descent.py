"""One free mask per graph, found by gradient descent, and what soft masks are charged for."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hpme.explainers.shared.training_free import Predict
from hpme.graphs import GraphBatch
from hpme.graphs.segment import segment_mean, segment_sum
from hpme.models.task import Task


@dataclass(frozen=True)
class MaskDescent:
    r"""Finds edge weights under which the model keeps its predictions.

    Minimises :math:`\mathcal{L}(f(G, w), f(G)) + c_s \sum_e w_e + c_e\,\mathrm{mean}_e H(w_e)` over
    :math:`w = \sigma(m)`, with one :math:`m` per connected pair of nodes.

    Losses are reduced graph by graph and then summed, and Adam treats every element by itself:
    each graph gets the mask it would get alone. A logit moves by at most about ``lr * epochs``.
    """

    epochs: int
    lr: float
    size_weight: float
    entropy_weight: float

    def __call__(
        self,
        predict: Predict,
        graphs: GraphBatch,
        task: Task,
        start: Tensor,
        classes: Tensor | None = None,
    ) -> Tensor:
        """Edge weights ``[E]``.

        Args:
            predict: The model as a function of edge weights.
            graphs: The graphs.
            task: What its output means.
            start: First logits of the pairs.
            classes: Class of every pair; those of one class share a logit, else rounding decides
                which of them a maximum picks, and descent makes the most of it. By default every
                pair has its own.
        """
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
            penalty = mask_penalty(
                weight,
                graphs.edge_batch,
                graphs.num_graphs,
                size=self.size_weight,
                entropy=self.entropy_weight,
            )
            loss = (task.loss(predict(weight), target) + penalty).sum()
            (logits.grad,) = torch.autograd.grad(loss, logits)  # nothing may reach the model
            optimiser.step()
        return pairs.per_edge(logits.detach().sigmoid()[classes])


def spread(graphs: GraphBatch) -> Tensor:
    r"""Standard deviation :math:`\sqrt{2} \sqrt{2 / 2N}` of first logits, ``[P]``."""
    sizes: Tensor = graphs.sizes[graphs.pairs.graph]
    return (2 / sizes.to(torch.get_default_dtype())).sqrt()


def mask_penalty(
    mask: Tensor, segment: Tensor, num_segments: int, *, size: float, entropy: float
) -> Tensor:
    r"""Penalty :math:`c_s \sum_e w_e + c_e \, \mathrm{mean}_e H(w_e)` of every graph.

    Reduced graph by graph, because a sum over a whole batch would shift the balance between
    prediction, size and entropy with the number of graphs in it.
    """
    safe = mask.clamp(1e-6, 1 - 1e-6)  # the slope of the entropy is infinite at 0 and 1
    binary_entropy = -safe * safe.log() - (1 - safe) * (1 - safe).log()
    return size * segment_sum(mask, segment, num_segments) + entropy * segment_mean(
        binary_entropy, segment, num_segments
    )
