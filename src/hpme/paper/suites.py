"""All suites by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hpme.bench.experiment import Experiment
from hpme.bench.store import OTHER
from hpme.paper import ALL, ablation, baselines, beyond_graphs, fidelity, pictures, table1, tune
from hpme.paper.shared.cells import wanted_by
from hpme.paper.shared.suite import SEEDS, Suite, by_target

SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        *(table1.TABLE1, table1.FAITHFUL, baselines.BASELINES),
        *(table1.ARCHITECTURES, table1.INDUCTIVE),
        *(beyond_graphs.NODE_SUITE, beyond_graphs.LINK_SUITE, beyond_graphs.SEAL_SUITE),
        *(beyond_graphs.HETERO_SUITE, fidelity.SHIFT, fidelity.FIDELITY, table1.BACKBONES),
        *(ablation.ABLATION, ablation.BETA, ablation.RATIO, ablation.RATIO_PRINTED),
        *(pictures.CASES, pictures.MIXUPS, pictures.SIZES, tune.SUITE),
    )
}
REPORTED = {name: suite for name, suite in SUITES.items() if suite.reported}
"""Those that ``all`` runs."""


def _everything(seeds: Sequence[int]) -> list[Experiment]:
    """Every experiment once, with all that any suite wants to know of it.

    Suites that are meant for seeds of their own keep them.
    """
    merged: dict[str, Experiment] = {}
    for suite in REPORTED.values():
        for experiment in suite.experiments(seeds if suite.seeds == SEEDS else suite.seeds):
            bare = replace(experiment, metrics=()).key
            known = merged.get(bare, experiment).metrics
            metrics = tuple(dict.fromkeys(known + experiment.metrics))
            merged[bare] = replace(experiment, metrics=metrics)
    return by_target(list(merged.values()))


EVERYTHING = Suite(ALL, "All suites, every explainer fitted once", _everything)
"""Costs less than the suites one by one: they share many fits."""


def home(experiment: Experiment) -> str:
    """The first of all suites that asks for an experiment: its file holds the result."""
    return next((name for name, suite in REPORTED.items() if wanted_by(suite, experiment)), OTHER)
