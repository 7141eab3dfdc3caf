"""Settings of the baselines: one grid for each, run on seeds that nothing is reported on."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from hpme.bench.experiment import Experiment
from hpme.paper.shared.suite import CLASSIFICATION, REGRESSION, Suite, each

SIZES, ENTROPIES = (0.003, 0.03, 0.1, 0.3), (0.01, 1.0)
"""Weights of size and entropy that every method is tried with."""


def grid(**values: Sequence[Any]) -> list[dict[str, Any]]:
    """All combinations of values."""
    return [
        dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())
    ]


def _penalties(**values: Sequence[Any]) -> list[dict[str, Any]]:
    return grid(size_weight=SIZES, entropy_weight=ENTROPIES, **values)


GRIDS = {
    "gnnexplainer": _penalties(epochs=(100, 300)),
    "pgexplainer": _penalties(epochs=(100, 300)),
    "tagexplainer": _penalties(epochs=(100, 300)),
    "mixupexplainer": _penalties(epochs=(50, 150)),
    "regexplainer": _penalties(epochs=(50, 150)),
    "proxyexplainer": _penalties(epochs=(30, 100)),
    "metagnn": grid(posthoc_options=_penalties(epochs=(100, 300))),
}
"""Sixteen settings of each method."""
GRAPHS = 100
"""Fewer than what is reported on: an epoch is one step of training for either number."""
METRICS = ("auc", "choice")


def experiments(seeds: Sequence[int]) -> list[Experiment]:
    """Every setting on every graph dataset."""
    return [
        experiment
        for dataset in CLASSIFICATION + REGRESSION
        for method, settings in GRIDS.items()
        for experiment in each(
            [dataset], [method], options=settings, metrics=METRICS, graphs=GRAPHS
        )(seeds)
    ]


SUITE = Suite(
    "tune",
    "Settings of the baselines",
    experiments,
    seeds=(0,),
    reported=False,
)
