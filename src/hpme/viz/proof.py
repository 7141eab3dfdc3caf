"""The picture of a proof: a region, hosts before and after it, and the same with random regions."""

from __future__ import annotations

from copy import copy
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from hpme.explainers.hpme.proof import Proof, Trial
from hpme.viz.molecules import MoleculePainter, molecule_of, painter_of
from hpme.viz.nodelink import node_positions
from hpme.viz.style import BORDER, CONTROL, FAINT, INK, LOWERS, RAISES, Sheet, pale, plain, render

HEAD, ROW, FOOT, GAP = 1.0, 2.1, 1.3, 0.3
"""Heights in inches, and room between columns."""
GONE = "#B9C0C7"
"""Nodes of a host that make room."""
OWN = 1.4
"""How much larger the explained graph is drawn than hosts."""
TRIED = 12
"""Layouts of a trial, of which the best is drawn."""


def placed(trial: Trial) -> list[Data]:
    """The graphs of a trial with ``places``, so that the host stays where it is in all of them."""
    graphs = [copy(one.graph) for one in trial]
    molecule = molecule_of(trial[0].graph)
    if molecule is not None:
        own = torch.from_numpy(molecule.GetConformer().GetPositions()[:, :2])
        places = torch.cat([own, torch.full((1, 2), torch.nan, dtype=own.dtype)])
        numbers = [one.origin for one in trial]
    else:  # all three are parts of one graph, which is placed once
        count, ends, numbers = 0, [], []
        for one in trial:
            number = one.origin.clone()
            number[number < 0] = torch.arange(int((number < 0).sum())) + count
            count = max(count, int(number.max()) + 1)
            ends.append(number[one.graph.edge_index])
            numbers.append(number)
        places = torch.from_numpy(node_positions(torch.cat(ends, 1), count, TRIED))
    for graph, number in zip(graphs, numbers, strict=True):
        graph.places = places[number]
    return graphs


def proof_picture(proof: Proof, suffix: str) -> bytes:
    """Content of a ``.png`` or ``.svg`` file."""
    rows = [placed(trial) for trial in proof.trials]
    own = [] if proof.graph is None else [proof.graph]
    graphs = [graph for row in rows for graph in row] + own
    painter = painter_of(graphs, suffix) if graphs else None
    molecules = isinstance(painter, MoleculePainter)
    panel = (2.6, 1.75) if molecules else (ROW, ROW)
    width = (3 + OWN * len(own)) * (panel[0] + GAP) + GAP
    height = max(len(rows), 1) * (panel[1] + 0.3)
    page = _Page((width, HEAD + height + FOOT), panel, painter, bool(own))
    colour = RAISES if proof.output >= float(proof.hosts.nanmean()) else LOWERS
    for graph in own:
        noun = "molecule" if molecules else "graph"
        page.head(0, graph.get("name") or f"the explained {noun}", colour)
        words = f"{proof.name} {_number(proof.output)}"
        page.draw(0, max(len(rows) - 1, 0) / 2, graph, proof.region, colour, words)
    heads = f"another {'molecule' if molecules else 'graph'}", "with the region in it"
    tints = INK, colour, CONTROL
    for column, (text, tint) in enumerate(
        zip((*heads, "with a random region"), tints, strict=True)
    ):
        page.head(len(own) + column, text, tint)
    for place, (trial, row) in enumerate(zip(proof.trials, rows, strict=True)):
        marks = zip(trial, row, (GONE, colour, CONTROL), strict=True)
        for column, (one, graph, tint) in enumerate(marks):
            page.draw(len(own) + column, place, graph, one.nodes, tint, _number(one.output))
    if rows:
        page.strip(proof, colour)
    page.text(GAP, 0.35, in_words(proof), fontsize=12.5, ha="left")
    content = render(page.figure, suffix)
    return content if painter is None else painter.finish(content)


def in_words(proof: Proof) -> str:
    """What the picture shows, in one sentence."""
    if not proof.trials:
        return "The region could not be moved into other graphs."
    there = proof.chosen.isfinite() & proof.random.isfinite()
    means = (float(some[there].mean()) for some in (proof.hosts, proof.chosen, proof.random))
    before, after, random = map(_number, means)
    return (
        f"Moved into {int(there.sum())} others, the region takes {proof.name} from {before} "
        f"to {after}; random regions take it to {random}."
    )


def _number(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.4g}"


class _Page(Sheet):
    """A sheet with columns of panels; the first is larger if it shows the explained graph."""

    def __init__(
        self, size: tuple[float, float], panel: tuple[float, float], painter: Any, own: bool
    ) -> None:
        super().__init__(*size, fontsize=10, ha="center")
        self.panel, self.painter, self.own = panel, painter, own

    def column(self, number: int) -> tuple[float, float]:
        """Left end and width of a column."""
        width, extra = self.panel[0], (OWN - 1) * (self.panel[0] + GAP) * self.own
        if number == 0:
            return GAP, width + extra
        return GAP + number * (width + GAP) + extra, width

    def head(self, column: int, words: str, colour: str) -> None:
        left, width = self.column(column)
        short = words if len(words) <= 34 else words[:33] + "…"
        self.text(left + width / 2, HEAD - 0.22, short, weight="bold", color=colour)

    def draw(
        self, column: int, row: float, graph: Data, nodes: Tensor, colour: str, output: str
    ) -> None:
        """A graph with nodes in a colour, and what the model says below it."""
        left, width = self.column(column)
        height = self.panel[1] * width / self.panel[0]
        top = HEAD + row * (self.panel[1] + 0.3) - (height - self.panel[1]) / 2
        shade = pale(colour) if isinstance(self.painter, MoleculePainter) else colour
        inside = nodes[graph.edge_index].all(0)
        axes = self.axes((left, width), top, height)
        self.painter.draw_marked(axes, graph, inside, nodes, shade)
        style = {"fontsize": 12, "weight": "bold", "color": INK if colour == GONE else colour}
        self.text(left + width / 2, top + height + 0.1, output, **style)
        if colour not in (GONE, CONTROL) and column:
            self.text(left - GAP / 2, top + height / 2, "→", fontsize=16, color=BORDER)

    def strip(self, proof: Proof, colour: str) -> None:
        """Outputs of all hosts: as they are, with the region, with random regions."""
        axes = self.axes((1.9, self.width - 2.3), self.height - FOOT + 0.2, FOOT - 0.55)
        tables = (proof.hosts, INK), (proof.chosen, colour), (proof.random, CONTROL)
        for row, (values, tint) in enumerate(tables):
            values = values[values.isfinite()]
            jitter = (torch.arange(len(values)) * 0.618).frac() * 0.4 - 0.2
            axes.scatter(values, jitter - row, s=22, color=tint, alpha=0.75, lw=0)
        axes.axvline(proof.output, color=BORDER, lw=1, ls=(0, (3, 3)))
        above: dict[str, Any] = {"ha": "center", "fontsize": 8, "annotation_clip": False}
        noun = "molecule" if isinstance(self.painter, MoleculePainter) else "graph"
        axes.annotate(f"this {noun}", (proof.output, 0.55), color=INK, **above)
        names = f"{int(proof.chosen.isfinite().sum())} others", "with the region", "random regions"
        axes.set_yticks([0, -1, -2], names, fontsize=8.5, color=INK)
        axes.set_ylim(-2.5, 0.5)
        axes.set_xlabel(plain(proof.name), fontsize=9, color=INK, labelpad=1)
        axes.tick_params(labelsize=8, length=0, labelcolor=INK)
        axes.grid(axis="x", color=FAINT, lw=0.6)
        axes.spines[:].set_visible(False)
