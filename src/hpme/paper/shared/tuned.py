"""Settings of the baselines, chosen in three ways from what all of them were measured to give."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Literal

import torch
from scipy import stats

from hpme.explainers import explainer_class
from hpme.explainers.hpme.search.criterion import joint_rank
from hpme.paper.shared.suite import Options

Rule = Literal["default", "chosen", "oracle"]
"""How a setting is found.

``default`` is one for all datasets: that with the best mean rank of AUC over them. ``chosen`` is
one for each dataset, found without ground truth: that whose hard mixes keep predictions best, by
:func:`~hpme.explainers.hpme.search.criterion.criterion`. ``oracle`` is one for each dataset, found
by the AUC itself, which nobody can do who does not know the answer.
"""
FILE = "tuning.json"
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


@functools.cache
def tuning() -> Tuning:
    """What ``hpme bench tune`` gave when the settings were fixed."""
    found: Tuning = json.loads(resources.files(__package__).joinpath(FILE).read_text("utf-8"))
    return found


def best_rank(scores: Mapping[str, Sequence[Sequence[float]]]) -> int:
    """Number of the setting with the best mean rank of AUC over datasets."""
    ranks = [stats.rankdata([-values[0] for values in settings]) for settings in scores.values()]
    return int(sum(ranks).argmin())


def best_mix(settings: Sequence[Sequence[float]]) -> int:
    """Number of the setting whose hard mixes keep predictions best."""
    return int(joint_rank(torch.tensor([values[1:3] for values in settings])).argmin())


def best_fidelity(settings: Sequence[Sequence[float]]) -> int:
    """Number of the setting of highest robust fidelity."""
    return max(range(len(settings)), key=lambda number: settings[number][3])


def best_auc(settings: Sequence[Sequence[float]]) -> int:
    """Number of the setting with the highest AUC."""
    return max(range(len(settings)), key=lambda number: settings[number][0])


def setting(method: str, dataset: str, rule: Rule) -> Options:
    """Options of a method on a dataset that differ from its defaults."""
    found = tuning()[method]
    number = {
        "default": lambda: best_rank(found),
        "chosen": lambda: best_mix(found[dataset]),
        "oracle": lambda: best_auc(found[dataset]),
    }[rule]()
    return _apart_from_defaults(method, GRIDS[method][number])


def _apart_from_defaults(method: str, options: Options) -> Options:
    default = explainer_class(method)().get_params()
    return {name: value for name, value in options.items() if default[name] != value}
