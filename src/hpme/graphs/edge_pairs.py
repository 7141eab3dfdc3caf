"""Both directions between two nodes as one thing: shared weights, shared noise, joint scores."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hpme.graphs.batch import GraphBatch
from hpme.graphs.segment import segment_mean, segment_sum


@dataclass(frozen=True)
class EdgePairs:
    r"""Connected pairs of nodes, and the pair of every edge.

    Unlike :class:`~hpme.graphs.batch.Pairs` it follows the edges of a batch as they are: an edge
    that is listed twice belongs to one pair.

    Args:
        index: :math:`[2, P]` with the smaller node first; a self-loop is a pair of one node.
        of_edge: Pair :math:`[E]` of every edge.
    """

    index: Tensor
    of_edge: Tensor

    @classmethod
    def of(cls, graphs: GraphBatch) -> EdgePairs:
        """The pairs of a batch of graphs."""
        low, high = graphs.edge_index.min(0).values, graphs.edge_index.max(0).values
        stride = max(1, graphs.num_nodes)
        key, of_edge = torch.unique(low * stride + high, return_inverse=True)
        return cls(torch.stack([key // stride, key % stride]), of_edge)

    def per_edge(self, pair_values: Tensor) -> Tensor:
        """Values of pairs at their edges."""
        # The backward pass of index_select is an index_add, that of indexing is much slower.
        return pair_values.index_select(0, self.of_edge)

    def sum(self, edge_values: Tensor) -> Tensor:
        """Every edge's sum over all edges of its pair."""
        return self.per_edge(segment_sum(edge_values, self.of_edge, self.index.shape[1]))

    def mean(self, edge_values: Tensor) -> Tensor:
        """Every edge's mean over all edges of its pair."""
        return self.per_edge(segment_mean(edge_values, self.of_edge, self.index.shape[1]))
