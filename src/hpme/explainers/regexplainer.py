"""RegExplainer (Zhang et al., NeurIPS 2024)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hpme.explainers.shared import templates
from hpme.explainers.shared.context import Context
from hpme.explainers.shared.options import Count, FromZero, Positive, Weight
from hpme.explainers.shared.parametric import ParametricExplainer, binary_concrete
from hpme.graphs.segment import at


class RegExplainer(templates.MixingExplainer, ParametricExplainer):
    r"""Learns edge probabilities from mixups with a near and a far graph, and their contrast.

    Of two random other graphs, the one with the nearer prediction is :math:`G^+`, the other
    :math:`G^-`. The explanation :math:`w` of :math:`G` is joined with the complement of that of
    :math:`G^+` and of :math:`G^-` to :math:`G^{mix+}` and :math:`G^{mix-}`. The loss is

    .. math::
        \beta\,\mathcal{L}(f(G^{mix+}), f(G)) - \alpha \log
        \frac{e^{s^+/\tau}}{e^{s^+/\tau} + e^{s^-/\tau}} + c_s \sum_e w_e +
        c_e\,\mathrm{mean}_e H(w_e)

    where :math:`s^\pm` is the cosine of the graph embeddings of :math:`G^{mix\pm}` and
    :math:`G^\pm`. The prediction loss is the squared error in units of the outputs' spread; for
    classes it is the cross entropy, and distances are those of class probabilities.

    Args:
        contrast_weight: :math:`\alpha`.
        prediction_weight: :math:`\beta`.
        contrast_temperature: :math:`\tau` of the contrast.
        bridges: Undirected random edges between the two graphs of a mixup.
        epochs, size_weight, end_temperature, **options: As in :class:`ParametricExplainer`.
    """

    slug = "regexplainer"
    title = "RegExplainer"
    summary = "RegExplainer: mixup with near and far graphs and a contrast of their embeddings."
    typical_seconds = 15.0

    def __init__(
        self,
        *,
        contrast_weight: Weight = 1.0,
        prediction_weight: Weight = 1.0,
        contrast_temperature: Positive = 0.5,
        bridges: FromZero = 1,
        epochs: Count = 150,
        size_weight: Weight = 0.3,
        end_temperature: Positive = 2.0,
        **options: Any,
    ) -> None:
        super().__init__(
            epochs=epochs, size_weight=size_weight, end_temperature=end_temperature, **options
        )
        self.contrast_weight, self.prediction_weight = contrast_weight, prediction_weight
        self.contrast_temperature, self.bridges = contrast_temperature, bridges

    def _loss(
        self, context: Context, ids: Tensor, temperature: float, generator: torch.Generator
    ) -> Tensor:
        graphs = context.store.batch(ids, with_pairs=True)
        logits = self.edge_mlp(context.embedded(graphs), graphs.pairs.index)
        mask = graphs.pairs.per_edge(binary_concrete(logits, temperature, generator))
        drawn = templates.draw_partners(ids.expand(2, -1), len(context.store), generator)
        number = torch.full((len(context.store),), -1, device=ids.device)
        number[ids] = torch.arange(ids.numel(), device=ids.device)
        mixes = []
        for partners in by_distance(context.values[ids], context.values, drawn):
            others = context.store.batch(partners, with_pairs=True)
            place = at(number, partners)
            if bool((place >= 0).all()):  # those of graphs of the same step are known
                again = logits.index_select(0, graphs.pairs.of_graphs(place))
            else:
                again = self.edge_mlp(context.embedded(others), others.pairs.index)
            other = others.pairs.per_edge(binary_concrete(again, temperature, generator))
            union = templates.unite(graphs, others, self.bridges, generator)
            mixed = context.adapter.trace(union.graphs, union.per_edge(mask, 1 - other))
            known = context.graph_embedding[partners].flatten(1)
            similarity = F.cosine_similarity(mixed.graph.to(known).flatten(1), known, dim=1)
            mixes.append((mixed.output, similarity))
        (near_output, near), (_, far) = mixes
        prediction = context.task.loss(near_output, context.prediction[ids])
        contrast = triplet_info_nce(near, far, self.contrast_temperature)
        loss = self.prediction_weight * prediction + self.contrast_weight * contrast
        return (loss + self._penalty(mask, graphs)).mean()

    def _mixup_graphs(self, context: Context, generator: torch.Generator) -> templates.MixupGraphs:
        r"""The mixups :math:`G^{mix+}`, from which the prediction is learned."""
        context = self._beside_target(context)
        ids = torch.arange(len(context.store), device=context.device)
        drawn = templates.draw_partners(ids.expand(2, -1), len(ids), generator)
        partners = by_distance(context.values, context.values, drawn)[0]
        return templates.joined(context, partners, self.edge_mlp, self.bridges, generator)


def by_distance(values: Tensor, candidates: Tensor, drawn: Tensor) -> Tensor:
    """The graphs ``drawn`` (``[D, B]``) for each of ``values``, nearest prediction first."""
    distance = (candidates[drawn] - values).norm(dim=-1)
    return drawn.gather(0, distance.argsort(dim=0, stable=True))


def triplet_info_nce(near: Tensor, far: Tensor, temperature: float) -> Tensor:
    r""":math:`-\log(e^{s^+/\tau} / (e^{s^+/\tau} + e^{s^-/\tau}))` of every graph."""
    return F.softplus((far - near) / temperature)
