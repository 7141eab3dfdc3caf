"""Integrated Gradients (Sundararajan et al., ICML 2017), over node features or edge weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.explainers.shared.masks import Masks, from_edges, from_nodes, nothing_in, squash
from hpme.explainers.shared.options import Count
from hpme.explainers.shared.replicas import explained_output, integrate, predicted
from hpme.explainers.shared.templates import TrainingFreeExplainer, weighted_model
from hpme.graphs import GraphBatch
from hpme.models.adapter import ModelAdapter, check_gradient

Over = Literal["features", "edges"]


class IntegratedGradientsExplainer(TrainingFreeExplainer):
    r"""How much each edge, or each node, adds to the output on the way from nothing to the graph.

    With :math:`z` the edge weights (all 1) or the node features (of integers the model's embeddings
    of them, see :meth:`~hpme.models.adapter.ModelAdapter.node_input`)

    .. math::
        a_i = z_i \int_0^1 \frac{\partial t(\alpha z)}{\partial z_i} \, d\alpha ,

    where :math:`t` is the log odds of the class predicted for the graph itself, or for regression
    the output, in units of the outputs' spread after :meth:`fit`. Attributions add up to
    :math:`t(z) - t(0)`, but for the error of the midpoint rule. Those of a node's features are
    added up, and so are those of both directions between two nodes. Their absolute values, summed
    over outputs, are squashed to :math:`|a| / (1 + |a|)`.

    Args:
        over: ``"features"``: an edge is as important as the less important of its two ends.
            ``"edges"``: a node is as important as its heaviest edge.
        steps: Points of the midpoint rule, each one backward pass on all graphs.
        **options: Arguments of :class:`~hpme.explainers.shared.base.GraphExplainer`.
            Nothing is drawn at random.
    """

    slug = "integratedgradients"
    title = "IG"
    summary = "Integrated gradients by node features, or by edge weights."
    typical_seconds = 0.5
    needs_weights = False
    hetero = True
    needs_edges = False

    def __init__(self, *, over: Over = "features", steps: Count = 16, **options: Any) -> None:
        super().__init__(**options)
        self.over, self.steps = over, steps
        self.needs_weights = over == "edges"

    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        if self.over == "features":

            def predict(numbers: Tensor) -> Tensor:
                output = adapter.predict(graphs, node_input=numbers, **model_kwargs)
                adapter.check(output, graphs)
                if numbers.requires_grad:
                    check_gradient(output)
                return output

            if not graphs.num_nodes:
                return from_nodes(nothing_in(graphs), graphs)
            whole = adapter.node_input(graphs, **model_kwargs)
            shares = self._shares(adapter, predict, whole).sum(2)
            return from_nodes(squash(shares.abs().sum(0)), graphs)
        if not adapter.reads_edges(graphs):
            raise InputError("over='edges' is for models that read edges; use over='features'")
        if not graphs.num_edges:
            return from_edges(nothing_in(graphs), graphs)
        weight = torch.ones(graphs.num_edges, dtype=graphs.float_dtype, device=graphs.x.device)
        shares = self._shares(adapter, weighted_model(adapter, graphs, model_kwargs), weight)
        pairs = graphs.pairs
        both = torch.stack([pairs.per_edge(pairs.sum(column)) for column in shares])
        return from_edges(squash(both.abs().sum(0)), graphs)

    def _shares(
        self, adapter: ModelAdapter, predict: Callable[[Tensor], Tensor], whole: Tensor
    ) -> Tensor:
        """What every element of ``whole`` adds to each of the K explained outputs."""
        with torch.no_grad():
            output = predict(whole)
        task = self._task_of(adapter, output)
        classes = predicted(task, output)
        return integrate(
            lambda part: explained_output(task, predict(part), classes), whole, self.steps
        )
