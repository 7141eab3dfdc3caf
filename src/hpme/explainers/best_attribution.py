"""Best attribution: occlusion and gradients, each distilled, and transplants say which is best."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hpme.data.dataset import DEFAULT_POOL_RATIO
from hpme.explainers.distilled_occlusion import DistilledOcclusionExplainer
from hpme.explainers.hpme.method.pool import PoolSize
from hpme.explainers.hpme.refining import gradients
from hpme.explainers.hpme.search.chains import DRAWS, Candidates
from hpme.explainers.hpme.search.distil import PENALTIES, Distiller
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.search.occlusion import occlusions
from hpme.explainers.shared.context import Context, batches
from hpme.explainers.shared.options import Share


class BestAttributionExplainer(DistilledOcclusionExplainer):
    """Where HPME's search begins, without the search.

    Occlusion of nodes, of edges and of both, length of the gradient, gradient times input and
    gradient times embedding, each distilled into scorers for all graphs, by three penalties; the
    one is taken whose highest nodes best keep predictions in other graphs (hard mixes).

    Args:
        ratio: Share of nodes that are put into other graphs.
        **options: Arguments of :class:`DistilledOcclusionExplainer`.
    """

    slug = "best-attribution"
    title = "Best attribution"
    summary = "Occlusion and gradients, each distilled into scorers; transplants choose one."
    typical_seconds = 1.0

    def __init__(self, *, ratio: Share = DEFAULT_POOL_RATIO, **options: Any) -> None:
        super().__init__(**options)
        self.ratio = ratio

    def _weight(self, context: Context, distiller: Distiller, generator: torch.Generator) -> Tensor:
        assert self.reader is not None
        size = PoolSize(self.ratio)
        mix = HardMix.build(context, size, "contrast", "swap", generator, self.reader)
        (nodes, edges), seen = occlusions(context)
        labels = [(row, seen) for row in (nodes + edges, nodes, edges)]
        parts = [
            gradients(context.adapter, context.task, context.store.batch(ids))[1]
            for ids in batches(torch.arange(len(context.store)), self.batch_size)
        ]
        known = [part for part in parts if part is not None]
        if len(known) == len(parts):
            labels += [(row, torch.ones_like(seen)) for row in torch.cat(known, dim=1).to(seen)]
        weights = torch.cat([distiller.fit(*each, PENALTIES) for each in labels])
        weights = weights[weights.any(1)]  # a scorer of zeros would be one of the first nodes
        if len(weights) < 2:
            return super()._weight(context, distiller, generator)
        found = Candidates(mix, mix.draw(DRAWS))
        found.add(weights)
        return weights[found.chosen()]
