"""GRAD: how steeply the prediction depends on each edge."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.explainers.shared.masks import Masks, nothing_in
from hpme.explainers.shared.replicas import explained_output
from hpme.explainers.shared.templates import TrainingFreeExplainer, weighted_model
from hpme.graphs import GraphBatch
from hpme.models.adapter import ModelAdapter
from hpme.models.output import Task

Target = Literal["logprob", "logit", "raw"]


class GradExplainer(TrainingFreeExplainer):
    r"""How much an infinitesimal change of an edge's weight changes the prediction.

    Both directions are added up at :math:`w = 1`, :math:`g_{ij} = |\partial t/\partial w_{ij}| +
    |\partial t/\partial w_{ji}|`, and squashed to :math:`g / (1 + g)`.

    Args:
        target: What is differentiated. ``"logprob"``, the default for classification: log
            probability of the predicted class; it flattens where the model is sure, so weights of
            sure and unsure graphs are not on one scale. ``"logit"``: log odds of the predicted
            class, which do not flatten. ``"raw"``, the default and only choice for regression: the
            model's output (of the predicted class), in units of the outputs' spread after
            :meth:`fit`.
        normalise: Whether to divide by the largest value of each graph in place of squashing.
        **options: Arguments of :class:`~hpme.explainers.shared.base.GraphExplainer`.
            Nothing is drawn at random.
    """

    slug = "grad"
    title = "Grad"
    summary = "Gradient of the prediction by edge weights."
    typical_seconds = 0.2
    hetero = True

    def __init__(
        self, *, target: Target | None = None, normalise: bool = False, **options: Any
    ) -> None:
        super().__init__(**options)
        self.target, self.normalise = target, normalise

    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        if not graphs.num_edges:
            return Masks(nothing_in(graphs))
        predict = weighted_model(adapter, graphs, model_kwargs)
        weight = torch.ones(graphs.num_edges, device=graphs.x.device, requires_grad=True)
        output = predict(weight)
        slope = torch.zeros_like(weight)
        if output.requires_grad:
            # Graphs do not interact: the gradient of the sum holds the gradients of all.
            for column in self._targets(self._task_of(adapter, output), output).sum(0):
                slope += torch.autograd.grad(column, weight, retain_graph=True)[0].abs()
        score = graphs.pairs.per_edge(graphs.pairs.sum(slope))
        if not self.normalise:
            return Masks(score / (1 + score))
        zero = score.new_zeros(graphs.num_graphs)
        highest = zero.scatter_reduce(0, graphs.edge_batch, score, "amax")
        return Masks(score / highest.clamp(min=torch.finfo(score.dtype).tiny)[graphs.edge_batch])

    def _targets(self, task: Task, output: Tensor) -> Tensor:
        """What is differentiated, ``[B, K]``."""
        if not task.classification:
            if self.target not in (None, "raw"):
                raise InputError(f"target='{self.target}' needs classes; use 'raw' for regression")
            return task.values(output)
        log_prob = task.log_prob(output)
        classes = log_prob.argmax(dim=1)
        if self.target == "logit":
            return explained_output(task, output, classes)
        wide = output.view(output.shape[0], -1) if self.target == "raw" else log_prob
        return wide if wide.shape[1] == 1 else wide.gather(1, classes.unsqueeze(1))
