"""Scores of the models that are explained."""

from __future__ import annotations

from collections.abc import Sequence

from hpme.bench.experiment import Experiment
from hpme.paper.shared.blocks import target_tables
from hpme.paper.shared.cells import Cells, Results
from hpme.paper.shared.document import Block
from hpme.paper.shared.suite import CLASSIFICATION, REGRESSION, VARIANTS, Suite


def experiments(seeds: Sequence[int]) -> list[Experiment]:
    """Seeds are those the targets are trained with; nothing is explained."""
    return [
        Experiment(
            name, None, seed, model=model, variant=VARIANTS.get(name), target_seed=seed,
            metrics=("target",),
        )
        for name in CLASSIFICATION + REGRESSION
        for model in ("gcn", "gin", "gat")
        for seed in seeds
    ]  # fmt: skip


def blocks(cells: Cells, _: Results) -> list[Block]:
    """Tables by task."""
    return list(target_tables("backbones", cells.records()))


SUITE = Suite(
    "backbones", "Targets GCN, GIN and GAT on their test split", experiments, blocks, (0,)
)
