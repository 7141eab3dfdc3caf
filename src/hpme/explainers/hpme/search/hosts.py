r"""How the other graph :math:`G'` of a mixup is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Neighbor = Literal["contrast", "random", "near", "far"]


@dataclass(frozen=True)
class HostSampler:
    r"""Draws one :math:`G'` for every graph.

    Args:
        graph_embedding: :math:`\mathbf{h}_G` of all graphs.
        values: Predictions of all graphs, see :meth:`~hpme.models.task.Task.values`.
        generator: Source of randomness.
        neighbor: ``"contrast"`` takes a graph of another prediction: on a host of the same one,
            every selection looks right. It is the one whose prediction is farthest of a few
            random graphs; few, lest extreme predictions host everything. ``"random"`` draws
            uniformly; ``"near"`` and ``"far"`` take the most and the least similar (cosine) of a
            few random graphs, so the cost stays linear.
        tries: How many random graphs a choice by similarity is made from; half as many for one by
            prediction.
    """

    graph_embedding: Tensor
    values: Tensor
    generator: torch.Generator
    neighbor: Neighbor = "contrast"
    tries: int = 8

    def __call__(self, ids: Tensor) -> Tensor:
        """Graph numbers of the hosts of the graphs ``ids``."""
        ids = ids.to(self.values.device)
        if self.neighbor == "random":
            return self._random(ids, 1)[0]
        if self.neighbor == "contrast":
            drawn = self._random(ids, self.tries // 2)
            return _pick(drawn, (self.values[drawn] - self.values[ids]).norm(dim=-1))
        drawn = self._random(ids, self.tries)
        similarity = F.cosine_similarity(
            self.graph_embedding[drawn], self.graph_embedding[ids].unsqueeze(0), dim=-1
        )
        return _pick(drawn, similarity if self.neighbor == "near" else -similarity)

    def _random(self, ids: Tensor, tries: int) -> Tensor:
        total = self.values.shape[0]
        return torch.randint(total, (tries, ids.numel()), generator=self.generator).to(ids.device)


def _pick(drawn: Tensor, preference: Tensor) -> Tensor:
    return drawn.gather(0, preference.argmax(0, keepdim=True)).squeeze(0)
