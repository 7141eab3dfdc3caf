"""Mixup graphs to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch_geometric.data import Data

from hpme.paper.shared import pictures
from hpme.paper.shared.suite import ONE_SEED, Suite, each, together
from hpme.viz.nodelink import NodeLinkPainter

OF_CLASSES = ("hpme", "proxyexplainer", "mixupexplainer")
OF_VALUES = ("hpme", "regexplainer", "mixupexplainer")
METRICS = ("auc", "explanations", "mixups")


def draw(shown: pictures.Shown) -> Any:
    """Ground truth and mixup graphs of all methods that were run."""
    mixed = {row: [pictures.mixed_graph(item) for item in items] for row, items in shown.items()}
    return mixup_picture(pictures.shown_graphs(shown), mixed)


def mixup_picture(graphs: Sequence[Any], mixups: Mapping[str, Sequence[Data]]) -> Any:
    """Ground truth beside the mixup graphs of each explainer, a row per graph.

    Edges of the explanation are red, all others blue, darker the more they weigh; random edges
    between two joined graphs are dashed. Of complete graphs the heaviest edges are drawn. What a
    mixup graph holds is said at :class:`~hpme.explainers.MixupGraphs`.
    """
    painter = NodeLinkPainter()
    figure, rows = pictures.frame(len(graphs), ["Ground truth", *mixups], pictures.MIXUP_PANEL)
    for number, (graph, panels) in enumerate(zip(graphs, rows, strict=True)):
        painter.draw_truth(panels[0], graph)
        for panel, mixed in zip(panels[1:], mixups.values(), strict=True):
            pictures.draw_mixup(panel, graph, mixed[number])
    pictures.draw_mixup_key(figure, rows, [graph for mixed in mixups.values() for graph in mixed])
    return figure


SUITE = Suite(
    "mixups",
    "Mixup graphs to look at",
    together(
        each(["ba-housegrid"], OF_CLASSES, metrics=METRICS),
        each(["ba-motif-volume"], OF_VALUES, metrics=METRICS),
    ),
    pictures.picture_page(
        "mixups",
        draw,
        "mixup graphs. Edges from the explanation are red, all others blue, darker the more they "
        "weigh; dashed ones join two graphs at random. Of the complete graphs of ProxyExplainer "
        "the 64 heaviest edges are drawn.",
    ),
    ONE_SEED,
)
