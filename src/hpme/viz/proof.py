"""The picture of a proof: a region, hosts before and after it, and the same with random regions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch_geometric.data import Data

from hpme.explainers.hpme.proof import Proof, Trial
from hpme.storage import write_atomically
from hpme.viz.gallery import check_picture_path
from hpme.viz.layout import node_positions
from hpme.viz.molecules import MoleculePainter, Painter, molecule_of, painter_of
from hpme.viz.style import BORDER, CONTROL, FAINT, INK, LOWERS, RAISES, pale, plain, render

HEAD, ROW, FOOT, GAP = 1.0, 2.1, 1.3, 0.3
"""Heights in inches, and room between columns."""
GONE = "#B9C0C7"
"""Nodes of a host that make room."""


def draw_proof(proof: Proof, path: str | Path) -> Path:
    """Writes the picture of a proof.

    Args:
        proof: What ``explanation.proof()`` returned.
        path: Where to write; ``.png`` or ``.svg``.

    Raises:
        InputError: If the suffix is another.
    """
    path = check_picture_path(path)
    write_atomically(path, proof_picture(proof, path.suffix.lower()))
    return path


def placed(trial: Trial) -> tuple[Data, Data, Data]:
    """Host, it with the region and with a random one, drawn so that the host stays in its place."""
    made, host = (trial.chosen, trial.random), trial.host
    molecule = molecule_of(host)
    if molecule is not None:
        own = torch.tensor(np.array(molecule.GetConformer().GetPositions()[:, :2]))
        none = torch.full((1, 2), torch.nan, dtype=own.dtype)
        return host, *(_at(one.graph, torch.cat([own, none])[one.origin]) for one in made)
    # All three are parts of one graph, which is placed once.
    count, ends, numbers = host.num_nodes, [host.edge_index], [torch.arange(host.num_nodes)]
    for one in made:
        number = one.origin.clone()
        number[number < 0] = torch.arange(int((number < 0).sum())) + count
        count = max(count, int(number.max()) + 1)
        ends.append(number[one.graph.edge_index])
        numbers.append(number)
    positions = torch.from_numpy(node_positions(torch.cat(ends, 1), count))
    host, chosen, random = (
        _at(graph, positions[number])
        for graph, number in zip((host, *(m.graph for m in made)), numbers, strict=True)
    )
    return host, chosen, random


def gone(trial: Trial) -> Tensor:
    """Nodes of the host that make room for the region, boolean."""
    left = torch.ones(trial.host.num_nodes, dtype=torch.bool)
    left[trial.chosen.origin[trial.chosen.origin >= 0]] = False
    return left


def _at(graph: Data, places: Tensor) -> Data:
    found = graph.clone()
    found.places = places
    return found


def proof_picture(proof: Proof, suffix: str) -> bytes:
    """Content of the file that :func:`draw_proof` writes."""
    rows = [placed(trial) for trial in proof.trials]
    graphs = [graph for row in rows for graph in row]
    graphs += [] if proof.graph is None else [proof.graph]
    painter = painter_of(graphs, suffix) if graphs else None
    panel = (2.6, 1.75) if isinstance(painter, MoleculePainter) else (ROW, ROW)
    columns = 4 if proof.graph is not None else 3
    size = columns * (panel[0] + GAP) + GAP, HEAD + max(len(rows), 1) * (panel[1] + 0.3) + FOOT
    page = _Page(size, panel, painter)
    way = proof.output - float(proof.hosts.nanmean())
    colour = RAISES if way >= 0 else LOWERS
    left = 0
    if proof.graph is not None:
        left = 1
        page.head(0, proof.graph.get("name") or "explained", colour)
        words = f"{proof.name} {_number(proof.output)}"
        page.draw(0, max(len(rows) - 1, 0) / 2, proof.graph, proof.region, colour, words)
    other = "another molecule" if isinstance(painter, MoleculePainter) else "another graph"
    heads = (other, "with the region in it", "with a random region")
    for number, (text, tint) in enumerate(zip(heads, (INK, colour, CONTROL), strict=True)):
        page.head(left + number, text, tint)
    for place, (trial, row) in enumerate(zip(proof.trials, rows, strict=True)):
        marks = (gone(trial), GONE), (trial.chosen.nodes, colour), (trial.random.nodes, CONTROL)
        said = trial.output, trial.chosen.output, trial.random.output
        for number, (graph, mark, output) in enumerate(zip(row, marks, said, strict=True)):
            page.draw(left + number, place, graph, *mark, _number(output))
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


class _Page:
    """A figure whose places are inches from the top left, in columns of panels."""

    def __init__(
        self, size: tuple[float, float], panel: tuple[float, float], painter: Painter | None
    ) -> None:
        self.size, self.panel, self.painter = size, panel, painter
        self.figure: Any = Figure(figsize=size, facecolor="white")

    def axes(self, left: float, top: float, width: float, height: float) -> Any:
        across, down = self.size
        place = (left / across, 1 - (top + height) / down, width / across, height / down)
        return self.figure.add_axes(place)

    def text(self, left: float, top: float, words: str, **style: Any) -> None:
        look = {"fontsize": 10, "color": INK, "va": "center", "ha": "center"} | style
        self.figure.text(left / self.size[0], 1 - top / self.size[1], plain(words), **look)

    def head(self, column: int, words: str, colour: str) -> None:
        middle = GAP + column * (self.panel[0] + GAP) + self.panel[0] / 2
        short = words if len(words) <= 34 else words[:33] + "…"
        self.text(middle, HEAD - 0.22, short, weight="bold", color=colour)

    def draw(
        self,
        column: int,
        row: float,
        graph: Data,
        nodes: Tensor,
        colour: str,
        output: str,
    ) -> None:
        """A graph with nodes in a colour, and what the model says below it."""
        assert self.painter is not None
        width, height = self.panel
        left, top = GAP + column * (width + GAP), HEAD + row * (height + 0.3)
        axes = self.axes(left, top, width, height)
        inside = nodes[graph.edge_index].all(0)
        shade = pale(colour) if isinstance(self.painter, MoleculePainter) else colour
        self.painter.draw_marked(axes, graph, inside, nodes, shade)
        style = {"fontsize": 12, "weight": "bold", "color": INK if colour == GONE else colour}
        self.text(left + width / 2, top + height + 0.1, output, **style)
        if colour not in (GONE, CONTROL) and column:
            self.text(left - GAP / 2, top + height / 2, "→", fontsize=16, color=BORDER)

    def strip(self, proof: Proof, colour: str) -> None:
        """Outputs of all hosts: as they are, with the region, with random regions."""
        axes = self.axes(1.9, self.size[1] - FOOT + 0.2, self.size[0] - 2.3, FOOT - 0.55)
        tables = (proof.hosts, INK), (proof.chosen, colour), (proof.random, CONTROL)
        for row, (values, tint) in enumerate(tables):
            values = values[values.isfinite()]
            jitter = (torch.arange(len(values)) * 0.618).frac() * 0.4 - 0.2
            axes.scatter(values, jitter - row, s=22, color=tint, alpha=0.75, lw=0)
        axes.axvline(proof.output, color=BORDER, lw=1, ls=(0, (3, 3)))
        axes.annotate(
            "this graph", (proof.output, 0.55), ha="center", fontsize=8, color=INK,
            annotation_clip=False,
        )  # fmt: skip
        count = int(proof.chosen.isfinite().sum())
        names = [f"{count} others", "with the region", "random regions"]
        axes.set_yticks([0, -1, -2], names, fontsize=8.5, color=INK)
        axes.set_ylim(-2.5, 0.5)
        axes.set_xlabel(plain(proof.name), fontsize=9, color=INK, labelpad=1)
        axes.tick_params(labelsize=8, length=0, labelcolor=INK)
        axes.grid(axis="x", color=FAINT, lw=0.6)
        axes.spines[:].set_visible(False)
