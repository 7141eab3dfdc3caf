"""MixupExplainer (Zhang et al., KDD 2023)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from hpme.explainers.shared import templates
from hpme.explainers.shared.context import Context
from hpme.explainers.shared.options import Count, FromZero, Weight
from hpme.explainers.shared.parametric import ParametricExplainer


class MixupExplainer(templates.MixingExplainer, ParametricExplainer):
    r"""Learns edge probabilities that keep the prediction beside the rest of another graph.

    Graphs are matched at random in every step; each :math:`G_a` is joined with its partner
    :math:`G_b` by a few random bridges. With weights :math:`w_a` on the edges of :math:`G_a`,
    :math:`1 - w_b` on those of :math:`G_b` and 1 on the bridges the model shall predict
    :math:`f(G_a)`; with :math:`1 - w_a` and :math:`w_b`, :math:`f(G_b)`. Size and entropy are
    charged on :math:`w_a` and :math:`w_b`. For regression the loss is the squared error in units of
    the outputs' spread.

    Args:
        bridges: Undirected random edges :math:`\eta` between the two graphs of a pair.
        epochs, size_weight, **options: As in :class:`ParametricExplainer`.
    """

    slug = "mixupexplainer"
    title = "MixupExplainer"
    summary = "MixupExplainer: an edge MLP trained on unions with the complement of another graph."
    typical_seconds = 8.0

    def __init__(
        self,
        *,
        bridges: FromZero = 1,
        epochs: Count = 150,
        size_weight: Weight = 0.1,
        **options: Any,
    ) -> None:
        super().__init__(epochs=epochs, size_weight=size_weight, **options)
        self.bridges = bridges

    def _loss(
        self, context: Context, ids: Tensor, temperature: float, generator: torch.Generator
    ) -> Tensor:
        store, task = context.store, context.task
        ids, partners = templates.matched(ids, len(store), generator)
        first, second = (store.batch(part, with_pairs=True) for part in (ids, partners))
        kept, other = (
            self._sample(context.embedded(graphs), graphs, temperature, generator)
            for graphs in (first, second)
        )
        union = templates.unite(first, second, self.bridges, generator)
        as_first = context.predict(union.graphs, union.per_edge(kept, 1 - other))
        about_second = replace(union.graphs, anchors=union.other_anchors)
        as_second = context.predict(about_second, union.per_edge(1 - kept, other))
        prediction = task.loss(as_first, context.prediction[ids])
        prediction = prediction + task.loss(as_second, context.prediction[partners])
        penalty = self._penalty(kept, first) + self._penalty(other, second)
        return (prediction + penalty).mean()

    def _mixup_graphs(self, context: Context, generator: torch.Generator) -> templates.MixupGraphs:
        context = self._beside_target(context)
        ids = torch.arange(len(context.store), device=context.device)
        partners = templates.draw_partners(ids, len(ids), generator)
        return templates.joined(context, partners, self.edge_mlp, self.bridges, generator)
