"""Settings of the baselines, and ways to choose among them by what they were measured to give."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Literal

import numpy as np
import torch
from scipy import stats

from hpme.explainers import MetaGNNExplainer, explainer_class
from hpme.explainers.hpme.search.criterion import joint_rank
from hpme.paper.shared.suite import Options

Rule = Literal["default", "chosen", "oracle"]
"""How a setting is found.

``default`` is one for all datasets, that of the explainer itself. ``chosen`` is one for each
dataset, found without ground truth: that whose hard mixes keep predictions best, by
:func:`~hpme.explainers.hpme.search.criterion.criterion`. ``oracle`` is one for each dataset, found
by the AUC itself, which nobody can do who does not know the answer.
"""
FILE = "tuning.json"
LEVEL_RANKS = 0.5
"""Difference of mean ranks that says nothing."""

VALUES = ("auc", "choice_disagreement", "choice_loss", "choice_fidelity")
"""What is known of every setting, in this order."""
DESIGN = (
    (0.003, 0.01, 0),
    *((0.03, 0.01, 1), (0.03, 1.0, 0)),
    *((0.1, 0.01, 0), (0.1, 0.01, 1)),
    *((0.3, 0.01, 1), (0.3, 1.0, 0)),
)
"""Weights of size and entropy, and whether training is short (0) or long (1).

Seven of the sixteen combinations: four weights of the size, of which the middle ones meet both
weights of the entropy or both trainings.
"""


def _penalties(short: int, long: int) -> list[dict[str, Any]]:
    return [
        {"size_weight": size, "entropy_weight": entropy, "epochs": (short, long)[longer]}
        for size, entropy, longer in DESIGN
    ]


GRIDS: dict[str, list[dict[str, Any]]] = {
    "gnnexplainer": _penalties(100, 300),
    "pgexplainer": _penalties(100, 300),
    "tagexplainer": _penalties(100, 300),
    "mixupexplainer": _penalties(50, 150),
    "regexplainer": _penalties(50, 150),
    "proxyexplainer": _penalties(30, 100),
    "metagnn": [{"posthoc_options": options} for options in _penalties(100, 300)],
}
"""As many settings of each method."""

Tuning = Mapping[str, Mapping[str, Sequence[Sequence[float]]]]
""":data:`VALUES` of every setting of the grid, by method and dataset."""


@functools.cache
def tuning() -> Tuning:
    """What ``hpme bench tune`` gave when the settings were fixed."""
    found: Tuning = json.loads(resources.files(__package__).joinpath(FILE).read_text("utf-8"))
    return found


def best_rank(scores: Mapping[str, Sequence[Sequence[float]]]) -> int:
    """Number of the one setting for all datasets: that with the best mean rank of AUC over them.

    Among settings that are :data:`LEVEL_RANKS` from it or less, which one seed does not tell apart,
    the highest mean AUC decides.
    """
    auc = np.array([[values[0] for values in settings] for settings in scores.values()])
    ranks = stats.rankdata(-auc, axis=1).mean(0)
    level = ranks <= ranks.min() + LEVEL_RANKS
    return int(np.where(level, auc.mean(0), -1.0).argmax())


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


def setting(method: str, dataset: str, rule: Rule) -> Options:
    """Options of a method on a dataset that differ from its defaults."""
    if rule == "default":
        return {}
    choose = {"chosen": best_mix, "oracle": best_auc}[rule]
    return apart_from_defaults(method, GRIDS[method][choose(tuning()[method][dataset])])


def apart_from_defaults(method: str, options: Options) -> Options:
    """Those of some options that a method does not have by default."""
    explainer = explainer_class(method)()
    if isinstance(explainer, MetaGNNExplainer):  # its settings are of what explains the copy
        known = explainer.explainer.get_params()
        return {} if options["posthoc_options"].items() <= known.items() else options
    default = explainer.get_params()
    return {name: value for name, value in options.items() if default[name] != value}
