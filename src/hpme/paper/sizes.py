"""Mixup with near and with far graphs to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch_geometric.data import Data

from hpme.bench.experiment import Experiment
from hpme.paper.mixups import METRICS
from hpme.paper.shared.cells import Cells
from hpme.paper.shared.document import Block, Picture
from hpme.paper.shared.names import dataset_title
from hpme.paper.shared.pictures import (
    MIXUP_PANEL,
    by_dataset,
    draw_mixup,
    draw_mixup_key,
    drawn_graph,
    exhibited,
    frame,
    items_of,
    mixed_graph,
    with_scores,
)
from hpme.paper.shared.results import Results
from hpme.paper.shared.suite import ONE_SEED, Suite, experiments_of
from hpme.viz.nodelink import NodeLinkPainter
from hpme.viz.style import INK, plain


def experiments(seeds: Sequence[int]) -> list[Experiment]:
    """The partner is one of the most similar graphs, or one of the least similar."""
    options = [{"neighbor": "near"}, {"neighbor": "far"}]
    return experiments_of(["ba-housegrid"], ["hpme"], seeds, options=options, metrics=METRICS)


def blocks(cells: Cells, _: Results) -> list[Block]:
    """Pictures, and AUCs below."""
    return with_scores(partner_pictures(cells), cells)


def partner_pictures(cells: Cells) -> list[Picture]:
    """One picture per dataset: a graph mixed with a partner drawn in each way."""
    pictures = []
    for name, records in by_dataset(cells, "mixups").items():
        shown = [
            items_of(record, "mixups", exhibited(records, "mixups")) for record in records.values()
        ]
        # A graph may have drawn itself, which shows nothing.
        apart = [all(i["partner"] != i["graph"] for i in same) for same in zip(*shown, strict=True)]
        place, rows = apart.index(True) if any(apart) else 0, {}
        for record, items in zip(records.values(), shown, strict=True):
            item, way = items[place], str(record.context["config"]["neighbor"])
            pair = (drawn_graph(item, item["graph"]), drawn_graph(item, item["partner"]))
            rows[f"{way} partner"] = (*pair, mixed_graph(item))
        caption = (
            f"{dataset_title(name)}: a graph, the graph it is mixed with, and the mixup graph, "
            "where the pooled subgraph of the one (red) replaces that of the other."
        )
        pictures.append(
            Picture(f"{cells.suite}-{name}", caption, partner_picture(rows), chart=False)
        )
    return pictures


def partner_picture(rows: Mapping[str, tuple[Any, Any, Data]]) -> Any:
    """A graph, the graph it is mixed with, and the mixup of both; a row for each.

    Args:
        rows: Graph, partner and mixup graph by title of the row, see
            :func:`~hpme.paper.mixups.mixup_picture`.
    """
    painter = NodeLinkPainter()
    titles = ["Ground truth", "Ground truth of the partner", "Mixup graph"]
    figure, panels = frame(len(rows), titles, MIXUP_PANEL)
    for axes, (title, (graph, partner, mixed)) in zip(panels, rows.items(), strict=True):
        painter.draw_truth(axes[0], graph)
        painter.draw_truth(axes[1], partner)
        draw_mixup(axes[2], graph, mixed)
        axes[0].annotate(
            plain(title), (-0.02, 0.5), xycoords="axes fraction", rotation=90, ha="right",
            va="center", fontsize=11, color=INK,
        )  # fmt: skip
    draw_mixup_key(figure, panels, [mixed for *_, mixed in rows.values()])
    return figure


SUITE = Suite(
    "sizes", "Mixup with near and with far graphs to look at", experiments, ONE_SEED, blocks
)
