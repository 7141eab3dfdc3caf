"""Modules whose initial weights come from a generator of their own."""

from __future__ import annotations

import torch
from torch import nn


def seeded_linear(in_channels: int, out_channels: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer initialised as PyTorch does, leaving the global random state alone."""
    layer = nn.Linear(in_channels, out_channels, device="meta")
    layer.to_empty(device=torch.get_default_device())
    bound = in_channels**-0.5
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-bound, bound, generator=generator)
    return layer
