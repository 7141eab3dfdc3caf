"""Integer features as categories, for scorers that weigh what they read."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hpme.graphs import GraphBatch, GraphStore

MOST_CODES = 64
"""Columns with more codes are left to the model's embeddings."""


class Categories(nn.Module):
    """Ones and zeros in place of codes: a column for each that was met, zeros for unknown ones.

    Args:
        count: Number of codes, of all columns together.
    """

    column: Tensor
    code: Tensor

    def __init__(self, count: int = 0) -> None:
        super().__init__()
        self.register_buffer("column", torch.zeros(count, dtype=torch.long))
        self.register_buffer("code", torch.zeros(count, dtype=torch.long))

    @classmethod
    def of(cls, store: GraphStore) -> Categories | None:
        """The codes of some graphs; ``None`` if their features are numbers."""
        kinds, made = store.kinds, cls()
        if kinds.is_floating_point():
            return None
        met = [torch.unique(column) for column in kinds.long().unbind(1)]
        few = [(number, codes) for number, codes in enumerate(met) if len(codes) <= MOST_CODES]
        if few:
            made.code = torch.cat([codes for _, codes in few])
            made.column = torch.cat([torch.full_like(codes, number) for number, codes in few])
        return made.to(store.batch_device or store.device)

    def forward(self, graphs: GraphBatch) -> Tensor:
        """Categories ``[N, count]`` of nodes, in the default precision."""
        given = graphs.kinds.long().index_select(1, self.column)
        return (given == self.code).to(torch.get_default_dtype())


def read_features(categories: Categories | None, graphs: GraphBatch) -> Tensor:
    """Features as numbers: as they are, or as categories."""
    return graphs.x if categories is None else categories(graphs)
