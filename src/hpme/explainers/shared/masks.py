"""What an explainer says."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Masks:
    """What an explainer says about a batch of graphs: importance of edges, nodes, pooled nodes.

    ``output`` is what the model says about the graphs, where that was computed on the way.
    """

    edge_mask: Tensor
    node_mask: Tensor | None = None
    pooled: Tensor | None = None
    output: Tensor | None = None

    def given(self) -> dict[str, Tensor]:
        """Masks that the explainer gives."""
        named = {"edge_mask": self.edge_mask, "node_mask": self.node_mask, "pooled": self.pooled}
        return {name: value for name, value in named.items() if value is not None}

    def to(self, device: torch.device) -> Masks:
        """The masks on another device."""
        output = None if self.output is None else self.output.to(device)
        return Masks(**{n: v.to(device) for n, v in self.given().items()}, output=output)
