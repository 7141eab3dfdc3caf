"""A table or figure of the paper: the experiments behind it, and what shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from hpme.bench.experiment import Experiment
from hpme.explainers import EXPLAINERS, GraphExplainer

if TYPE_CHECKING:
    from hpme.paper.shared.cells import Cells, Results
    from hpme.paper.shared.document import Block

SEEDS = (400, 401)
"""They draw from graphs that development never sees; any others may be named."""
ONE_SEED = SEEDS[:1]
"""For pictures."""
CLASSIFICATION = (
    *("ba-2motifs", "ba-housegrid", "spmotif", "ba-houseandgrid"),
    *("alkane-carbonyl", "fluoride-carbonyl", "benzene"),
)
REGRESSION = (
    *("ba-motif-volume", "house-grid-volume", "ba-motif-counting", "triangles"),
    *("crippen", "house-orgrid-volume"),
)
GRAPH_DATASETS = CLASSIFICATION + REGRESSION
VARIANTS = {"alkane-carbonyl": "downsampled"}
"""Where the paper does not use the dataset's first variant."""

Options = Mapping[str, Any]
Experiments = Callable[[Sequence[int]], list[Experiment]]
"""The experiments of given seeds."""
Show: TypeAlias = "Callable[[Cells, Results], list[Block]]"
"""What makes the blocks of a page."""


@dataclass(frozen=True)
class Suite:
    """One table or figure."""

    name: str  # on the command line
    title: str
    experiments: Experiments  # those of one target together
    blocks: Show | None = None  # shows its cells; by default all that was measured
    seeds: tuple[int, ...] = SEEDS  # that it is meant to be run with
    reported: bool = True  # whether results are compared with others'; if not, ``all`` is without


def each(
    datasets: Iterable[str],
    methods: Iterable[str],
    *,
    options: Sequence[Options] = ({},),
    targets: Sequence[int] = (0,),
    metrics: tuple[str, ...] = ("auc",),
    **changes: Any,
) -> Experiments:
    """Every method with every choice of options on every dataset; the model is that it is made for.

    Args:
        targets: Seeds of the targets.
        changes: Other fields of the experiments.
    """
    return lambda seeds: [
        Experiment(
            dataset,
            method,
            seed,
            options=choice,
            metrics=metrics,
            target_seed=target,
            **{
                "model": EXPLAINERS.get(method, GraphExplainer).default_model,
                "variant": VARIANTS.get(dataset),
                **changes,
            },
        )
        for dataset in datasets
        for method in methods
        for choice in options
        for target in targets
        for seed in seeds
    ]


def together(*parts: Experiments) -> Experiments:
    """The experiments of several parts, those of one target one after the other."""
    return lambda seeds: by_target([experiment for part in parts for experiment in part(seeds)])


def by_target(experiments: Sequence[Experiment]) -> list[Experiment]:
    """The same experiments, those of one target together, first targets of all datasets first."""
    names = list(dict.fromkeys(experiment.dataset for experiment in experiments))
    return sorted(experiments, key=lambda one: (one.target_seed, names.index(one.dataset)))


def registered_elsewhere() -> list[str]:
    """Explainers of other packages."""
    return [name for name, kind in EXPLAINERS.items() if not kind.__module__.startswith("hpme.")]
