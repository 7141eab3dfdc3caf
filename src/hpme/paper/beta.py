"""HPME by gradient, by weight of the BCE."""

from __future__ import annotations

from collections.abc import Sequence

from hpme.bench.experiment import Experiment
from hpme.paper.shared.cells import Cells
from hpme.paper.shared.document import Block
from hpme.paper.shared.results import Results
from hpme.paper.shared.sensitivity import sensitivity
from hpme.paper.shared.suite import Suite, experiments_of

DATASETS = ("ba-houseandgrid", "benzene", "ba-motif-volume", "house-grid-volume")


def experiments(seeds: Sequence[int]) -> list[Experiment]:
    """From 0.1 to 1."""
    options = [{"bce_weight": step / 10} for step in range(1, 11)]
    return experiments_of(DATASETS, ["hpme-gradient"], seeds, options=options)


def blocks(cells: Cells, results: Results) -> list[Block]:
    """A table and the same as curves."""
    return sensitivity(cells, results, "bce_weight", r"weight $\beta$ of the BCE")


SUITE = Suite("beta", "HPME by weight of the BCE", experiments, blocks=blocks)
