"""What draws one graph into a panel of a gallery."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from matplotlib.colors import Normalize
from torch import Tensor

from hpme.graphs.segment import reverse_edge_index


class Painter(Protocol):
    """Draws graphs; all panels of a graph place its nodes alike."""

    panel: tuple[float, float]  # width and height of a panel in inches
    truth_colour: str
    colours: Any  # colours of edge weights, from light to heavy

    def draw_truth(self, axes: Any, graph: Any) -> None:
        """Draws a graph with its ground truth marked."""

    def draw_weights(self, axes: Any, graph: Any, explanation: Any, norm: Normalize) -> None:
        """Draws a graph with the edge weights of an explanation, pooled nodes marked."""

    def finish(self, content: bytes) -> bytes:
        """The picture file with what matplotlib could not draw."""


def undirected_edges(graph: Any) -> Tensor:
    """Numbers of the edges that stand for every pair of connected nodes once."""
    source, target = graph.edge_index
    reverse = reverse_edge_index(graph.edge_index, graph.num_nodes)
    alone = reverse == torch.arange(reverse.numel())
    chosen: Tensor = (source < target) | (alone & (source != target))
    return chosen.nonzero().view(-1)


def undirected_weights(graph: Any, weights: Tensor) -> Tensor:
    """Weights of all edges, the two directions averaged."""
    weights = weights.detach()
    reverse = reverse_edge_index(graph.edge_index, graph.num_nodes)
    return (weights + weights[reverse]) / 2
