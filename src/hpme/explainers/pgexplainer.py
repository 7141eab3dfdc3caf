"""PGExplainer (Luo et al., NeurIPS 2020)."""

from __future__ import annotations

import torch
from torch import Tensor

from hpme.explainers.shared.context import Context
from hpme.explainers.shared.parametric import ParametricExplainer


class PGExplainer(ParametricExplainer):
    r"""Learns edge probabilities under which the model keeps its prediction.

    Minimises :math:`\mathcal{L}(f(G, w), f(G)) + c_s \sum_e w_e + c_e\,\mathrm{mean}_e H(w_e)` over
    samples :math:`w` of the binary concrete distribution; the prediction loss is cross entropy, or
    the squared error in units of the outputs' spread. The arguments are those of
    :class:`~hpme.explainers.shared.parametric.ParametricExplainer`.
    """

    slug = "pgexplainer"
    title = "PGExplainer"
    summary = "PGExplainer: an edge MLP trained so that the masked graph keeps the prediction."
    typical_seconds = 2.5
    hetero = True

    def _loss(
        self, context: Context, ids: Tensor, temperature: float, generator: torch.Generator
    ) -> Tensor:
        graphs = context.store.batch(ids, with_pairs=True)
        mask = self._sample(context.embedded(graphs), graphs, temperature, generator)
        prediction = context.task.loss(context.predict(graphs, mask), context.prediction[ids])
        return (prediction + self._penalty(mask, graphs)).mean()
