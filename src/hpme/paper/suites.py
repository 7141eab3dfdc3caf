"""All suites by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module

from hpme.bench.experiment import Experiment
from hpme.paper import ALL, NAMES
from hpme.paper.shared.suite import SEEDS, Suite

SUITES: dict[str, Suite] = {name: import_module(f"hpme.paper.{name}").SUITE for name in NAMES}


def _everything(seeds: Sequence[int]) -> list[Experiment]:
    """Every experiment once, with all that any suite wants to know of it.

    Suites that are meant for seeds of their own keep them.
    """
    merged: dict[str, Experiment] = {}
    for suite in (suite for suite in SUITES.values() if suite.reported):
        for experiment in suite.experiments(seeds if suite.seeds == SEEDS else suite.seeds):
            bare = replace(experiment, metrics=()).key
            known = merged.get(bare, experiment).metrics
            metrics = tuple(dict.fromkeys(known + experiment.metrics))
            merged[bare] = replace(experiment, metrics=metrics)
    names = list(dict.fromkeys(experiment.dataset for experiment in merged.values()))
    return sorted(merged.values(), key=lambda experiment: names.index(experiment.dataset))


EVERYTHING = Suite(ALL, "All suites, every explainer fitted once", _everything)
"""Costs less than the suites one by one: they share many fits."""
