"""Mixup graphs to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch_geometric.data import Data

from hpme.bench.experiment import Experiment
from hpme.paper.shared.cells import Cells
from hpme.paper.shared.document import Block, Picture
from hpme.paper.shared.names import dataset_title
from hpme.paper.shared.pictures import (
    MIXUP_PANEL,
    by_dataset,
    draw_mixup,
    draw_mixup_key,
    exhibited,
    frame,
    items_of,
    mixed_graph,
    with_scores,
)
from hpme.paper.shared.results import Results
from hpme.paper.shared.suite import ONE_SEED, Suite, experiments_of
from hpme.viz.nodelink import NodeLinkPainter

METRICS = ("auc", "explanations", "mixups")


def experiments(seeds: Sequence[int]) -> list[Experiment]:
    """A dataset of each task."""
    of_classes = ("hpme", "proxyexplainer", "mixupexplainer")
    of_values = ("hpme", "regexplainer", "mixupexplainer")
    return [
        *experiments_of(["ba-housegrid"], of_classes, seeds, metrics=METRICS),
        *experiments_of(["ba-motif-volume"], of_values, seeds, metrics=METRICS),
    ]


def blocks(cells: Cells, _: Results) -> list[Block]:
    """Pictures, and AUCs below."""
    return with_scores(mixup_pictures(cells), cells)


def mixup_pictures(cells: Cells) -> list[Picture]:
    """One picture per dataset: ground truth and mixup graphs of all methods that were run."""
    pictures = []
    for name, records in by_dataset(cells, "mixups").items():
        graphs = exhibited(records, "mixups")
        shown = {
            method: [mixed_graph(item) for item in items_of(record, "mixups", graphs)]
            for method, record in records.items()
        }
        caption = (
            f"{dataset_title(name)}: mixup graphs. Edges from the explanation are red, all others "
            "blue, darker the more they weigh; dashed ones join two graphs at random. Of the "
            "complete graphs of ProxyExplainer the 64 heaviest edges are drawn."
        )
        figure = mixup_picture(list(graphs.values()), shown)
        pictures.append(Picture(f"{cells.suite}-{name}", caption, figure, chart=False))
    return pictures


def mixup_picture(graphs: Sequence[Any], mixups: Mapping[str, Sequence[Data]]) -> Any:
    """Ground truth beside the mixup graphs of each explainer, a row per graph.

    Edges of the explanation are red, all others blue, darker the more they weigh; random edges
    between two joined graphs are dashed. Of complete graphs the heaviest edges are drawn.

    Args:
        graphs: Graphs with ``edge_mask`` and ``node_mask``.
        mixups: One mixup graph per graph, by name of the explainer, with ``edge_weight`` and the
            boolean edge masks ``transplanted`` and ``bridge``, see
            :class:`~hpme.explainers.MixupGraphs`.
    """
    painter = NodeLinkPainter()
    figure, rows = frame(len(graphs), ["Ground truth", *mixups], MIXUP_PANEL)
    for number, (graph, panels) in enumerate(zip(graphs, rows, strict=True)):
        painter.draw_truth(panels[0], graph)
        for panel, mixed in zip(panels[1:], mixups.values(), strict=True):
            draw_mixup(panel, graph, mixed[number])
    draw_mixup_key(figure, rows, [graph for mixed in mixups.values() for graph in mixed])
    return figure


SUITE = Suite("mixups", "Mixup graphs to look at", experiments, ONE_SEED, blocks)
