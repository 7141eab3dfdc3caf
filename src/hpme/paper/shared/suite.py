"""A table or figure of the paper: the experiments behind it, and what shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hpme.bench.experiment import Experiment
from hpme.explainers import EXPLAINERS, GraphExplainer

if TYPE_CHECKING:
    from hpme.paper.shared.cells import Cells
    from hpme.paper.shared.document import Block
    from hpme.paper.shared.results import Results

SEEDS = tuple(range(100, 110))
"""The paper repeats everything ten times; these seeds were not used in development."""
ONE_SEED = (100,)
"""For pictures."""
CLASSIFICATION = (
    "ba-2motifs",
    "ba-housegrid",
    "spmotif",
    "ba-houseandgrid",
    "alkane-carbonyl",
    "fluoride-carbonyl",
    "benzene",
)
REGRESSION = (
    "ba-motif-volume",
    "house-grid-volume",
    "ba-motif-counting",
    "triangles",
    "crippen",
    "house-orgrid-volume",
)
VARIANTS = {"alkane-carbonyl": "downsampled"}
"""Where the paper does not use the dataset's first variant."""

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Suite:
    """One table or figure.

    Args:
        name: Its name on the command line.
        title: What it shows.
        experiments: The experiments of given seeds, those of one target together.
        seeds: Seeds it is meant to be run with.
        blocks: What shows its cells; by default all that was measured.
    """

    name: str
    title: str
    experiments: Callable[[Sequence[int]], list[Experiment]]
    seeds: tuple[int, ...] = SEEDS
    blocks: Callable[[Cells, Results], list[Block]] | None = None


def experiments_of(
    datasets: Iterable[str],
    methods: Iterable[str],
    seeds: Sequence[int],
    *,
    options: Sequence[Options] = ({},),
    metrics: tuple[str, ...] = ("auc",),
) -> list[Experiment]:
    """Every method with every choice of options on every dataset, each with its usual target."""
    return [
        Experiment(
            dataset,
            method,
            seed,
            model=EXPLAINERS.get(method, GraphExplainer).default_model,
            variant=VARIANTS.get(dataset),
            options=choice,
            metrics=metrics,
        )
        for dataset in datasets
        for method in methods
        for choice in options
        for seed in seeds
    ]


def registered_elsewhere() -> list[str]:
    """Explainers of other packages."""
    return [name for name, kind in EXPLAINERS.items() if not kind.__module__.startswith("hpme.")]
