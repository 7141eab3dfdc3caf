"""What records keep of a few graphs, and how mixup graphs are drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch_geometric.data import Data

from hpme.paper.shared.cells import Cells, Results
from hpme.paper.shared.document import Block, Picture
from hpme.paper.shared.names import dataset_title
from hpme.paper.shared.scores import score_table
from hpme.paper.shared.suite import Show
from hpme.viz.layout import node_positions
from hpme.viz.nodelink import empty_panel, undirected_edges, undirected_weights
from hpme.viz.style import BORDER, EXPLAINED, INK, OTHERS, plain

Item = Mapping[str, Any]
Shown = Mapping[str, Sequence[Item]]
"""What records keep of the same few graphs, by method."""
MASKS = ("edge_mask", "node_mask")
MOST_EDGES = 64
"""Edges drawn of a mixup graph that is complete, as in the paper."""
MIXUP_PANEL = (2.6, 2.5)


def picture_page(exhibit: str, draw: Callable[[Shown], Any], caption: str) -> Show:
    """A page of pictures, one per dataset, and how good the runs are that they come from."""

    def blocks(cells: Cells, _: Results) -> list[Block]:
        pictures = [
            Picture(
                f"{cells.suite}-{name}", f"{dataset_title(name)}: {caption}", draw(shown), False
            )
            for name, shown in _exhibited(cells, exhibit).items()
        ]
        runs = "Edge ROC-AUC of these runs over all their explained graphs"
        return [*pictures, score_table(cells.suite, runs, cells, ["auc"])]

    return blocks


def _exhibited(cells: Cells, exhibit: str) -> dict[str, Shown]:
    """What the first record of every cell shows of the graphs that all of its dataset show."""
    found: dict[str, dict[str, dict[int, Item]]] = {}
    for cell in cells.every:
        if cell.records and exhibit in cell.records[0].context.get("exhibits", {}):
            items = {item["graph"]: item for item in cell.records[0].context["exhibits"][exhibit]}
            found.setdefault(cell.template.dataset, {})[cell.row] = items
    return {
        name: {
            row: [items[n] for n in next(iter(rows.values())) if all(n in r for r in rows.values())]
            for row, items in rows.items()
        }
        for name, rows in found.items()
    }


def shown_graphs(shown: Shown) -> list[Data]:
    """The graphs that are shown, with their ground truth."""
    return [drawn_graph(item, item["graph"]) for item in next(iter(shown.values()))]


def drawn_graph(item: Item, number: int) -> Data:
    """A graph as it is drawn, with its ground truth."""
    values = dict(item["drawn"][str(number)])
    index = torch.tensor(values.pop("edge_index"), dtype=torch.long).view(2, -1)
    masks = {name: torch.tensor(values.pop(name)) for name in MASKS if name in values}
    return Data(edge_index=index, **masks, **values)


def mixed_graph(item: Item) -> Data:
    """A mixup graph."""
    return Data(
        num_nodes=item["num_nodes"],
        edge_index=torch.tensor(item["edge_index"], dtype=torch.long).view(2, -1),
        edge_weight=torch.tensor(item["edge_weight"], dtype=torch.float),
        transplanted=torch.tensor(item["transplanted"], dtype=torch.bool),
        bridge=torch.tensor(item["bridge"], dtype=torch.bool),
    )


def frame(rows: int, titles: Sequence[str], panel: tuple[float, float]) -> tuple[Any, Any]:
    """The figure and its panels, titles above the first row."""
    width, height = panel
    figure: Any = Figure(figsize=(width * len(titles), height * rows + 0.75), layout="constrained")
    panels = figure.subplots(rows, len(titles), squeeze=False)
    for axes, title in zip(panels[0], titles, strict=True):
        axes.set_title(plain(title), fontsize=11, color=INK)
    return figure, panels


def draw_mixup(axes: Any, graph: Any, mixed: Data) -> None:
    """A mixup graph; one that is rebuilt on the nodes of ``graph`` is drawn where these are."""
    size, chosen = int(mixed.num_nodes), undirected_edges(mixed)
    weight = undirected_weights(mixed, mixed.edge_weight)
    complete = size > 2 and len(chosen) == size * (size - 1) // 2
    chosen = chosen[weight[chosen].argsort(stable=True)]  # heavy edges over light ones
    chosen = chosen[-MOST_EDGES:] if complete else chosen
    base = graph if complete and graph.num_nodes == size else mixed
    positions = node_positions(base.edge_index, size)
    lines = positions[mixed.edge_index[:, chosen].t().numpy()]
    share, bridge, red = weight[chosen], mixed.bridge[chosen], mixed.transplanted[chosen]
    empty_panel(axes)
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


def draw_mixup_key(figure: Any, panels: Any, mixups: Sequence[Data]) -> None:
    """Legend and scale below mixup graphs."""
    handles = [
        Line2D([], [], color=EXPLAINED(0.9), lw=3, label="from the explanation"),
        Line2D([], [], color=OTHERS(0.9), lw=3, label="from the rest"),
    ]
    if any(bool(mixed.bridge.any()) for mixed in mixups):
        handles.append(Line2D([], [], color=BORDER, lw=1.3, ls="--", label="random connection"))
    figure.legend(handles=handles, loc="outside lower left", ncols=3, frameon=False, fontsize=9)
    bar = figure.colorbar(
        ScalarMappable(Normalize(0, 1), OTHERS), ax=panels.ravel().tolist(),
        orientation="vertical", shrink=0.35, aspect=22, pad=0.01, anchor=(0, 0),
    )  # fmt: skip
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, color=INK, labelcolor=INK, length=2)
    bar.set_label("edge weight", fontsize=8.5, color=INK)
