"""Explanations and mixup graphs to look at, drawn from what records keep of a few graphs."""

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
from torch_geometric.explain import Explanation

from hpme.paper.shared.cells import Cells, Results
from hpme.paper.shared.document import Block, Picture
from hpme.paper.shared.names import OURS, dataset_title, method_title
from hpme.paper.shared.scores import score_table
from hpme.paper.shared.suite import ONE_SEED, Show, Suite, each, together
from hpme.viz import nodelink
from hpme.viz.molecules import painter_of
from hpme.viz.style import BORDER, EXPLAINED, INK, OTHERS, POOLED, plain

Item = Mapping[str, Any]
Shown = Mapping[str, Sequence[Item]]
"""What records keep of the same few graphs, by method."""
MASKS = ("edge_mask", "node_mask")
MOST_EDGES = 64
"""Edges drawn of a mixup graph that is complete, as in the paper."""
MIXUP_PANEL = (2.6, 2.5)
OF_CLASSES = ("hpme", "proxyexplainer", "mixupexplainer", "metagnn")
OF_VALUES = (*OF_CLASSES, "regexplainer", "att")
CASE_METRICS = ("auc", "explanations")
MIXED_VALUES = ("hpme", "regexplainer", "mixupexplainer")
MIXUP_METRICS = ("auc", "explanations", "mixups")
NEIGHBORS = [{"neighbor": "near"}, {"neighbor": "far"}]
"""The partner is one of the most similar graphs, or one of the least similar."""


def picture_page(exhibit: str, draw: Callable[[Shown], Any], caption: str) -> Show:
    """A page of pictures, one per dataset, and how good the runs are that they come from."""

    def blocks(cells: Cells, _: Results) -> list[Block]:
        pictures = []
        for name, shown in _exhibited(cells, exhibit).items():
            text = f"{dataset_title(name)}: {caption}"
            pictures.append(Picture(f"{cells.suite}-{name}", text, draw(shown), False))
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


def of_methods(picture: Callable[..., Any], read: Callable[[Item], Any]) -> Callable[[Shown], Any]:
    """A picture of ground truth and of what all methods that were run make of it."""

    def draw(shown: Shown) -> Any:
        graphs = [drawn_graph(item, item["graph"]) for item in next(iter(shown.values()))]
        return picture(graphs, {row: list(map(read, items)) for row, items in shown.items()})

    return draw


def drawn_graph(item: Item, number: int) -> Data:
    """A graph as it is drawn, with its ground truth."""
    values = dict(item["drawn"][str(number)])
    index = torch.tensor(values.pop("edge_index"), dtype=torch.long).view(2, -1)
    masks = {name: torch.tensor(values.pop(name)) for name in MASKS if name in values}
    return Data(edge_index=index, **masks, **values)


def mixed_graph(item: Item) -> Data:
    """A mixup graph."""
    index = torch.tensor(item["edge_index"], dtype=torch.long).view(2, -1)
    marks = {k: torch.tensor(item[k], dtype=torch.bool) for k in ("transplanted", "bridge")}
    weight = torch.tensor(item["edge_weight"], dtype=torch.float)
    return Data(num_nodes=item["num_nodes"], edge_index=index, edge_weight=weight, **marks)


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
    size, chosen = int(mixed.num_nodes), nodelink.undirected_edges(mixed)
    weight = nodelink.undirected_weights(mixed, mixed.edge_weight)
    complete = size > 2 and len(chosen) == size * (size - 1) // 2
    chosen = chosen[weight[chosen].argsort(stable=True)]  # heavy edges over light ones
    chosen = chosen[-MOST_EDGES:] if complete else chosen
    base = graph if complete and graph.num_nodes == size else mixed
    positions = nodelink.node_positions(base.edge_index, size)
    lines = positions[mixed.edge_index[:, chosen].t().numpy()]
    share, bridge, red = weight[chosen], mixed.bridge[chosen], mixed.transplanted[chosen]
    nodelink.empty_panel(axes)
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


def case_picture(graphs: Sequence[Any], explanations: Mapping[str, Sequence[Any]]) -> Any:
    """Ground truth beside as many of the heaviest edges of each explainer, a row per graph."""
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
    chosen = nodelink.undirected_edges(graph)
    weight = nodelink.undirected_weights(graph, explanation.edge_mask)
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


def mixup_picture(graphs: Sequence[Any], mixups: Mapping[str, Sequence[Data]]) -> Any:
    """Ground truth beside the mixup graphs of each explainer, a row per graph."""
    painter = nodelink.NodeLinkPainter()
    figure, rows = frame(len(graphs), ["Ground truth", *mixups], MIXUP_PANEL)
    for number, (graph, panels) in enumerate(zip(graphs, rows, strict=True)):
        painter.draw_truth(panels[0], graph)
        for panel, mixed in zip(panels[1:], mixups.values(), strict=True):
            draw_mixup(panel, graph, mixed[number])
    draw_mixup_key(figure, rows, [graph for mixed in mixups.values() for graph in mixed])
    return figure


def draw_partners(shown: Shown) -> Any:
    """A graph mixed with a partner drawn in each way."""
    # A graph may have drawn itself, which shows nothing.
    same = zip(*shown.values(), strict=True)
    apart = [all(item["partner"] != item["graph"] for item in items) for items in same]
    place, rows = apart.index(True) if any(apart) else 0, {}
    for options in NEIGHBORS:
        if items := shown.get(method_title(OURS, options)):
            item = items[place]
            pair = [drawn_graph(item, item[role]) for role in ("graph", "partner")]
            rows[f"{options['neighbor']} partner"] = (*pair, mixed_graph(item))
    return partner_picture(rows)


def partner_picture(rows: Mapping[str, tuple[Data, ...]]) -> Any:
    """A graph, the graph it is mixed with, and the mixup of both, by title of the row."""
    painter = nodelink.NodeLinkPainter()
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


CASES = Suite(
    "cases",
    "Explanations to look at",
    together(
        each(("ba-2motifs", "ba-houseandgrid", "benzene"), OF_CLASSES, metrics=CASE_METRICS),
        each(("ba-motif-volume", "house-grid-volume"), OF_VALUES, metrics=CASE_METRICS),
    ),
    picture_page(
        "explanations",
        of_methods(case_picture, _explanation),
        "ground truth, and as many of the heaviest edges of each explanation; nodes that HPME "
        "pooled are marked.",
    ),
    ONE_SEED,
)
MIXUPS = Suite(
    "mixups",
    "Mixup graphs to look at",
    together(
        each(["ba-housegrid"], OF_CLASSES[:3], metrics=MIXUP_METRICS),
        each(["ba-motif-volume"], MIXED_VALUES, metrics=MIXUP_METRICS),
    ),
    picture_page(
        "mixups",
        of_methods(mixup_picture, mixed_graph),
        "mixup graphs. Edges from the explanation are red, all others blue, darker the more they "
        "weigh; dashed ones join two graphs at random. Of the complete graphs of ProxyExplainer "
        "the 64 heaviest edges are drawn.",
    ),
    ONE_SEED,
)
SIZES = Suite(
    "sizes",
    "Mixup with near and with far graphs to look at",
    each(["ba-housegrid"], ["hpme"], options=NEIGHBORS, metrics=MIXUP_METRICS),
    picture_page(
        "mixups",
        draw_partners,
        "a graph, the graph it is mixed with, and the mixup graph, where the pooled subgraph of "
        "the one (red) replaces that of the other.",
    ),
    ONE_SEED,
)
