r"""Which other real graph :math:`G'` a graph is mixed with."""

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
        apart: Whether only graphs on the other side of a yes or no are drawn: a question "why this
            class, not that one" takes hosts of that one.
    """

    graph_embedding: Tensor
    values: Tensor
    generator: torch.Generator
    neighbor: Neighbor = "contrast"
    apart: bool = False

    def __call__(self, ids: Tensor) -> Tensor:
        """Graph numbers of the hosts of the graphs ``ids``."""
        ids = ids.to(self.values.device)
        drawn = self._random(ids, {"random": 1, "contrast": 4}.get(self.neighbor, 8))
        if self.neighbor == "random":
            return drawn[0]
        if self.neighbor == "contrast":
            preferred = (self.values[drawn] - self.values[ids]).norm(dim=-1)
        else:
            own, others = self.graph_embedding[ids].unsqueeze(0), self.graph_embedding[drawn]
            preferred = F.cosine_similarity(others, own, dim=-1)
            preferred = preferred if self.neighbor == "near" else -preferred
        return drawn.gather(0, preferred.argmax(0, keepdim=True)).squeeze(0)

    def _random(self, ids: Tensor, tries: int) -> Tensor:
        """Numbers ``[tries, B]`` of random graphs, of the other side if there are any."""
        form, side = (tries, ids.numel()), self.values.argmax(1)
        sizes = torch.bincount(side, minlength=2)
        if not self.apart or not bool(sizes.all()):
            return torch.randint(len(side), form, generator=self.generator).to(ids.device)
        other = 1 - side[ids]  # those of side 0 come first
        share = torch.rand(form, generator=self.generator).to(ids.device)
        return side.argsort(stable=True)[other * sizes[0] + (share * sizes[other]).long()]
