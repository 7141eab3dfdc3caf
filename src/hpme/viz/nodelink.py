"""Graphs as dots and lines."""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from torch import Tensor

from hpme.viz.layout import node_positions
from hpme.viz.painter import undirected_edges, undirected_weights
from hpme.viz.style import ANCHOR, BORDER, FAINT, INK, POOLED, TRUTH, WEIGHTS

WIDTHS = (1.0, 4.2)


class NodeLinkPainter:
    """Draws any graph; a heavy edge is dark and wide, a node the graph is about has a ring."""

    panel = (2.3, 2.3)
    truth_colour = TRUTH
    colours = WEIGHTS

    def __init__(self) -> None:
        self._placed: tuple[Any, Any] = (None, None)

    def draw_truth(self, axes: Any, graph: Any) -> None:
        """Draws a graph with its ground truth marked."""
        positions, lines, chosen = self._lines(axes, graph)
        marked = graph.edge_mask[chosen].numpy()
        axes.add_collection(LineCollection(lines[~marked], colors=FAINT, linewidths=WIDTHS[0]))
        axes.add_collection(LineCollection(lines[marked], colors=TRUTH, linewidths=3.0))
        _draw_nodes(axes, positions, graph.get("node_mask"), TRUTH)
        _ring(axes, positions, graph)

    def draw_weights(self, axes: Any, graph: Any, explanation: Any, norm: Normalize) -> None:
        """Draws a graph with the edge weights of an explanation, pooled nodes marked."""
        positions, lines, chosen = self._lines(axes, graph)
        weight = undirected_weights(graph, explanation.edge_mask)[chosen]
        order = weight.argsort().numpy()  # heavy edges over light ones
        share = norm(weight.numpy()[order])
        widths = WIDTHS[0] + share * (WIDTHS[1] - WIDTHS[0])
        axes.add_collection(LineCollection(lines[order], colors=WEIGHTS(share), linewidths=widths))
        _draw_nodes(axes, positions, explanation.get("pooled"), POOLED)
        _ring(axes, positions, graph)

    def finish(self, content: bytes) -> bytes:
        """The file as it is."""
        return content

    def _lines(self, axes: Any, graph: Any) -> tuple[Any, Any, Tensor]:
        """Node positions, ends of every undirected edge once, and the edges they stand for."""
        axes.set_aspect("equal")
        axes.set_axis_off()
        axes.set_xlim(-1.12, 1.12)
        axes.set_ylim(-1.12, 1.12)
        if self._placed[0] is not graph:  # the panels of a graph follow each other
            self._placed = graph, node_positions(graph.edge_index, graph.num_nodes)
        positions, chosen = self._placed[1], undirected_edges(graph)
        return positions, positions[graph.edge_index[:, chosen].t().numpy()], chosen


def _draw_nodes(axes: Any, positions: Any, marked: Tensor | None, colour: str) -> None:
    size = 42 if len(positions) <= 40 else 18
    style = {"edgecolors": INK, "linewidths": 0.8, "zorder": 3}
    if marked is None:
        marked = torch.zeros(len(positions), dtype=torch.bool)
    chosen = marked.numpy()
    rest = {**style, "edgecolors": BORDER}
    axes.scatter(*positions[~chosen].T, s=size / 2.5, c="white", **rest)
    axes.scatter(*positions[chosen].T, s=size, c=colour, **style)


def _ring(axes: Any, positions: Any, graph: Any) -> None:
    """Puts a ring around the anchors of a graph, if it has any."""
    anchors = graph.get("anchors")
    if anchors is not None:
        size = 130 if len(positions) <= 40 else 70
        style = {"facecolors": "none", "edgecolors": ANCHOR, "linewidths": 1.8, "zorder": 4}
        axes.scatter(*positions[anchors.view(-1).numpy()].T, s=size, **style)
