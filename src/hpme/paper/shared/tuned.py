"""Settings of the baselines, and ways to choose among them by what they were measured to give."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from scipy import stats

from hpme.explainers.hpme.search.criterion import joint_rank

VALUES = ("auc", "choice_disagreement", "choice_loss", "choice_fidelity")
"""What is known of every setting, in this order."""
SIZES, ENTROPIES = (0.003, 0.03, 0.1, 0.3), (0.01, 1.0)
"""Weights of size and entropy that every method is tried with."""


def grid(**values: Sequence[Any]) -> list[dict[str, Any]]:
    """All combinations of values."""
    combined = itertools.product(*values.values())
    return [dict(zip(values, chosen, strict=True)) for chosen in combined]


def _penalties(**values: Sequence[Any]) -> list[dict[str, Any]]:
    return grid(size_weight=SIZES, entropy_weight=ENTROPIES, **values)


GRIDS: dict[str, list[dict[str, Any]]] = {
    "gnnexplainer": _penalties(epochs=(100, 300)),
    "pgexplainer": _penalties(epochs=(100, 300)),
    "tagexplainer": _penalties(epochs=(100, 300)),
    "mixupexplainer": _penalties(epochs=(50, 150)),
    "regexplainer": _penalties(epochs=(50, 150)),
    "proxyexplainer": _penalties(epochs=(30, 100)),
    "metagnn": grid(posthoc_options=_penalties(epochs=(100, 300))),
}
"""Sixteen settings of each method."""

Tuning = Mapping[str, Mapping[str, Sequence[Sequence[float]]]]
""":data:`VALUES` of every setting of the grid, by method and dataset."""


def best_rank(scores: Mapping[str, Sequence[Sequence[float]]]) -> int:
    """Number of the one setting for all datasets: that with the best mean rank of AUC over them."""
    ranks = [stats.rankdata([-values[0] for values in settings]) for settings in scores.values()]
    return int(sum(ranks).argmin())


def best_mix(settings: Sequence[Sequence[float]]) -> int:
    """Number of the setting whose hard mixes keep predictions best, without ground truth.

    By the criterion of HPME, :func:`~hpme.explainers.hpme.search.criterion.criterion`.
    """
    return int(joint_rank(torch.tensor([values[1:3] for values in settings])).argmin())


def best_fidelity(settings: Sequence[Sequence[float]]) -> int:
    """Number of the setting of highest robust fidelity, without ground truth."""
    return max(range(len(settings)), key=lambda number: settings[number][3])


def best_auc(settings: Sequence[Sequence[float]]) -> int:
    """Number of the setting with the highest AUC, which nobody finds without the ground truth."""
    return max(range(len(settings)), key=lambda number: settings[number][0])
