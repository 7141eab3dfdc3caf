"""Charts of results: ablations, sensitivity to an option, ranks of methods."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from hpme.explainers.hpme.report import ClassEffect
from hpme.viz.style import BORDER, FAINT, INK, plain

OURS, SECOND = "#0072B2", "#D55E00"
BARS = (OURS, "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#8A9097")
"""Okabe and Ito's colours, which all eyes can tell apart."""
SMALL, NORMAL = 8.5, 9.5
HALO = [withStroke(linewidth=2.5, foreground="white")]


@dataclass(frozen=True)
class Bar:
    """Height of a bar and length of its whisker; ``None`` where there is nothing to draw."""

    mean: float | None
    std: float | None = None


@dataclass(frozen=True)
class Curve:
    """A panel of a sensitivity chart."""

    title: str
    x: Sequence[float]  # values of the option, ascending
    mean: Sequence[float]
    std: Sequence[float | None]  # its spread at each; None for none
    rival: tuple[str, float] | None = None  # name and score of the best other method
    reference: float | None = None  # a value of the option to mark


def bar_chart(groups: Mapping[str, Mapping[str, Bar]], *, ylabel: str) -> Any:
    """Groups of bars with error bars, the same bars in every group."""
    names = list(dict.fromkeys(name for bars in groups.values() for name in bars))
    figure: Any = Figure(figsize=(max(4.5, 0.75 + 1.55 * len(groups)), 3.1), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(names)
    whisker = {"ecolor": "black", "elinewidth": 1.1, "capsize": 3, "capthick": 1.1}
    top = 1.0
    for number, name in enumerate(names):
        for place, bars in enumerate(groups.values()):
            bar = bars.get(name, Bar(None))
            if bar.mean is not None:
                look = {"yerr": bar.std, "color": BARS[number % len(BARS)], "error_kw": whisker}
                at = place + (number - (len(names) - 1) / 2) * width
                axes.bar(at, bar.mean, 0.92 * width, **look)
                top = max(top, 1.04 * (bar.mean + (bar.std or 0)))
    axes.set_ylim(0, top)
    axes.set_xticks(range(len(groups)), [plain(title) for title in groups])
    _quiet(axes, ylabel=ylabel)
    axes.tick_params(axis="x", length=0)
    handles = [
        Line2D([], [], ls="", marker="s", ms=8, color=BARS[i % len(BARS)], label=plain(name))
        for i, name in enumerate(names)
    ]
    _legend(figure, handles, ncols=min(len(names), 4))
    return figure


def sensitivity_chart(
    curves: Sequence[Curve], *, xlabel: str, ylabel: str, ours: str, reference: str | None = None
) -> Any:
    """One panel per dataset: the mean as a line, its spread as a band, the rival dashed."""
    figure: Any = Figure(figsize=(max(3.4, 2.75 * len(curves)), 2.75), layout="constrained")
    panels = figure.subplots(1, len(curves), squeeze=False)[0]
    for axes, curve in zip(panels, curves, strict=True):
        low = [m - (s or 0) for m, s in zip(curve.mean, curve.std, strict=True)]
        high = [m + (s or 0) for m, s in zip(curve.mean, curve.std, strict=True)]
        axes.fill_between(curve.x, low, high, color=OURS, alpha=0.18, lw=0)
        axes.plot(curve.x, curve.mean, color=OURS, lw=1.8, marker="o", ms=4)
        if curve.rival is not None:
            name, score = curve.rival
            axes.axhline(score, color=SECOND, lw=1.5, ls="--")
            axes.annotate(
                plain(f"{name} {score:.3f}"), (0.97, score), xycoords=axes.get_yaxis_transform(),
                xytext=(0, -3), textcoords="offset points", ha="right", va="top",
                fontsize=SMALL - 0.5, color=SECOND, path_effects=HALO,
            )  # fmt: skip
        if curve.reference is not None:
            axes.axvline(curve.reference, color=BORDER, lw=1.3, ls=":")
        every = [*low, *high, *([curve.rival[1]] if curve.rival else [])]
        bottom, top = min(every), max(every)
        margin = 0.12 * max(top - bottom, 0.05)
        axes.set_ylim(bottom - 1.5 * margin, top + margin)
        axes.set_title(plain(curve.title), fontsize=NORMAL, color=INK)
        _quiet(axes, xlabel, ylabel if axes is panels[0] else "")
    handles = [Line2D([], [], color=OURS, lw=1.8, marker="o", ms=4, label=plain(ours))]
    if any(curve.rival for curve in curves):
        handles.append(Line2D([], [], color=SECOND, lw=1.5, ls="--", label="best other method"))
    if reference and any(curve.reference is not None for curve in curves):
        handles.append(Line2D([], [], color=BORDER, lw=1.3, ls=":", label=reference))
    _legend(figure, handles)
    return figure


def rank_chart(
    ranks: Mapping[str, Sequence[float]], *, ours: str, equal: Sequence[str] = ()
) -> Any:
    """Ranks by method: a faint dot per dataset, a large one for the mean, hollow if ``equal``."""
    means = {name: statistics.fmean(values) for name, values in ranks.items()}
    order = sorted(means, key=lambda name: (means[name], name))
    figure: Any = Figure(figsize=(6.4, 0.85 + 0.31 * len(order)), layout="constrained")
    axes = figure.subplots()
    for place, name in enumerate(order):
        colour = OURS if name == ours else INK
        counts = Counter(ranks[name])
        # The area of a dot is how many datasets share the rank.
        axes.scatter(
            list(counts), [place] * len(counts), s=[14.0 * n for n in counts.values()],
            color=colour, alpha=0.22, lw=0, zorder=2,
        )  # fmt: skip
        face = "white" if name in equal else colour
        axes.scatter([means[name]], [place], s=64, color=face, edgecolor=colour, lw=1.6, zorder=3)
        axes.annotate(
            f"{means[name]:.2f}", (1.01, place), xycoords=axes.get_yaxis_transform(),
            va="center", fontsize=SMALL, color=colour,
        )  # fmt: skip
    axes.set_yticks(range(len(order)), [plain(name) for name in order])
    axes.invert_yaxis()
    axes.set_xlim(0.5, len(order) + 0.5)
    axes.set_xticks(range(1, len(order) + 1))
    _quiet(axes, "rank (1 is best)", grid="x")
    axes.tick_params(axis="y", length=0)
    for label, name in zip(axes.get_yticklabels(), order, strict=True):
        label.set_color(OURS if name == ours else INK)
        label.set_fontweight("bold" if name == ours else "normal")
    dot: dict[str, Any] = {"ls": "", "marker": "o", "ms": 7.5, "color": INK}
    entries: dict[str, dict[str, Any]] = {"mean over datasets": {}}
    entries = {"a dataset (larger: several)": {"ms": 4.5, "alpha": 0.3, "mew": 0}} | entries
    entries |= {f"mean, not told from {ours}": {"mfc": "white", "mew": 1.6}} if equal else {}
    handles = [Line2D([], [], **dot | look, label=text) for text, look in entries.items()]
    _legend(figure, handles, fontsize=SMALL, handletextpad=0.2)
    return figure


def cost_chart(
    points: Mapping[str, tuple[float, float]], *, xlabel: str, ylabel: str, ours: Sequence[str]
) -> Any:
    """Cost and score of methods, each a point with its name beside the chart; costs as logs."""
    figure: Any = Figure(figsize=(7.2, 1.2 + 0.2 * max(len(points), 10)), layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("log")
    scores = [score for _, score in points.values()]
    margin = 0.06 * (max(scores) - min(scores) or 1.0)
    low, high = min(scores) - margin, max(scores) + margin
    axes.set_ylim(low, high)
    order = sorted(points, key=lambda name: -points[name][1])
    for name, place in zip(order, _spread([(points[n][1] - low) / (high - low) for n in order]),
                           strict=True):  # fmt: skip
        colour = OURS if name in ours else INK
        axes.scatter(*points[name], s=36, color=colour, zorder=3)
        axes.annotate(
            plain(name), points[name], xytext=(1.04, place), textcoords="axes fraction",
            va="center", fontsize=SMALL, color=colour, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.6, "alpha": 0.45},
        )  # fmt: skip
    _quiet(axes, xlabel, ylabel)
    return figure


def evidence_chart(effects: Sequence[ClassEffect]) -> Any:
    """Two rows per class, a point per graph: how far pools and random regions carry outputs."""
    figure: Any = Figure(figsize=(6.4, 0.75 + 0.75 * len(effects)), layout="constrained")
    axes = figure.subplots()
    names = []
    for place, one in enumerate(effects):
        for row, (values, colour) in enumerate(((one.chosen, OURS), (one.random, INK))):
            at = -(2.4 * place + row)
            known = sorted(min(max(value, -0.5), 1.5) for value in values)
            spread = [0.3 * ((0.618 * number) % 1 - 0.5) for number in range(len(known))]
            axes.scatter(known, [at + s for s in spread], s=12, color=colour, alpha=0.55, lw=0)
            if known:
                middle = statistics.median(known)
                axes.plot([middle] * 2, [at - 0.34, at + 0.34], color=colour, lw=2)
            names.append((at, f"{one.name or 'all'}: {('chosen', 'random')[row]} regions"))
    axes.axvline(0, color=BORDER, lw=0.9, ls=(0, (3, 3)), zorder=0)
    axes.set_yticks([at for at, _ in names], [plain(text) for _, text in names])
    axes.set_xlim(-0.55, 1.55)
    words = ["0 %\nas other graphs are", "50 %", "100 %\nas the explained graph"]
    axes.set_xticks([0, 0.5, 1], words)
    _quiet(axes, grid="x")
    axes.tick_params(length=0)
    return figure


def _spread(places: Sequence[float]) -> list[float]:
    """Descending places in [0, 1], moved as little as leaves room for a name at each."""
    gap = min(0.055, 1 / max(len(places) - 1, 1))
    found: list[float] = []
    for number, place in enumerate(places):
        highest = found[-1] - gap if found else 1.0
        lowest = gap * (len(places) - 1 - number)  # what those below need
        found.append(max(min(place, highest), lowest))
    return found


def _legend(figure: Any, handles: Sequence[Line2D], **style: Any) -> None:
    look = {"ncols": 3, "frameon": False, "fontsize": NORMAL, "labelcolor": INK}
    figure.legend(handles=handles, loc="outside upper center", **look | style)


def _quiet(axes: Any, xlabel: str = "", ylabel: str = "", *, grid: str = "y") -> None:
    """Only what helps to read a value."""
    axes.set_xlabel(xlabel, color=INK, fontsize=NORMAL)
    axes.set_ylabel(ylabel, color=INK, fontsize=NORMAL)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(BORDER)
    axes.tick_params(labelsize=SMALL, color=BORDER, labelcolor=INK)
    axes.grid(axis=grid, color=FAINT, lw=0.6)
    axes.set_axisbelow(True)
