"""Random importance: the line every explainer must beat."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hpme.data.batch import GraphBatch
from hpme.data.segment import segment_sum
from hpme.explainers.base import GraphExplainer, Masks
from hpme.models.adapter import ModelAdapter


class RandomExplainer(GraphExplainer):
    """Uniform noise that belongs to the graph.

    Numbers drawn in order would give a graph other masks in a batch than alone, and other masks
    after its nodes are renumbered. So the noise is a hash of the seed, of the whole graph and of
    each pair's place in it (colour refinement in integer arithmetic, which has no rounding).
    """

    slug = "random"
    summary = "Random edge scores; the line every explainer must beat."
    needs_fit = False
    rounds = 8

    def _explain(self, adapter: ModelAdapter, graphs: GraphBatch, **model_kwargs: Any) -> Masks:
        source, target = graphs.edge_index
        bits = graphs.x.to(torch.float32).view(torch.int32).long()
        color = _hash(bits + torch.arange(bits.shape[1], device=bits.device)).sum(1) + self.seed
        for _ in range(self.rounds):
            color = _hash(color + 3 * segment_sum(_hash(color[source]), target, len(color)))
        graph = segment_sum(_hash(color), graphs.batch, graphs.num_graphs)
        pair = _hash(color[source]) + _hash(color[target]) + graph[graphs.edge_batch]
        noise = (_hash(pair) >> 16 & 0xFFFFFF).to(graphs.x.dtype) / 2**24
        return Masks(edge_mask=noise)


def _hash(value: Tensor) -> Tensor:
    """Mixes the bits of integers; multiplication wraps around on purpose."""
    for factor in (-7046029254386353131, -4658895280553007687):
        value = (value ^ (value >> 29)) * factor
    return value ^ (value >> 32)
