"""Explanations to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D
from torch_geometric.explain import Explanation

from hpme.paper.shared.pictures import Item, Shown, frame, picture_page, shown_graphs
from hpme.paper.shared.suite import ONE_SEED, Suite, each, together
from hpme.viz.molecules import painter_of
from hpme.viz.nodelink import undirected_edges, undirected_weights
from hpme.viz.style import INK, POOLED

OF_CLASSES = ("ba-2motifs", "ba-houseandgrid", "benzene")
OF_VALUES = ("ba-motif-volume", "house-grid-volume")
METRICS = ("auc", "explanations")
COMMON = ("hpme", "proxyexplainer", "mixupexplainer", "metagnn")


def draw(shown: Shown) -> Any:
    """Ground truth and explanations of all methods that were run."""
    explanations = {row: [_explanation(item) for item in items] for row, items in shown.items()}
    return case_picture(shown_graphs(shown), explanations)


def case_picture(graphs: Sequence[Any], explanations: Mapping[str, Sequence[Any]]) -> Any:
    """Ground truth beside the heaviest edges of each explainer, a row per graph.

    Of every explanation as many edges are drawn as the ground truth has. Pooled nodes are marked.
    """
    painter = painter_of(graphs, ".png")
    figure, rows = frame(len(graphs), ["Ground truth", *explanations], painter.panel)
    norm = Normalize(0.0, 1.0)
    for number, (graph, panels) in enumerate(zip(graphs, rows, strict=True)):
        painter.draw_truth(panels[0], graph)
        for panel, items in zip(panels[1:], explanations.values(), strict=True):
            painter.draw_weights(panel, graph, heaviest(graph, items[number]), norm)
    truth, chosen = painter.truth_colour, painter.colours(1.0)
    handles = [
        Line2D([], [], color=truth, lw=3, label="ground truth"),
        Line2D([], [], color=chosen, lw=3, label="as many of the heaviest edges"),
    ]
    if any(e.get("pooled") is not None for items in explanations.values() for e in items):
        dot: dict[str, Any] = {"ls": "", "marker": "o", "ms": 7, "mec": INK, "mfc": POOLED}
        handles.append(Line2D([], [], **dot, label="pooled node"))
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
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


def _explanation(item: Item) -> Explanation:
    explanation = Explanation(edge_mask=torch.tensor(item["edge_mask"], dtype=torch.float))
    if "pooled" in item:
        explanation.pooled = torch.tensor(item["pooled"], dtype=torch.bool)
    return explanation


SUITE = Suite(
    "cases",
    "Explanations to look at",
    together(
        each(OF_CLASSES, COMMON, metrics=METRICS),
        each(OF_VALUES, (*COMMON, "regexplainer", "att"), metrics=METRICS),
    ),
    picture_page(
        "explanations",
        draw,
        "ground truth, and as many of the heaviest edges of each explanation; nodes that HPME "
        "pooled are marked.",
    ),
    ONE_SEED,
)
