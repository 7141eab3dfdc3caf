"""A picture of graphs: ground truth beside what explainers say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from hpme.errors import InputError
from hpme.graphs.hetero import flat_views
from hpme.metrics import explanation_auc_per_graph
from hpme.storage import write_atomically
from hpme.viz import style
from hpme.viz.molecules import MoleculePainter, Painter, painter_of

LONGEST_NAME = 32
KEY_ROW, KEY_WIDTH = 0.24, 1.75
"""Height of a line of the legend and width of an entry, in inches."""


def gallery(
    graphs: Sequence[Any],
    explanations: Sequence[Any] | Mapping[str, Sequence[Any]],
    path: str | Path,
    **how: Any,
) -> Path:
    """Draws graphs side by side: their ground truth, and the edge weights of each explainer.

    Edge weights show as colour and width, on one scale for all graphs of an explainer; the two
    directions of an edge are averaged, self-loops are not drawn. Nodes an explainer pooled are
    marked, nodes a graph is about (``anchors``) have a ring. Graphs with ``smiles`` are drawn as
    molecules if RDKit is installed; there an atom has the colour of its heaviest bond.

    Args:
        graphs: Graphs, with ``edge_mask`` and ``node_mask`` where there is ground truth.
        explanations: One explanation per graph, or such a list per explainer by name.
        path: Where to write; ``.png`` or ``.svg``.
        predictions: The model's output for each graph, for the captions: class scores before the
            softmax if there are several columns, else values.
        graphs_per_row: How many graphs stand side by side.

    Raises:
        InputError: If there is nothing to draw, lengths differ, or the suffix is another.
    """
    return Path(save_picture(path, lambda suffix: picture(graphs, explanations, suffix, **how)))


def picture(
    graphs: Sequence[Any],
    explanations: Sequence[Any] | Mapping[str, Sequence[Any]],
    suffix: str,
    predictions: Tensor | None = None,
    title: str | None = None,
    graphs_per_row: int = 2,
) -> bytes:
    """Content of the file that :func:`gallery` writes; ``suffix`` is ``".png"`` or ``".svg"``."""
    named = explanations if isinstance(explanations, Mapping) else {"explanation": explanations}
    graphs, *flat = flat_views(graphs, *named.values())
    named = dict(zip(named, flat, strict=True))
    lengths = {len(items) for items in named.values()}
    if not graphs or lengths != {len(graphs)}:
        raise InputError(
            f"one explanation per graph is needed, got {sorted(lengths)} for {len(graphs)} graphs"
        )
    masks = [graph.get("edge_mask") for graph in graphs]
    truth = all(mask is not None for mask in masks) and any(bool(mask.any()) for mask in masks)
    painter, columns = painter_of(graphs, suffix), len(named) + truth
    norms = {name: _scale(items) for name, items in named.items()}
    none = [math.nan] * len(graphs)
    aucs = {n: explanation_auc_per_graph(e, graphs) if truth else none for n, e in named.items()}
    handles = _handles(painter, graphs, [e for items in named.values() for e in items], truth)
    per_row = max(1, min(graphs_per_row, len(graphs)))
    rows = -(-len(graphs) // per_row)
    width, height = per_row * columns * painter.panel[0], rows * (painter.panel[1] + 0.35)
    width = max(width, 4.6)
    key = 0.5 + KEY_ROW * -(-len(handles) // max(1, int(width / KEY_WIDTH)))
    figure: Any = Figure(figsize=(width, height + key + 0.35))
    figure.set_layout_engine("constrained", w_pad=0.04, h_pad=0.07)
    if title:
        figure.suptitle(style.plain(title), fontsize=12, color=style.INK)
    top, strip = figure.subfigures(2, 1, height_ratios=[height, key])
    cells = top.subfigures(rows, per_row, squeeze=False, wspace=0.03, hspace=0.03).flatten()
    for number, (graph, cell) in enumerate(zip(graphs, cells, strict=False)):
        cell.set_facecolor("#F7F8F9")
        caption = _caption(graph, predictions, number if len(graphs) > 1 else None)
        cell.suptitle(caption, fontsize=9.5, color=style.INK, weight="bold")
        panels = list(cell.subplots(1, columns, squeeze=False)[0])
        if truth:
            panels[0].set_title("ground truth", fontsize=8.5, color=style.INK)
            painter.draw_truth(panels.pop(0), graph)
        for panel, (name, items) in zip(panels, named.items(), strict=True):
            auc = aucs[name][number]
            known = "" if math.isnan(auc) else f", AUC {auc:.2f}"
            panel.set_title(style.plain(name) + known, fontsize=8.5, color=style.INK)
            painter.draw_weights(panel, graph, items[number], norms[name])
    _draw_key(strip, painter, handles, list(norms.values()))
    return painter.finish(style.render(figure, suffix))


def save_picture(path: str | Path | None, content: Callable[[str], bytes]) -> str | Path:
    """Writes a picture that ``content`` makes from the suffix of the path, or returns its SVG."""
    if path is None:
        return content(".svg").decode()
    path = Path(path)
    if path.suffix.lower() not in (".png", ".svg"):
        raise InputError(f"'{path}' must end in .png or .svg")
    write_atomically(path, content(path.suffix.lower()))
    return path


def _scale(explanations: Sequence[Any]) -> Normalize:
    weights = torch.cat([e.edge_mask.detach().view(-1) for e in explanations])
    finite = weights[weights.isfinite()]
    if finite.numel() == 0:
        return Normalize(0.0, 1.0, clip=True)
    low, high = float(finite.min()), float(finite.max())
    return Normalize(low, high if high > low else low + 1.0, clip=True)


def _caption(graph: Any, predictions: Tensor | None, number: int | None) -> str:
    """What a graph is called: by its name, as a molecule, or by its number among several."""
    title = style.plain(graph.get("name") or graph.get("smiles") or "")
    title = title or ("" if number is None else f"graph {number}")
    title = title if len(title) <= LONGEST_NAME else title[: LONGEST_NAME - 1] + "…"
    said, label = list[str](), graph.get("y")
    if predictions is not None:
        title = title if graph.get("name") or graph.get("smiles") else ""
        output = predictions[number or 0].view(-1)
        said = [f"predicted {float(output[0]):.4g}"]
        if output.numel() > 1:
            probability, predicted = output.softmax(0).max(0)
            said = [f"predicted class {int(predicted)} ({float(probability):.0%})"]
    if label is not None and label.numel() == 1:
        said.append(f"label {float(label):.4g}")
    return ": ".join(part for part in (title, ", ".join(said)) if part)


def _handles(
    painter: Painter, graphs: Sequence[Any], shown: Sequence[Any], truth: bool
) -> list[Line2D]:
    """Entries of the legend."""
    types = graphs[0].get("type_names") or ()
    pooled = any(e.get("pooled") is not None for e in shown)
    signed = any(style.directions(e) is not None for e in shown)
    dot: dict[str, Any] = {"marker": "o", "mec": style.INK, "ms": 6.5, "ls": ""}
    ring = {"mfc": "none", "mew": 2}
    filled = not signed or isinstance(painter, MoleculePainter)
    entries: list[tuple[bool, str, dict[str, Any]]] = [
        (truth, "ground truth", {"color": painter.truth_colour, "lw": 3, "ls": "-"}),
        (signed and not types, "raises the output", {"mfc": style.RAISES}),
        (signed and not types, "lowers it", {"mfc": style.LOWERS}),
        (pooled and not types and filled, "pooled node", {"mfc": style.POOLED}),
        (pooled and bool(types), "pooled node", ring | {"mec": style.POOLED}),
        (
            any(e.get("rest") is not None and bool(e.rest.any()) for e in shown),
            "node these rely on",
            ring | {"mec": style.REST},
        ),
        (
            any(graph.get("anchors") is not None for graph in graphs),
            "target node",
            ring | {"mec": style.ANCHOR, "ms": 9},
        ),
    ]
    for number, name in enumerate(types):
        face, shape = style.TYPES[number % len(style.TYPES)]
        entries.append((True, style.plain(name), {"marker": shape, "mfc": face, "mec": "white"}))
    return [Line2D([], [], label=text, **dot | look) for there, text, look in entries if there]


def _draw_key(strip: Any, painter: Painter, handles: list[Line2D], norms: list[Normalize]) -> None:
    """The legend, and the scale of the weights below it, so that neither covers the other."""
    width, height = (float(side) for side in strip.bbox.size / strip.figure.dpi)
    if handles:
        look = {"frameon": False, "fontsize": 8.5, "ncols": max(1, int(width / KEY_WIDTH))}
        strip.legend(handles=handles, loc="upper center", **look)
    axes = strip.add_axes((0.4, 0.26 / height, 0.35, 0.11 / height))
    bar = strip.colorbar(
        ScalarMappable(norms[0], painter.colours), cax=axes, orientation="horizontal"
    )
    bar.outline.set_visible(False)
    axes.tick_params(labelsize=8, color=style.INK, labelcolor=style.INK, length=2)
    axes.set_ylabel(
        "edge weight", rotation=0, ha="right", va="center", fontsize=8.5, color=style.INK
    )
    if len(norms) > 1:  # each explainer has its own scale
        bar.set_ticks([norms[0].vmin, norms[0].vmax], labels=["lowest", "highest"])
