"""HPME on the same models, trained anew from other weights and in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hpme.bench.experiment import Experiment
from hpme.paper.shared.annex import annex
from hpme.paper.shared.blocks import by_task
from hpme.paper.shared.cells import Cells
from hpme.paper.shared.document import Block
from hpme.paper.shared.results import Results
from hpme.paper.shared.suite import CLASSIFICATION, REGRESSION, Suite, experiments_of


def experiments(seeds: Sequence[int]) -> list[Experiment]:
    """As in the main table, but for the target."""
    usual = experiments_of(CLASSIFICATION + REGRESSION, ["hpme"], seeds)
    return [replace(experiment, target_seed=1) for experiment in usual]


def blocks(cells: Cells, _: Results) -> list[Block]:
    """Tables by task."""
    return [*by_task(cells), *annex(cells)]


SUITE = Suite(
    "second", "HPME on a second target, trained with another seed", experiments, blocks=blocks
)
