"""Graphs as dots and lines, and where the dots lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import dijkstra
from torch import Tensor

from hpme.graphs.schema import NODE_TYPE
from hpme.graphs.segment import reverse_edge_index
from hpme.viz.style import ANCHOR, BORDER, FAINT, INK, POOLED, REST, TRUTH, TYPES, WEIGHTS, tones

Positions = npt.NDArray[np.float64]

COMPONENT_GAP = 0.6
"""Distance between nodes that no path joins, as a share of the longest path in the graph."""
LARGEST = 200
"""Nodes up to which all distances count; a larger graph is placed by those to :data:`PIVOTS`."""
PIVOTS = 60
ROUNDS = 60
STARTS = 3


def positions_of(graph: Any, starts: int = STARTS) -> Positions:
    """Where the nodes of a graph are drawn: at ``places``, by their edges, or by ``pos``."""
    if graph.get("places") is not None:
        return np.asarray(graph.places, dtype=np.float64)
    position = graph.get("pos")
    if position is None or graph.num_edges or graph.num_nodes <= 1:
        return node_positions(graph.edge_index, graph.num_nodes, starts)
    flat = position.detach().cpu().double().view(graph.num_nodes, -1)
    return _upright(torch.nn.functional.pad(flat, (0, max(0, 2 - flat.shape[1]))))[:, :2].numpy()


def node_positions(edge_index: Tensor, num_nodes: int, starts: int = STARTS) -> Positions:
    """Positions ``[num_nodes, 2]`` in [-1, 1] by path lengths; more starts give fewer knots."""
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
    # Squared relative errors of distances are minimised by majorisation; the best start counts.
    positions, unit = _scaled(distances) + noise, torch.eye(num_nodes, dtype=distances.dtype)
    weight = (distances + unit) ** -2 - unit  # the unit keeps the diagonal from a division by 0
    laplacian = weight.sum(1).diag() - weight
    inverse = torch.linalg.inv(laplacian + 1 / num_nodes) - 1 / num_nodes
    pull = weight * distances
    for _ in range(ROUNDS):
        share = pull / (torch.cdist(positions, positions) + unit).clamp(min=1e-9)
        positions = inverse @ (share.sum(2, keepdim=True) * positions - share @ positions)
    error = weight * (torch.cdist(positions, positions) - distances) ** 2
    return _upright(positions[error.sum((1, 2)).argmin()]).numpy()


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


def _upright(positions: Tensor) -> Tensor:
    """Turns the longest extent to the horizontal, where a panel has the most room."""
    centred = positions - positions.mean(0)
    turned: Tensor = centred @ torch.linalg.svd(centred, full_matrices=False).Vh.t()
    turned -= (turned.amax(0) + turned.amin(0)) / 2
    return turned / turned.abs().max().clamp(min=1e-9)


WIDTHS = (1.0, 4.2)


class NodeLinkPainter:
    """Draws any graph; a heavy edge is dark and wide, a node the graph is about has a ring."""

    panel = (2.3, 2.3)  # width and height in inches
    truth_colour = TRUTH
    colours = WEIGHTS  # of edge weights, from light to heavy

    def __init__(self, starts: int = STARTS) -> None:
        self._starts = starts
        self._placed: tuple[Any, Any] = (None, None)

    def draw_truth(self, axes: Any, graph: Any) -> None:
        """Draws a graph with its ground truth marked."""
        self.draw_marked(axes, graph, graph.edge_mask, graph.get("node_mask"), self.truth_colour)

    def draw_marked(
        self, axes: Any, graph: Any, edges: Tensor, nodes: Tensor | None, colour: str
    ) -> None:
        """Draws a graph with some edges and nodes in a colour."""
        positions, lines, chosen = self._lines(axes, graph)
        marked = edges[chosen].numpy()
        axes.add_collection(LineCollection(lines[~marked], colors=FAINT, linewidths=WIDTHS[0]))
        axes.add_collection(LineCollection(lines[marked], colors=colour, linewidths=3.0))
        _draw_nodes(axes, positions, graph, nodes, colour)

    def draw_weights(self, axes: Any, graph: Any, explanation: Any, norm: Normalize) -> None:
        """Draws a graph with edge weights, pooled nodes and the rest marked."""
        positions, lines, chosen = self._lines(axes, graph)
        weight = undirected_weights(graph, explanation.edge_mask)[chosen]
        order = weight.argsort().numpy()  # heavy edges over light ones
        share = norm(weight.numpy()[order])
        widths = WIDTHS[0] + share * (WIDTHS[1] - WIDTHS[0])
        axes.add_collection(LineCollection(lines[order], colors=WEIGHTS(share), linewidths=widths))
        pooled, signed = explanation.get("pooled"), tones(explanation)
        _draw_nodes(axes, positions, graph, pooled, POOLED)
        rest, plain = explanation.get("rest"), graph.get("type_names") is None
        if signed is not None and pooled is not None and plain:
            sizes = np.where(pooled.numpy(), 42, 17) if len(positions) <= 40 else 18
            axes.scatter(*positions.T, s=sizes, c=signed, edgecolors=INK, linewidths=0.8, zorder=4)
        if rest is not None:
            look = {"c": REST, "edgecolors": INK} if plain else {"c": "none", "edgecolors": REST}
            axes.scatter(*positions[rest.numpy()].T, s=42, zorder=4, **look)

    def finish(self, content: bytes) -> bytes:
        """The content of the file, as it is."""
        return content

    def _lines(self, axes: Any, graph: Any) -> tuple[Any, Any, Tensor]:
        """Node positions, ends of every undirected edge once, and the edges they stand for."""
        empty_panel(axes)
        if self._placed[0] is not graph:  # the panels of a graph follow each other
            self._placed = graph, positions_of(graph, self._starts)
        positions, chosen = self._placed[1], undirected_edges(graph)
        return positions, positions[graph.edge_index[:, chosen].t().numpy()], chosen


def _draw_nodes(axes: Any, positions: Any, graph: Any, marked: Tensor | None, colour: str) -> None:
    """All nodes, the marked ones large and coloured or, where types have colours, rimmed."""
    small = len(positions) <= 40
    chosen = np.zeros(len(positions), bool) if marked is None else marked.numpy()
    size = 42 if small else 18
    if graph.get("type_names") is None:
        style = {"linewidths": 0.8, "zorder": 3}
        axes.scatter(*positions[~chosen].T, s=size / 2.5, c="white", edgecolors=BORDER, **style)
        axes.scatter(*positions[chosen].T, s=size, c=colour, edgecolors=INK, **style)
    else:
        kinds = graph[NODE_TYPE].numpy()
        for kind in np.unique(kinds):
            face, shape = TYPES[kind % len(TYPES)]
            for there, large, rim, width in (~chosen, 0.5, "white", 0.6), (chosen, 1.6, colour, 2):
                axes.scatter(
                    *positions[(kinds == kind) & there].T, s=large * size, c=face, marker=shape,
                    edgecolors=rim, linewidths=width, zorder=3,
                )  # fmt: skip
    if graph.get("anchors") is not None:
        ring = {"facecolors": "none", "edgecolors": ANCHOR, "linewidths": 1.8, "zorder": 4}
        places = positions[graph.anchors.view(-1).numpy()]
        axes.scatter(*places.T, s=130 if small else 70, **ring)


def empty_panel(axes: Any) -> None:
    """Room for nodes between -1 and 1, without axes."""
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_xlim(-1.12, 1.12)
    axes.set_ylim(-1.12, 1.12)


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
