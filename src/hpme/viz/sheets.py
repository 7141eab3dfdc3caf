"""Pictures of a whole sheet: a proof, and the rules of a dataset."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from hpme.explainers.hpme.proof import Proof, Trial
from hpme.explainers.hpme.rulebook import Rule, RuleBook
from hpme.viz.charts import BARS, OURS
from hpme.viz.molecules import MoleculePainter, Painter, molecule_of, painter_of
from hpme.viz.nodelink import node_positions
from hpme.viz.style import BORDER, CONTROL, FAINT, INK, LOWERS, RAISES, Sheet, pale, plain, render

HEAD, PANEL, FOOT, GAP = 1.0, 2.1, 1.3, 0.3
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
    panel = (2.6, 1.75) if molecules else (PANEL, PANEL)
    width = (3 + OWN * len(own)) * (panel[0] + GAP) + GAP
    height = max(len(rows), 1) * (panel[1] + 0.3)
    page = _Page((width, HEAD + height + FOOT), panel, painter, bool(own))
    noun = "molecule" if molecules else "graph"
    colour = RAISES if proof.output >= float(proof.hosts.nanmean()) else LOWERS
    for graph in own:
        page.head(0, graph.get("name") or f"the explained {noun}", colour)
        words = f"{proof.name} {_number(proof.output)}"
        page.draw(0, max(len(rows) - 1, 0) / 2, graph, proof.region, colour, words)
    heads = {f"another {noun}": INK, "with the region in it": colour}
    for column, (text, tint) in enumerate({**heads, "with a random region": CONTROL}.items()):
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


def draw_region(painter: Painter, axes: Any, graph: Data, nodes: Tensor, colour: str) -> None:
    """A graph with some nodes and the edges between them in a colour."""
    # Black bonds and letters stand on it.
    shade = pale(colour) if isinstance(painter, MoleculePainter) else colour
    painter.draw_marked(axes, graph, nodes[graph.edge_index].all(0), nodes, shade)


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
        draw_region(self.painter, self.axes((left, width), top, height), graph, nodes, colour)
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


WIDTH, TOP, ROW, BOTTOM = 9.6, 1.05, 1.55, 0.62
"""In inches: the picture, its heading, a rule, and the axis with what holds otherwise."""
EXEMPLAR, CONDITION, COVERAGE, EFFECTS = (0.15, 2.2), (2.6, 1.95), (4.65, 1.5), (6.4, 2.95)
"""Left edges and widths of the columns."""
QUIET = "#69727B"
COLUMN, STACK, BESIDE = 0.025, 30, 0.016
"""Effects that differ by less stand above each other; points of a stack, and how far stacks of one
effect stand apart."""
STARTS = 24
"""Of the layout of exemplars; there are few of them."""


def rules_picture(book: RuleBook, suffix: str) -> bytes:
    """Content of a ``.png`` or ``.svg`` file."""
    rules = book.rules or book.contributors
    count = len(rules)
    page = Sheet(WIDTH, TOP + ROW * count + (BOTTOM if count else 0.5))
    _heading(page, book)
    exemplars = [rule.exemplar.graph for rule in rules]
    painter = painter_of(exemplars, suffix, STARTS) if count else None
    labels = [*(rule.label for rule in rules), book.default_label]
    known = list(dict.fromkeys(labels))
    colours = [BARS[known.index(label) % len(BARS)] for label in labels]
    if len(labels) == len(known) > 2:  # values, all of them different
        colours = [OURS] * len(labels)
    for number, rule in enumerate(rules):
        top = TOP + ROW * number
        assert painter is not None
        page.line(top)
        axes = page.axes(EXEMPLAR, top + 0.06, ROW - 0.12)
        draw_region(painter, axes, rule.exemplar.graph, rule.exemplar.nodes, colours[number])
        _condition(page, top, rule, colours[number])
        _coverage(page.axes(COVERAGE, top + 0.25, ROW - 0.5), rule, colours[number])
        last = number == count - 1
        _effects(page.axes(EFFECTS, top + 0.06, ROW - 0.06), rule, colours[number], last=last)
    top = TOP + ROW * count + (0.3 if count else -0.1)
    page.line(top - 0.3)
    page.text(EXEMPLAR[0], top, "otherwise" if len(book) else "always", color=QUIET, fontsize=11)
    style = {"fontsize": 11.5, "weight": "bold", "color": colours[-1]}
    page.text(CONDITION[0], top, f"→ {book.default_label}", **style)
    if book.note:
        page.text(EXEMPLAR[0], top + 0.3, book.note, color=QUIET)
    content = render(page.figure, suffix)
    return content if painter is None else painter.finish(content)


def _heading(page: Sheet, book: RuleBook) -> None:
    title = "What contributes" if book.contributors else "What the model has learned"
    page.text(0.15, 0.27, title, fontsize=14, weight="bold")
    count = "1 rule" if len(book) == 1 else f"{len(book) or 'no'} rules"
    graphs = f"{book.unseen_graphs:,} graphs that were not used to learn"
    if not book.unseen_graphs:
        graphs = f"the {book.learned_graphs:,} graphs learned from"
    share = f"{book.fidelity:.1%}".replace("%", " %")
    page.text(0.15, 0.55, f"{count}; fidelity to the model {share} on {graphs}", color=QUIET)
    for (left, _), words in (
        (EXEMPLAR, "a graph that shows it"),
        (CONDITION, "if a graph has"),
        (COVERAGE, "share of graphs"),
        (EFFECTS, "effect in other graphs, a point per graph"),
    ):
        if book.rules or book.contributors:
            page.text(left, TOP - 0.14, words, fontsize=8.5, color=QUIET)


def _condition(page: Sheet, top: float, rule: Rule, colour: str) -> None:
    lines: list[tuple[str, dict[str, Any]]] = []
    for number, name in enumerate(rule.names):
        form, _, limit = name.partition(" (")
        lines += [
            (("and " if number and not at else "") + text, {"fontsize": 11.5, "weight": "bold"})
            for at, text in enumerate(re.findall(".{1,20}", form) or [""])
        ]
        if limit:
            lines.append((limit.rstrip(")"), {"fontsize": 8, "color": QUIET}))
    said = textwrap.wrap(f"→ {rule.label}", 20)
    lines += [(text, {"fontsize": 11.5, "weight": "bold", "color": colour}) for text in said]
    step = min(0.25, (ROW - 0.3) / len(lines))
    first = top + ROW / 2 - step * (len(lines) - 1) / 2
    for number, (text, style) in enumerate(lines):
        page.text(CONDITION[0], first + number * step, text, **style)


def _coverage(axes: Any, rule: Rule, colour: str) -> None:
    """Share of all graphs, and what of it gets the prediction."""
    known = rule.precision == rule.precision
    right = rule.coverage * (rule.precision if known else 1.0)
    axes.barh([0], [1], height=0.2, color=FAINT, alpha=0.6)
    axes.barh([0], [rule.coverage], height=0.2, color=BORDER)
    axes.barh([0], [right], height=0.2, color=colour)
    share = f"{rule.coverage:.0%}".replace("%", " %")
    axes.text(0, 0.34, share, fontsize=13, weight="bold", color=INK, va="center")
    if known:
        worth = f"precision {rule.precision:.2f}   lift {rule.lift:.1f}"
        axes.text(0, -0.32, worth, fontsize=8, color=QUIET, va="center")
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.62, 0.62)
    axes.set_axis_off()


def _effects(axes: Any, rule: Rule, colour: str, *, last: bool) -> None:
    """A point per graph: what the match carries into hosts, beyond random nodes."""
    axes.patch.set_visible(False)
    axes.axvline(0, color=BORDER, lw=0.9, ls=(0, (3, 3)), zorder=0)
    axes.axvline(1, color=FAINT, lw=0.9, zorder=0)
    if rule.effects:
        axes.scatter(*_swarm(rule.effects), s=7, color=colour, alpha=0.8, lw=0)
        axes.scatter([rule.effect], [0.985], s=34, marker="v", color=INK, lw=0, clip_on=False)
        axes.text(
            -1, 0.6, f"{rule.effect:+.2f}", fontsize=13, weight="bold", color=INK, va="center"
        )
    role = rule.role.replace(" the ", "\nthe ", 1)
    axes.text(-1, 0.42, role, fontsize=8, color=QUIET, va="top")
    axes.set_xlim(-1.06, 1.06)
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.tick_params(labelsize=8, length=0, labelcolor=QUIET)
    axes.set_xticks([0, 1], ["0\nas random nodes", "+1\nall of it"] if last else [])


def _swarm(effects: Sequence[float]) -> tuple[Any, Any]:
    """Places of points: those of nearly the same effect are stacked around the middle."""
    column = np.sort(np.round(np.clip(effects, -1, 1) / COLUMN).astype(int))
    kinds, start, count = np.unique(column, return_index=True, return_counts=True)
    stacks = -(-count // STACK)
    number = np.arange(len(column)) - np.repeat(start, count)
    beside, above = number % np.repeat(stacks, count), number // np.repeat(stacks, count)
    high = -(-count // stacks)
    x = np.repeat(kinds * COLUMN, count) + BESIDE * (beside - np.repeat((stacks - 1) / 2, count))
    return x, 0.47 + min(0.055, 0.84 / high.max()) * (above - np.repeat((high - 1) / 2, count))
