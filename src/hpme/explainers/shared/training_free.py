"""The template of explainers that ask the model anew for every graph, and learn nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from torch import Tensor

from hpme.explainers.shared.base import GraphExplainer
from hpme.explainers.shared.context import Context
from hpme.graphs import GraphBatch
from hpme.models.adapter import ModelAdapter
from hpme.models.task import Task

Predict = Callable[[Tensor | None], Tensor]
"""Output of a model on graphs with the given edge weights, or with none."""


class TrainingFreeExplainer(GraphExplainer):
    """Base of explainers that need to know what the model's output means, and nothing else.

    The task comes from :meth:`fit`, from an :class:`~hpme.models.ExplainedModel`, from a PyG
    ``Explainer``, or from the output where it has several columns. :meth:`fit` also notes the
    spread of the outputs, in whose units regression losses are; without it they are in the unit of
    the output.

    Args:
        **options: Arguments of :class:`~hpme.explainers.shared.base.GraphExplainer`.
    """

    needs_fit = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.task: Task | None = None

    def _fit(self, context: Context, *, progress: bool) -> None:
        self.task = context.task

    def _task_of(self, adapter: ModelAdapter, output: Tensor) -> Task:
        """What an output of the model means, as it is asked for now."""
        if self.task is not None and not adapter.view.asked:
            return self.task
        # The spread over the graphs at hand would make masks depend on which ones come together.
        return replace(adapter.view.task(output), scale=1.0)

    def _meta(self) -> dict[str, Any]:
        return {"task": None if self.task is None else asdict(self.task)}

    def _build(self, meta: dict[str, Any]) -> None:
        self.task = None if meta["task"] is None else Task(**meta["task"])


def weighted_model(
    adapter: ModelAdapter, graphs: GraphBatch, model_kwargs: dict[str, Any]
) -> Predict:
    """The model as a function of the edge weights of given graphs."""
    adapter.ensure_probed(graphs)

    def predict(edge_weight: Tensor | None) -> Tensor:
        if edge_weight is not None:
            edge_weight = adapter.beside_loops(graphs, edge_weight)
        output = adapter.predict(graphs, edge_weight, **model_kwargs)
        adapter.check(output, graphs)
        return output

    return predict
