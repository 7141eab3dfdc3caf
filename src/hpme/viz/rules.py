"""The picture of a whole dataset: rules as rows, what shows them, and a point per graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from hpme.explainers.hpme.insight.rulebook import AND, Rule, RuleBook
from hpme.explainers.shared.explanation import Explanation
from hpme.storage import write_atomically
from hpme.viz.gallery import check_picture_path
from hpme.viz.molecules import Painter, painter_of
from hpme.viz.style import BORDER, FAINT, INK, plain, render

OURS = "#0072B2"
ROW, WIDTHS = 1.55, (2.4, 2.1, 1.3, 3.2)
"""Height of a row in inches, and widths of condition, exemplar, coverage and effects."""


def draw_rules(book: RuleBook, path: str | Path) -> Path:
    """Writes the picture of a rulebook.

    Args:
        book: What ``explainer.rules`` returned.
        path: Where to write; ``.png`` or ``.svg``.

    Raises:
        InputError: If the suffix is another.
    """
    path = check_picture_path(path)
    write_atomically(path, rules_picture(book, path.suffix.lower()))
    return path


def rules_picture(book: RuleBook, suffix: str) -> bytes:
    """Content of the file that :func:`draw_rules` writes."""
    count = len(book.rules)
    figure: Any = Figure(figsize=(sum(WIDTHS), ROW * max(1, count) + 1.0), layout="constrained")
    figure.suptitle(_title(book), fontsize=10.5, color=INK)
    painter = painter_of([rule.exemplar.graph for rule in book], suffix) if count else None
    grid = figure.subplots(max(1, count), 4, squeeze=False, width_ratios=WIDTHS)
    for axes in grid.flatten():
        axes.set_axis_off()
    for number, (rule, row) in enumerate(zip(book.rules, grid, strict=False)):
        assert painter is not None
        _condition(row[0], number, rule)
        _exemplar(row[1], rule, painter)
        _coverage(row[2], rule, first=number == 0)
        _effects(row[3], rule, number, last=number == count - 1)
    if not count:
        grid[0][0].text(0, 0.5, book.note, color=INK, fontsize=9)
    content = render(figure, suffix)
    return content if painter is None else painter.finish(content)


def _title(book: RuleBook) -> str:
    return plain(
        f"What the model has learned: fidelity {book.fidelity:.1%} on {book.unseen_graphs:,} "
        f"unseen graphs; otherwise {book.default_label}"
    )


def _condition(axes: Any, number: int, rule: Rule) -> None:
    lines = f"{AND}\n".join(_folded(name) for name in rule.names)
    axes.text(0, 0.62, f"{number + 1}. {plain(lines)}", fontsize=9.5, color=INK, va="center")
    axes.text(
        0, 0.2, plain(f"→ {rule.label}"), fontsize=9.5, color=OURS, weight="bold", va="center"
    )


def _folded(name: str, width: int = 26) -> str:
    return "\n".join(name[i : i + width] for i in range(0, len(name), width))


def _exemplar(axes: Any, rule: Rule, painter: Painter) -> None:
    """The exemplar with its match marked as an explanation is."""
    graph, nodes = rule.exemplar.graph, rule.exemplar.nodes
    inside = nodes[graph.edge_index].all(0)
    explanation = Explanation(edge_mask=inside.float(), pooled=nodes)
    painter.draw_weights(axes, graph, explanation, lambda w: np.asarray(w))  # type: ignore[arg-type]


def _coverage(axes: Any, rule: Rule, *, first: bool) -> None:
    """Share of all graphs, and what of it gets the prediction."""
    axes.set_axis_on()
    precision = 0.0 if rule.precision != rule.precision else rule.precision
    axes.barh([0], [1], height=0.42, color=FAINT)
    axes.barh([0], [rule.coverage], height=0.42, color="#86B4DA")
    axes.barh([0], [rule.coverage * precision], height=0.42, color=OURS)
    text = f"{rule.coverage:.0%} of graphs"
    if rule.precision == rule.precision:
        text += f"\nprecision {rule.precision:.2f}, lift {rule.lift:.1f}"
    axes.text(0, 0.5, text, fontsize=7.5, color=INK, va="center")
    axes.set_xlim(0, 1)
    axes.set_ylim(-0.8, 1.0)
    axes.set_axis_off()
    if first:
        axes.set_title("coverage", fontsize=8.5, color=INK)


def _effects(axes: Any, rule: Rule, number: int, *, last: bool) -> None:
    """A point per graph: what the match carries into hosts, beyond random nodes."""
    axes.set_axis_on()
    values = np.asarray(rule.effects)
    # Points of equal effect would hide each other; the same picture every time.
    noise = torch.rand(len(values), generator=torch.Generator().manual_seed(number)).numpy()
    axes.axvline(0, color=BORDER, lw=0.9)
    axes.scatter(values, noise, s=11, color=OURS, alpha=0.45, lw=0)
    if len(values):
        axes.axvline(values.mean(), color=INK, lw=1.6)
        mean = float(values.mean())
        axes.annotate(f"mean {mean:+.2f}", (mean, 1.13), ha="center", fontsize=7.5, color=INK)
    axes.set_xlim(-1.05, 1.05)
    axes.set_ylim(-0.15, 1.35)
    axes.set_yticks([])
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(BORDER)
    axes.tick_params(labelsize=7.5, color=BORDER, labelcolor=INK, labelbottom=last)
    if number == 0:
        axes.set_title("effect when transplanted, a point per graph", fontsize=8.5, color=INK)
