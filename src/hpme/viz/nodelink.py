"""Graphs as dots and lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from torch import Tensor

from hpme.graphs.schema import NODE_TYPE
from hpme.graphs.segment import reverse_edge_index
from hpme.viz.layout import STARTS, positions_of
from hpme.viz.style import ANCHOR, BORDER, FAINT, INK, POOLED, REST, TRUTH, TYPES, WEIGHTS, tones

WIDTHS = (1.0, 4.2)


class NodeLinkPainter:
    """Draws any graph; a heavy edge is dark and wide, a node the graph is about has a ring.

    Every type of nodes has its colour and shape.
    """

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
            for there, large, rim, width in (
                (~chosen, 0.5, "white", 0.6),
                (chosen, 1.6, colour, 2),
            ):
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
