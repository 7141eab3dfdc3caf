"""Pictures of single graphs: explanations of several methods, and mixup graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch_geometric.data import Data
from torch_geometric.explain import Explanation

from hpme.viz.figures import plain
from hpme.viz.layout import node_positions
from hpme.viz.molecules import MoleculePainter, can_draw_molecules
from hpme.viz.nodelink import NodeLinkPainter
from hpme.viz.painter import Painter, undirected_edges, undirected_weights
from hpme.viz.style import BORDER, EXPLAINED, INK, OTHERS, POOLED

MOST_EDGES = 64
"""Edges drawn of a mixup graph that is complete, as in the paper."""
MIXUP_PANEL = (2.6, 2.5)


def case_picture(graphs: Sequence[Any], explanations: Mapping[str, Sequence[Any]]) -> Any:
    """Ground truth beside the heaviest edges of each explainer, a row per graph.

    Of every explanation as many edges are drawn as the ground truth has. Pooled nodes are marked.

    Args:
        graphs: Graphs with ``edge_mask`` and ``node_mask``.
        explanations: One explanation per graph, by name of the explainer.
    """
    painter: Painter = MoleculePainter(".png") if can_draw_molecules(graphs) else NodeLinkPainter()
    figure, rows = _frame(len(graphs), ["Ground truth", *explanations], painter.panel)
    norm = Normalize(0.0, 1.0)
    for number, (graph, panels) in enumerate(zip(graphs, rows, strict=True)):
        painter.draw_truth(panels[0], graph)
        for panel, items in zip(panels[1:], explanations.values(), strict=True):
            painter.draw_weights(panel, graph, heaviest(graph, items[number]), norm)
    handles: list[Any] = [Line2D([], [], color=painter.truth_colour, lw=3)]
    handles.append(Line2D([], [], color=painter.colours(1.0), lw=3))
    labels = ["ground truth", "as many of the heaviest edges"]
    if any(e.get("pooled") is not None for items in explanations.values() for e in items):
        handles.append(Line2D([], [], ls="", marker="o", ms=7, mec=INK, mfc=POOLED))
        labels.append("pooled node")
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def heaviest(graph: Any, explanation: Any) -> Explanation:
    """The explanation with weight 1 on as many edges as the ground truth has, 0 on the others."""
    chosen = undirected_edges(graph)
    weight = undirected_weights(graph, explanation.edge_mask)
    count = int(graph.edge_mask[chosen].sum())
    top = chosen[weight[chosen].argsort(descending=True, stable=True)[:count]]
    ends = {tuple(sorted(pair)) for pair in graph.edge_index[:, top].t().tolist()}
    kept = [tuple(sorted(pair)) in ends for pair in graph.edge_index.t().tolist()]
    result = Explanation(edge_index=graph.edge_index, edge_mask=torch.tensor(kept).float())
    if explanation.get("pooled") is not None:
        result.pooled = explanation.pooled
    return result


def mixup_picture(graphs: Sequence[Any], mixups: Mapping[str, Sequence[Data]]) -> Any:
    """Ground truth beside the mixup graphs of each explainer, a row per graph.

    Edges of the explanation are red, all others blue, darker the more they weigh; random edges
    between two joined graphs are dashed. Of complete graphs the :data:`MOST_EDGES` heaviest edges
    are drawn.

    Args:
        graphs: Graphs with ``edge_mask`` and ``node_mask``.
        mixups: One mixup graph per graph, by name of the explainer, with ``edge_weight`` and the
            boolean edge masks ``transplanted`` and ``bridge``, see
            :class:`~hpme.explainers.MixupGraphs`.
    """
    painter = NodeLinkPainter()
    figure, rows = _frame(len(graphs), ["Ground truth", *mixups], MIXUP_PANEL)
    for number, (graph, panels) in enumerate(zip(graphs, rows, strict=True)):
        painter.draw_truth(panels[0], graph)
        for panel, mixed in zip(panels[1:], mixups.values(), strict=True):
            _draw_mixup(panel, graph, mixed[number])
    _mixup_key(figure, rows, [graph for mixed in mixups.values() for graph in mixed])
    return figure


def partner_picture(rows: Mapping[str, tuple[Any, Any, Data]]) -> Any:
    """A graph, the graph it is mixed with, and the mixup of both; a row for each.

    Args:
        rows: Graph, partner and mixup graph by title of the row, see :func:`mixup_picture`.
    """
    painter = NodeLinkPainter()
    titles = ["Ground truth", "Ground truth of the partner", "Mixup graph"]
    figure, panels = _frame(len(rows), titles, MIXUP_PANEL)
    for axes, (title, (graph, partner, mixed)) in zip(panels, rows.items(), strict=True):
        painter.draw_truth(axes[0], graph)
        painter.draw_truth(axes[1], partner)
        _draw_mixup(axes[2], graph, mixed)
        axes[0].annotate(
            plain(title), (-0.02, 0.5), xycoords="axes fraction", rotation=90, ha="right",
            va="center", fontsize=11, color=INK,
        )  # fmt: skip
    _mixup_key(figure, panels, [mixed for *_, mixed in rows.values()])
    return figure


def _mixup_key(figure: Any, panels: Any, mixups: Sequence[Data]) -> None:
    handles = [Line2D([], [], color=colours(0.9), lw=3) for colours in (EXPLAINED, OTHERS)]
    labels = ["from the explanation", "from the rest"]
    if any(bool(mixed.bridge.any()) for mixed in mixups):
        handles.append(Line2D([], [], color=BORDER, lw=1.3, ls="--"))
        labels.append("random connection")
    figure.legend(handles, labels, loc="outside lower left", ncols=3, frameon=False, fontsize=9)
    bar = figure.colorbar(
        ScalarMappable(Normalize(0, 1), OTHERS), ax=panels.ravel().tolist(),
        orientation="vertical", shrink=0.35, aspect=22, pad=0.01, anchor=(0, 0),
    )  # fmt: skip
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, color=INK, labelcolor=INK, length=2)
    bar.set_label("edge weight", fontsize=8.5, color=INK)


def _draw_mixup(axes: Any, graph: Any, mixed: Data) -> None:
    size, chosen = int(mixed.num_nodes), undirected_edges(mixed)
    weight = undirected_weights(mixed, mixed.edge_weight)
    complete = size > 2 and len(chosen) == size * (size - 1) // 2
    chosen = chosen[weight[chosen].argsort(stable=True)]  # heavy edges over light ones
    chosen = chosen[-MOST_EDGES:] if complete else chosen
    # A graph rebuilt on its own nodes is best compared where these nodes are.
    base = graph if complete and graph.num_nodes == size else mixed
    positions = node_positions(base.edge_index, size)
    lines = positions[mixed.edge_index[:, chosen].t().numpy()]
    share, bridge, red = weight[chosen], mixed.bridge[chosen], mixed.transplanted[chosen]
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_xlim(-1.12, 1.12)
    axes.set_ylim(-1.12, 1.12)
    for mask, colours in ((~bridge & ~red, OTHERS), (red, EXPLAINED)):
        part = share[mask].numpy()
        style = {"colors": colours(part), "linewidths": 0.8 + 2.6 * part}
        axes.add_collection(LineCollection(lines[mask.numpy()], **style))
    axes.add_collection(
        LineCollection(lines[bridge.numpy()], colors=BORDER, linewidths=1.3, linestyles="--")
    )
    inside = torch.zeros(size, dtype=torch.bool)
    inside[mixed.edge_index[:, chosen[red & (share >= 0.5)]].flatten()] = True
    dots = {"linewidths": 0.8, "zorder": 3}
    axes.scatter(*positions[~inside.numpy()].T, s=15, c="white", edgecolors=BORDER, **dots)
    axes.scatter(*positions[inside.numpy()].T, s=32, c=[EXPLAINED(0.85)], edgecolors=INK, **dots)


def _frame(rows: int, titles: Sequence[str], panel: tuple[float, float]) -> tuple[Any, Any]:
    """The figure and its panels, titles above the first row."""
    width, height = panel
    figure: Any = Figure(figsize=(width * len(titles), height * rows + 0.75), layout="constrained")
    panels = figure.subplots(rows, len(titles), squeeze=False)
    for axes, title in zip(panels[0], titles, strict=True):
        axes.set_title(plain(title), fontsize=11, color=INK)
    return figure, panels
