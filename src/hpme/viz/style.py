"""Colours and texts of all pictures, and their files: the same figure gives the same bytes."""

from __future__ import annotations

import io
import re
from typing import Any

import matplotlib
import torch
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from hpme.explainers.hpme.quality import Quality
from hpme.text import one_line

# Vermilion and blue of Okabe and Ito's palette. From faint to dark blue lightness decreases all the
# way, so the scale reads in grey and by any eye.
TRUTH, INK, FAINT, BORDER = "#D55E00", "#333333", "#D3D7DB", "#8A9097"
WEIGHTS = LinearSegmentedColormap.from_list("weights", ["#DDE1E5", "#86B4DA", "#0072B2", "#00264D"])
# Black bonds and letters stand on these, so neither end is dark.
BANDS = LinearSegmentedColormap.from_list("bands", ["#E4E7EA", "#A9CBE8", "#4C9BD6", "#0072B2"])
TRUTH_BAND = "#F2935C"
# Vermilion raises an output and blue lowers it; all eyes tell them apart.
RAISES, LOWERS, CONTROL = "#D55E00", "#0072B2", "#69727B"
POOLED, REST = "#F0C000", "#A66BD4"
# Mixup graphs: edges of the explanation and all others, pale where they weigh little.
EXPLAINED = LinearSegmentedColormap.from_list("explained", ["#F8E4DF", "#E8836B", "#C4160A"])
OTHERS = LinearSegmentedColormap.from_list("others", ["#E3ECF5", "#7FB0DA", "#0B4F94"])
ANCHOR = "#CC79A7"
TYPES = (
    *(("#56B4E9", "o"), ("#009E73", "s"), ("#E69F00", "^")),
    *(("#9C89C9", "D"), ("#A1786B", "v"), ("#8FA3AD", "P")),
)
"""Colour and shape of nodes by type; those of a seventh type are those of the first again."""
RESOLUTION = 110
"""Pixels per inch of a picture."""


def pale(colour: str, share: float = 0.55) -> str:
    """A lighter colour, on which black bonds and letters stand out."""
    return str(to_hex([1 - share * (1 - part) for part in to_rgb(colour)]))


def directions(explanation: Any) -> Tensor | None:
    """Whether each node clearly raises (1) or lowers (-1) the output; ``None`` if not asked.

    Pooled nodes do what their region does in other graphs, where that is known, else in its own.
    """
    effect, quality = explanation.get("effect"), explanation.get("quality")
    pooled = explanation.get("pooled")
    known = pooled is not None and isinstance(quality, Quality)
    sign: Tensor
    if effect is not None:
        sign = (effect.nodes[:, 1] > 0).long() - (effect.nodes[:, 2] < 0).long()
    elif known:
        sign = torch.zeros_like(pooled, dtype=torch.long)
    else:
        return None
    if known and quality.verdict != "absence":  # there, any region does the same
        region = int(quality.effect_low > 0) - int(quality.effect_high < 0)
        region = region or int(quality.removal_high < 0) - int(quality.removal_low > 0)
        sign = torch.where(pooled & (region != 0), region, sign)
    return sign


def tones(explanation: Any) -> list[str] | None:
    """Colours of nodes that raise or lower the output, if known, the paler the less they count."""
    sign, mask = directions(explanation), explanation.get("node_mask")
    if sign is None:
        return None
    known = mask is not None and mask.shape[1] == 1
    strength = mask[:, 0].nan_to_num().clamp(0.1, 1) if known else torch.ones(len(sign))
    return [
        pale((CONTROL, RAISES, LOWERS)[one], share * (0.8 if one else 0.35))
        for one, share in zip(sign.tolist(), strength.tolist(), strict=True)
    ]


class Sheet:
    """A figure whose places are inches from the top left."""

    def __init__(self, width: float, height: float, **look: Any) -> None:
        self.width, self.height = width, height
        self.look = {"fontsize": 9, "color": INK, "va": "center"} | look  # of texts
        self.figure: Any = Figure(figsize=(width, height), facecolor="white")

    def axes(self, column: tuple[float, float], top: float, height: float) -> Any:
        """Axes between the left end and the width of a column."""
        (left, width), bottom = column, 1 - (top + height) / self.height
        place = (left / self.width, bottom, width / self.width, height / self.height)
        return self.figure.add_axes(place)

    def text(self, left: float, top: float, words: str, **style: Any) -> None:
        """One line of text."""
        place = left / self.width, 1 - top / self.height
        self.figure.text(*place, plain(words), **self.look | style)

    def line(self, top: float) -> None:
        """A faint line across."""
        ends, place = [0.15 / self.width, 1 - 0.15 / self.width], 1 - top / self.height
        self.figure.add_artist(Line2D(ends, [place, place], color=FAINT, lw=0.8))


def plain(text: str) -> str:
    """Text that matplotlib does not take for a formula, and that no picture breaks on."""
    return one_line(text).replace("$", r"\$")


def render(figure: Any, suffix: str) -> bytes:
    """A figure as ``.png``, ``.svg`` or ``.pdf``, without dates and names of software."""
    content = io.BytesIO()
    meta: dict[str, dict[str, None]] = {
        ".svg": {"Date": None},
        ".png": {"Software": None},
        ".pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    }
    # A fixed salt, because identifiers in an SVG would be random otherwise.
    with matplotlib.rc_context({"svg.hashsalt": "hpme"}):
        figure.savefig(content, format=suffix[1:], dpi=RESOLUTION, metadata=meta[suffix])
    found = content.getvalue()
    # The layout is solved to within rounding, which shows in the sign of zeros.
    return re.sub(rb"(?<=[ \n])-0(?=[ \n\"])", b"0", found) if suffix == ".svg" else found
