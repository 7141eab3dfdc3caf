"""What an explainer says."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Masks:
    """What an explainer says about a batch of graphs: importance of edges, nodes, pooled nodes."""

    edge_mask: Tensor
    node_mask: Tensor | None = None
    pooled: Tensor | None = None

    def given(self) -> dict[str, Tensor]:
        """Those that the explainer gives."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def to(self, device: torch.device) -> Masks:
        """The masks on another device."""
        return Masks(**{name: value.to(device) for name, value in self.given().items()})
