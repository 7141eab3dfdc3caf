"""From scores of edges or nodes to masks of both."""

from __future__ import annotations

import torch
from torch import Tensor

from hpme.explainers.shared.masks import Masks
from hpme.graphs import GraphBatch


def squash(score: Tensor) -> Tensor:
    """Scores of at least 0 in [0, 1), in the same order, in the default precision."""
    return (score / (1 + score)).to(torch.get_default_dtype())


def from_edges(edge_mask: Tensor, graphs: GraphBatch) -> Masks:
    """Every node is as important as its heaviest edge; without edges 0."""
    nodes = edge_mask.new_zeros(graphs.num_nodes)
    for ends in graphs.edge_index:
        nodes = nodes.scatter_reduce(0, ends, edge_mask, "amax")
    return Masks(edge_mask, nodes.unsqueeze(1))


def from_nodes(node_mask: Tensor, graphs: GraphBatch) -> Masks:
    """Every edge is as important as the less important of its two ends.

    An edge belongs to a set of nodes if both ends do. On BA-2Motifs (three seeds) nodes' occlusion
    has an edge AUC of .98 this way, and of .93 with the mean of both ends.
    """
    return Masks(node_mask[graphs.edge_index].amin(0), node_mask.unsqueeze(1))
