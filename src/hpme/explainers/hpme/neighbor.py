r"""How the other graph :math:`G'` of a mixup is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Neighbor = Literal["random", "near", "far"]


@dataclass(frozen=True)
class NeighborSampler:
    r"""Draws one :math:`G'` for every graph.

    Args:
        graph_embedding: :math:`\mathbf{h}_G` of all graphs.
        generator: Source of randomness.
        neighbor: ``"random"`` draws uniformly; ``"near"`` and ``"far"`` take the most and the
            least similar (cosine) of a few random graphs, so the cost stays linear.
        tries: How many random graphs ``"near"`` and ``"far"`` choose from.
    """

    graph_embedding: Tensor
    generator: torch.Generator
    neighbor: Neighbor = "random"
    tries: int = 8

    def draw(self, ids: Tensor) -> Tensor:
        """Graph numbers of the hosts of the graphs ``ids``."""
        total = self.graph_embedding.shape[0]
        tries = 1 if self.neighbor == "random" else self.tries
        drawn = torch.randint(total, (tries, ids.numel()), generator=self.generator).to(ids.device)
        if self.neighbor == "random":
            return drawn[0]
        similarity = F.cosine_similarity(
            self.graph_embedding[drawn], self.graph_embedding[ids].unsqueeze(0), dim=-1
        )
        best = similarity.argmax(0) if self.neighbor == "near" else similarity.argmin(0)
        return drawn.gather(0, best.unsqueeze(0)).squeeze(0)
