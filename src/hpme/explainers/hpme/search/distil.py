"""Scorers that generalise over graphs what was found graph by graph."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hpme.graphs import GraphBatch
from hpme.graphs.segment import segment_mean, standardise_in_segment

PENALTIES = (0.3, 3.0, 30.0)
"""How strongly scorers are smoothed: those of attributions by the middle one, those of searched
labels by each, and hard mixes decide."""


def standardise(scores: Tensor, graphs: GraphBatch) -> Tensor:
    """Zero mean and unit variance inside every graph, for each row of ``[P, N]`` scores."""
    return standardise_in_segment(scores.T, graphs.batch, graphs.num_graphs).T


def importance(scores: Tensor, graphs: GraphBatch) -> Tensor:
    """Importance of nodes from 0 to 1, by scores ``[P, N]`` of unit variance over all graphs.

    A node counts by its place in its graph, and by what all graphs say about its like: where
    nothing carries the prediction, the best of a graph should not look important.
    """
    return ((standardise(scores, graphs) / 2).sigmoid() + (scores / 2).sigmoid()) / 2


class LinearPool(nn.Module):
    r"""A stack of :math:`P` pools that score nodes by weighing what they see.

    The same role as :class:`~hpme.explainers.hpme.method.pool.Pool`. Pools of this kind can be
    averaged, and the average is one of them. Weights are ``[P, D]``.
    """

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.clone())

    def forward(self, features: Tensor, graphs: GraphBatch, m: Tensor) -> Tensor:
        """Scores ``[P, N]`` of nodes with features ``[N, D]``; they do not depend on ``m``."""
        return (features @ self.weight.T).T


class Distiller:
    """Ridge regression of labels on features, both centred inside every graph.

    Only differences between the nodes of a graph count, as they do for a pool. One scorer for all
    graphs averages out the noise of what each graph's search found; the penalty decides how much.

    Args:
        features: What scorers see, ``[N, D]``.
        graphs: The graphs.
    """

    def __init__(self, features: Tensor, graphs: GraphBatch) -> None:
        self.graphs = graphs
        mean = segment_mean(features, graphs.batch, graphs.num_graphs)
        self.centred = features - mean[graphs.batch]
        if graphs.anchors is not None:  # all subsets hold them, so their labels say nothing
            self.centred = self.centred.index_fill(0, graphs.anchors.flatten(), 0.0)

    def fit(
        self, labels: Tensor, weights: Tensor, penalties: Sequence[float] = PENALTIES[1:2]
    ) -> Tensor:
        """Weights ``[len(penalties), D]`` of scorers of nodes' labels ``[N]``, by graphs' weights.

        Penalties are in units of the mean eigenvalue of the weighted covariance.
        """
        wanted = standardise(labels.unsqueeze(0), self.graphs)[0]
        share = (weights / weights.mean().clamp(min=1e-12))[self.graphs.batch].to(wanted)
        weighted = (self.centred * share.unsqueeze(1)).T
        values, vectors = torch.linalg.eigh((weighted @ self.centred).double())
        values = values.clamp(min=0)
        projected = vectors.T @ (weighted @ wanted).double()
        unit = values.mean().clamp(min=1e-12)
        rows = [vectors @ (projected / (values + penalty * unit)) for penalty in penalties]
        return torch.stack(rows).to(wanted)
