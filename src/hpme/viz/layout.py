"""Where nodes are drawn."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt
from torch import Tensor

Positions = npt.NDArray[np.float64]

COMPONENT_GAP = 0.6
"""Distance between nodes that no path joins, as a share of the longest path in the graph."""


def node_positions(edge_index: Tensor, num_nodes: int) -> Positions:
    """Kamada-Kawai positions ``[num_nodes, 2]``, scaled to fill [-1, 1]; always the same."""
    graph = nx.Graph()
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from(edge_index.t().tolist())
    if num_nodes == 0:
        return np.zeros((0, 2))
    placed: dict[int, Any] = nx.kamada_kawai_layout(graph, dist=_distances(graph))
    positions = np.stack([placed[node] for node in range(num_nodes)])
    return _upright(positions)


def _distances(graph: Any) -> dict[int, dict[int, float]]:
    """Path lengths, with a finite one between nodes that no path joins."""
    paths = dict(nx.all_pairs_shortest_path_length(graph))
    longest = max(max(lengths.values()) for lengths in paths.values())
    gap = max(2.0, COMPONENT_GAP * longest)
    return {
        node: {other: lengths.get(other, gap) for other in graph} for node, lengths in paths.items()
    }


def _upright(positions: Positions) -> Positions:
    """Turns the longest extent to the horizontal, where a panel has the most room."""
    centred = positions - positions.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    turned = centred @ axes.T if axes.shape == (2, 2) else centred
    turned -= (turned.max(0) + turned.min(0)) / 2
    scaled: Positions = turned / max(float(np.abs(turned).max()), 1e-9)
    return scaled
