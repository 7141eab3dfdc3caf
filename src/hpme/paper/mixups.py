"""Mixup graphs to look at: of several methods, and of HPME with near and with far graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch_geometric.data import Data

from hpme.paper.shared import pictures
from hpme.paper.shared.names import OURS, method_title
from hpme.paper.shared.suite import ONE_SEED, Suite, each, together
from hpme.viz.nodelink import NodeLinkPainter
from hpme.viz.style import INK, plain

OF_CLASSES = ("hpme", "proxyexplainer", "mixupexplainer")
OF_VALUES = ("hpme", "regexplainer", "mixupexplainer")
METRICS = ("auc", "explanations", "mixups")
NEIGHBORS = [{"neighbor": "near"}, {"neighbor": "far"}]
"""The partner is one of the most similar graphs, or one of the least similar."""


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


def draw_partners(shown: pictures.Shown) -> Any:
    """A graph mixed with a partner drawn in each way."""
    # A graph may have drawn itself, which shows nothing.
    same = zip(*shown.values(), strict=True)
    apart = [all(item["partner"] != item["graph"] for item in items) for items in same]
    place, rows = apart.index(True) if any(apart) else 0, {}
    for options in NEIGHBORS:
        if items := shown.get(method_title(OURS, options)):
            item = items[place]
            pair = [pictures.drawn_graph(item, item[role]) for role in ("graph", "partner")]
            rows[f"{options['neighbor']} partner"] = (*pair, pictures.mixed_graph(item))
    return partner_picture(rows)


def partner_picture(rows: Mapping[str, tuple[Data, ...]]) -> Any:
    """A graph, the graph it is mixed with, and the mixup of both, by title of the row."""
    painter = NodeLinkPainter()
    titles = ["Ground truth", "Ground truth of the partner", "Mixup graph"]
    figure, panels = pictures.frame(len(rows), titles, pictures.MIXUP_PANEL)
    for axes, (title, (graph, partner, mixed)) in zip(panels, rows.items(), strict=True):
        painter.draw_truth(axes[0], graph)
        painter.draw_truth(axes[1], partner)
        pictures.draw_mixup(axes[2], graph, mixed)
        axes[0].annotate(
            plain(title), (-0.02, 0.5), xycoords="axes fraction", rotation=90, ha="right",
            va="center", fontsize=11, color=INK,
        )  # fmt: skip
    pictures.draw_mixup_key(figure, panels, [mixed for *_, mixed in rows.values()])
    return figure


MIXUPS = Suite(
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
SIZES = Suite(
    "sizes",
    "Mixup with near and with far graphs to look at",
    each(["ba-housegrid"], ["hpme"], options=NEIGHBORS, metrics=METRICS),
    pictures.picture_page(
        "mixups",
        draw_partners,
        "a graph, the graph it is mixed with, and the mixup graph, where the pooled subgraph of "
        "the one (red) replaces that of the other.",
    ),
    ONE_SEED,
)
