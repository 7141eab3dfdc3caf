"""Best attribution: occlusion and gradients, each distilled, and transplants say which is best."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hpme.data.dataset import DEFAULT_POOL_RATIO
from hpme.explainers.distilled_occlusion import DistilledOcclusionExplainer
from hpme.explainers.hpme.method.pool import PoolSize
from hpme.explainers.hpme.refining import Local
from hpme.explainers.hpme.search.chains import DRAWS, Candidates
from hpme.explainers.hpme.search.distil import Distiller
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.shared.context import Context
from hpme.explainers.shared.options import Share


class BestAttributionExplainer(DistilledOcclusionExplainer):
    """Where HPME's search begins, without the search.

    Occlusion and gradients, each distilled into a scorer for all graphs; the scorer is taken whose
    highest nodes best keep predictions in other graphs (hard mixes).

    Args:
        ratio: Share of nodes that are put into other graphs.
        **options: Arguments of :class:`DistilledOcclusionExplainer`.
    """

    slug = "best-attribution"
    title = "Best attribution"
    summary = "Occlusion and gradients, each distilled into one scorer; transplants choose one."
    typical_seconds = 1.0

    def __init__(self, *, ratio: Share = DEFAULT_POOL_RATIO, **options: Any) -> None:
        super().__init__(**options)
        self.ratio = ratio

    def _weight(self, context: Context, distiller: Distiller, generator: torch.Generator) -> Tensor:
        reader, gradients = self.reader, Local("gradient", context.adapter, context.task)
        assert reader is not None
        size = PoolSize(self.ratio)
        mix = HardMix.build(context, size, "contrast", "swap", generator, reader)
        slopes, every = gradients(mix.graphs)[1], torch.ones_like(mix.graphs.sizes)
        weights = torch.stack([
            super()._weight(context, distiller, generator),
            distiller.fit(slopes, every.to(slopes))[0],
        ])  # fmt: skip
        says = weights.any(1).nonzero().view(-1)
        if len(says) < 2:  # a scorer of zeros would be one of the first nodes
            return weights[int(says[0]) if len(says) else 0]
        found = Candidates(mix, mix.draw(DRAWS))
        found.add(weights)
        return weights[found.chosen()]
