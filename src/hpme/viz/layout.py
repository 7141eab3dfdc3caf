"""Where nodes are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import dijkstra
from torch import Tensor

Positions = npt.NDArray[np.float64]

COMPONENT_GAP = 0.6
"""Distance between nodes that no path joins, as a share of the longest path in the graph."""
LARGEST = 200
"""Nodes up to which all distances count; a larger graph is placed by those to :data:`PIVOTS`."""
PIVOTS = 60
ROUNDS = 60
STARTS = 3


def positions_of(graph: Any, starts: int = STARTS) -> Positions:
    """Where the nodes of a graph are drawn: by their edges, or by ``pos`` if it has none.

    Positions in space are seen along the axis in which they differ least; ``places`` in the plane
    stay what they are.
    """
    if graph.get("places") is not None:
        return np.asarray(graph.places, dtype=np.float64)
    position = graph.get("pos")
    if position is None or graph.num_edges or graph.num_nodes <= 1:
        return node_positions(graph.edge_index, graph.num_nodes, starts)
    flat = position.detach().cpu().double().view(graph.num_nodes, -1)
    return _upright(torch.nn.functional.pad(flat, (0, max(0, 2 - flat.shape[1]))))[:, :2].numpy()


def node_positions(edge_index: Tensor, num_nodes: int, starts: int = STARTS) -> Positions:
    """Positions ``[num_nodes, 2]``, scaled to fill [-1, 1]; always the same for the same graph.

    Distances in the drawing follow path lengths, those of short paths the closest, as in
    Kamada-Kawai layouts; the more starts, the fewer knots.
    """
    if num_nodes <= 1:
        return np.zeros((num_nodes, 2))
    source, target = edge_index.cpu().numpy()
    links = coo_matrix((np.ones(source.size), (source, target)), shape=(num_nodes, num_nodes))
    generator = torch.Generator().manual_seed(0)
    if num_nodes > LARGEST:
        pivots = torch.randperm(num_nodes, generator=generator)[:PIVOTS].numpy()
        return _upright(_scaled(_distances(links, pivots))).numpy()
    distances = _distances(links, None)
    # Twins, such as two leaves of one node, would stay at the same place without noise; more of it
    # finds ways out of knots.
    noise = torch.randn(starts, num_nodes, 2, dtype=torch.double, generator=generator)
    noise *= torch.linspace(0.05, 1.0, starts).view(-1, 1, 1)
    return _upright(_relaxed(_scaled(distances) + noise, distances)).numpy()


def _distances(links: Any, sources: npt.NDArray[np.int64] | None) -> Tensor:
    """Path lengths ``[sources, nodes]``, with a finite one between nodes that no path joins."""
    paths = torch.from_numpy(dijkstra(links, directed=False, unweighted=True, indices=sources))
    gap = max(2.0, COMPONENT_GAP * float(paths[paths.isfinite()].max()))
    return paths.nan_to_num(posinf=gap)


def _scaled(distances: Tensor) -> Tensor:
    """Classical multidimensional scaling of the distances to some nodes."""
    square = distances**2
    centred = square - square.mean(0) - square.mean(1, keepdim=True) + square.mean()
    _, size, axes = torch.linalg.svd(centred, full_matrices=False)
    positions: Tensor = axes[:2].t() * (size[:2] / len(distances) ** 0.5).sqrt()
    return positions


def _relaxed(positions: Tensor, distances: Tensor) -> Tensor:
    """Minimises squared relative errors of distances by majorisation; the best of all starts."""
    count = len(distances)
    unit = torch.eye(count, dtype=distances.dtype)  # keeps the diagonal from a division by 0
    weight = (distances + unit) ** -2 - unit
    laplacian = weight.sum(1).diag() - weight
    inverse = torch.linalg.inv(laplacian + 1 / count) - 1 / count
    pull = weight * distances
    for _ in range(ROUNDS):
        share = pull / (torch.cdist(positions, positions) + unit).clamp(min=1e-9)
        positions = inverse @ (share.sum(2, keepdim=True) * positions - share @ positions)
    error = weight * (torch.cdist(positions, positions) - distances) ** 2
    return positions[error.sum((1, 2)).argmin()]


def _upright(positions: Tensor) -> Tensor:
    """Turns the longest extent to the horizontal, where a panel has the most room."""
    centred = positions - positions.mean(0)
    turned: Tensor = centred @ torch.linalg.svd(centred, full_matrices=False).Vh.t()
    turned -= (turned.amax(0) + turned.amin(0)) / 2
    return turned / turned.abs().max().clamp(min=1e-9)
