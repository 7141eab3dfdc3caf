"""A picture of graphs: ground truth beside what explainers say."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import torch
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from hpme.data.segment import reverse_edge_index
from hpme.errors import InputError
from hpme.metrics import explanation_auc_per_graph
from hpme.storage import write_atomically
from hpme.viz.layout import node_positions

# Vermilion and blue of Okabe and Ito's palette. From faint to dark blue lightness falls all the
# way, so the scale reads in grey and by any eye.
TRUTH, INK, FAINT, BORDER = "#D55E00", "#333333", "#D3D7DB", "#8A9097"
WEIGHTS = LinearSegmentedColormap.from_list("weights", ["#DDE1E5", "#86B4DA", "#0072B2", "#00264D"])
POOLED = "#F0C000"
WIDTHS = (1.0, 4.2)
PANEL = 2.3
"""Side of a panel in inches."""


def gallery(
    graphs: Sequence[Any],
    explanations: Sequence[Any] | Mapping[str, Sequence[Any]],
    path: str | Path,
    *,
    predictions: Tensor | None = None,
    title: str | None = None,
    graphs_per_row: int = 2,
) -> Path:
    """Draws graphs side by side: their ground truth, and the edge weights of each explainer.

    Edge weights show as colour and width, on one scale for all graphs of an explainer; the two
    directions of an edge are averaged, self-loops are not drawn. Nodes an explainer pooled are
    marked. All panels of a graph place its nodes alike.

    Args:
        graphs: Graphs, with ``edge_mask`` and ``node_mask`` where there is ground truth.
        explanations: One explanation per graph, or such a list per explainer by name.
        path: Where to write; ``.png`` or ``.svg``.
        predictions: The model's output for each graph, for the captions: class scores before the
            softmax if there are several columns, else values.
        title: Title of the picture.
        graphs_per_row: How many graphs stand side by side.

    Raises:
        InputError: If there is nothing to draw, lengths differ, or the suffix is another.
    """
    path = check_picture_path(path)
    named = explanations if isinstance(explanations, Mapping) else {"explanation": explanations}
    lengths = {len(items) for items in named.values()}
    if not graphs or lengths != {len(graphs)}:
        raise InputError(
            f"one explanation per graph is needed, got {sorted(lengths)} for {len(graphs)} graphs"
        )
    truth = all(graph.get("edge_mask") is not None for graph in graphs)
    norms = {name: _scale(items) for name, items in named.items()}
    aucs = (
        {name: explanation_auc_per_graph(e, graphs) for name, e in named.items()} if truth else {}
    )
    figure, cells, strip = _frame(len(graphs), graphs_per_row, len(named) + truth, title)
    for number, (graph, cell) in enumerate(zip(graphs, cells, strict=False)):
        cell.suptitle(_caption(number, graph, predictions), fontsize=9.5, color=INK, weight="bold")
        positions = node_positions(graph.edge_index, graph.num_nodes)
        panels = list(cell.subplots(1, len(named) + truth, squeeze=False)[0])
        for panel in panels:
            _prepare(panel)
        if truth:
            _draw_truth(panels.pop(0), graph, positions)
        for panel, (name, items) in zip(panels, named.items(), strict=True):
            auc = f", AUC {float(aucs[name][number]):.2f}" if truth else ""
            panel.set_title(name + auc.replace(", AUC nan", ""), fontsize=8.5, color=INK)
            _draw_weights(panel, graph, positions, items[number], norms[name])
    pooled = any(e.get("pooled") is not None for items in named.values() for e in items)
    _draw_key(strip, truth, pooled, list(norms.values()))
    write_atomically(path, _render(figure, path.suffix.lower()))
    return path


def check_picture_path(path: str | Path) -> Path:
    """The path, if its suffix is one that can be written."""
    path = Path(path)
    if path.suffix.lower() not in (".png", ".svg"):
        raise InputError(f"'{path}' must end in .png or .svg")
    return path


def _frame(count: int, per_row: int, columns: int, title: str | None) -> tuple[Any, Any, Any]:
    """The figure, a cell for each graph, and a strip for the key below them."""
    per_row = max(1, min(per_row, count))
    rows = -(-count // per_row)
    width, height = per_row * columns * PANEL, rows * (PANEL + 0.35)
    figure: Any = Figure(figsize=(max(width, 4.6), height + 0.9))
    figure.set_layout_engine("constrained", w_pad=0.04, h_pad=0.07)
    if title:
        figure.suptitle(title, fontsize=12, color=INK)
    top, strip = figure.subfigures(2, 1, height_ratios=[height, 0.55])
    cells = top.subfigures(rows, per_row, squeeze=False, wspace=0.03, hspace=0.03).flatten()
    for cell in cells[:count]:
        cell.set_facecolor("#F7F8F9")
    return figure, cells, strip


def _prepare(panel: Any) -> None:
    panel.set_aspect("equal")
    panel.set_axis_off()
    panel.set_xlim(-1.12, 1.12)
    panel.set_ylim(-1.12, 1.12)


def _lines(graph: Any, positions: Any) -> tuple[Any, Tensor]:
    """Ends of every undirected edge once, and the edges they stand for."""
    source, target = graph.edge_index
    reverse = reverse_edge_index(graph.edge_index, graph.num_nodes)
    alone = reverse == torch.arange(source.numel())
    chosen = ((source < target) | (alone & (source != target))).nonzero().view(-1)
    return positions[graph.edge_index[:, chosen].t().numpy()], chosen


def _undirected(graph: Any, values: Tensor) -> Tensor:
    reverse = reverse_edge_index(graph.edge_index, graph.num_nodes)
    return (values + values[reverse]) / 2


def _draw_truth(panel: Any, graph: Any, positions: Any) -> None:
    panel.set_title("ground truth", fontsize=8.5, color=INK)
    lines, chosen = _lines(graph, positions)
    marked = graph.edge_mask[chosen].numpy()
    panel.add_collection(LineCollection(lines[~marked], colors=FAINT, linewidths=WIDTHS[0]))
    panel.add_collection(LineCollection(lines[marked], colors=TRUTH, linewidths=3.0))
    nodes = graph.get("node_mask")
    _draw_nodes(panel, positions, nodes, TRUTH)


def _draw_weights(
    panel: Any, graph: Any, positions: Any, explanation: Any, norm: Normalize
) -> None:
    lines, chosen = _lines(graph, positions)
    weight = _undirected(graph, explanation.edge_mask.detach())[chosen]
    order = weight.argsort().numpy()  # heavy edges over light ones
    share = norm(weight.numpy()[order])
    widths = WIDTHS[0] + share * (WIDTHS[1] - WIDTHS[0])
    panel.add_collection(LineCollection(lines[order], colors=WEIGHTS(share), linewidths=widths))
    _draw_nodes(panel, positions, explanation.get("pooled"), POOLED)


def _draw_nodes(panel: Any, positions: Any, marked: Tensor | None, colour: str) -> None:
    size = 42 if len(positions) <= 40 else 18
    style = {"edgecolors": INK, "linewidths": 0.8, "zorder": 3}
    if marked is None:
        marked = torch.zeros(len(positions), dtype=torch.bool)
    chosen = marked.numpy()
    rest = {**style, "edgecolors": BORDER}
    panel.scatter(*positions[~chosen].T, s=size / 2.5, c="white", **rest)
    panel.scatter(*positions[chosen].T, s=size, c=colour, **style)


def _scale(explanations: Sequence[Any]) -> Normalize:
    weights = torch.cat([e.edge_mask.detach().view(-1) for e in explanations])
    finite = weights[weights.isfinite()]
    if finite.numel() == 0:
        return Normalize(0.0, 1.0, clip=True)
    low, high = float(finite.min()), float(finite.max())
    return Normalize(low, high if high > low else low + 1.0, clip=True)


def _caption(number: int, graph: Any, predictions: Tensor | None) -> str:
    label = graph.get("y")
    known = "" if label is None or label.numel() != 1 else f"{float(label):.4g}"
    if predictions is None:
        return f"graph {number}" + (f": label {known}" if known else "")
    output = predictions[number].view(-1)
    if output.numel() > 1:
        probability, predicted = output.softmax(0).max(0)
        text = f"predicted class {int(predicted)} ({float(probability):.0%})"
    else:
        text = f"predicted {float(output):.4g}"
    return text + (f", label {known}" if known else "")


def _draw_key(strip: Any, truth: bool, pooled: bool, norms: list[Normalize]) -> None:
    """Legend on the left, scale of the weights on the right."""
    dot: dict[str, Any] = {"marker": "o", "markeredgecolor": INK, "markersize": 6.5}
    handles = []
    if truth:
        handles.append(Line2D([], [], color=TRUTH, lw=3, markerfacecolor=TRUTH, **dot))
    if pooled:
        handles.append(Line2D([], [], ls="", markerfacecolor=POOLED, **dot))
    labels = ["ground truth"] * truth + ["pooled node"] * pooled
    if handles:
        strip.legend(handles, labels, loc="center left", frameon=False, ncols=2, fontsize=8.5)
    axes = strip.add_axes((0.62, 0.55, 0.34, 0.2))
    bar = strip.colorbar(ScalarMappable(norms[0], WEIGHTS), cax=axes, orientation="horizontal")
    bar.outline.set_visible(False)
    axes.tick_params(labelsize=8, color=INK, labelcolor=INK, length=2)
    axes.set_ylabel("edge weight", rotation=0, ha="right", va="center", fontsize=8.5, color=INK)
    if len(norms) > 1:  # each explainer has its own scale
        bar.set_ticks([norms[0].vmin, norms[0].vmax], labels=["lowest", "highest"])


def _render(figure: Any, suffix: str) -> bytes:
    content = io.BytesIO()
    # A fixed salt and no date: the same graphs give the same file.
    with matplotlib.rc_context({"svg.hashsalt": "hpme"}):
        meta = {"Date": None} if suffix == ".svg" else {"Software": None}
        figure.savefig(content, format=suffix[1:], dpi=110, metadata=meta)
    return content.getvalue()
