"""Link prediction: robust fidelity."""

from __future__ import annotations

from collections.abc import Sequence

from hpme.bench.experiment import Experiment
from hpme.paper import nodes
from hpme.paper.shared.blocks import graph_means
from hpme.paper.shared.cells import Cells
from hpme.paper.shared.document import Block
from hpme.paper.shared.numbers import paper_table
from hpme.paper.shared.results import Results
from hpme.paper.shared.suite import Suite

DATASETS = tuple(f"{name}-links" for name in nodes.DATASETS)
METHODS = ("random", "pgexplainer", "hpme")


def experiments(seeds: Sequence[int]) -> list[Experiment]:
    """There is no ground truth, so HPME chooses the pooled size itself."""
    return [
        Experiment(dataset, method, seed, model="dgcnn", metrics=("robust_fidelity",))
        for dataset in DATASETS
        for method in METHODS
        for seed in seeds
    ]


def blocks(cells: Cells, _: Results) -> list[Block]:
    """One table."""
    metrics = ("robust_fidelity_plus", "robust_fidelity_minus")
    caption = "Robust fidelity, link prediction"
    return graph_means(cells, caption, metrics, paper_table("links"))


SUITE = Suite("links", "Robust fidelity for link prediction", experiments, blocks=blocks)
