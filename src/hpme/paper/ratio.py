"""HPME by pooling ratio."""

from __future__ import annotations

from collections.abc import Sequence

from hpme.bench.experiment import Experiment
from hpme.paper.shared.cells import Cells
from hpme.paper.shared.document import Block
from hpme.paper.shared.results import Results
from hpme.paper.shared.sensitivity import sensitivity
from hpme.paper.shared.suite import Options, Suite, experiments_of

DATASETS = ("benzene", "ba-housegrid", "ba-motif-volume", "ba-motif-counting")


def experiments(seeds: Sequence[int]) -> list[Experiment]:
    """From 0.1 to 1; without an option the ratio is that of the ground truth."""
    options: list[Options] = [{}, *({"ratio": step / 10} for step in range(1, 11))]
    return experiments_of(DATASETS, ["hpme"], seeds, options=options)


def blocks(cells: Cells, results: Results) -> list[Block]:
    """A table and the same as curves."""
    return sensitivity(cells, results, "ratio", "pooling ratio $r$", mark_truth=True)


SUITE = Suite("ratio", "HPME by pooling ratio", experiments, blocks=blocks)
