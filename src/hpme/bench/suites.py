"""The paper's tables and figures as lists of experiments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hpme.bench.experiment import Experiment
from hpme.bench.paper import GROUND_TRUTH

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
NODES = ("ba-shapes", "ba-community", "tree-grid")
LINKS = tuple(f"{name}-links" for name in NODES)
METHODS = (
    "random",
    "grad",
    "att",
    "metagnn",
    "gnnexplainer",
    "pgexplainer",
    "tagexplainer",
    "matchexplainer",
    "mixupexplainer",
    "proxyexplainer",
    "regexplainer",
    "hpme",
)
VARIANTS = {"alkane-carbonyl": "downsampled"}
"""Where the paper does not use the dataset's first variant."""
MODELS = {"att": "gat"}
"""Attention weights are those of a model that has attention; all other methods share a target."""

GRADIENT = {"search": "gradient"}
"""The search closest to the paper's text; loss weights and mixup can be changed in it alone."""

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Suite:
    """One table or figure.

    Args:
        name: Its name on the command line.
        title: What it shows.
        experiments: The experiments of given seeds, those of one target together.
        seeds: Seeds it is meant to be run with.
    """

    name: str
    title: str
    experiments: Callable[[Sequence[int]], list[Experiment]]
    seeds: tuple[int, ...] = SEEDS


def _cells(
    datasets: Iterable[str],
    methods: Iterable[str],
    seeds: Sequence[int],
    options: Sequence[Options] = ({},),
    metrics: tuple[str, ...] = ("auc",),
) -> list[Experiment]:
    """Every method with every choice of options on every dataset."""
    return [
        Experiment(
            dataset,
            method,
            seed,
            model=MODELS.get(method, "gcn"),
            variant=VARIANTS.get(dataset),
            options=choice,
            metrics=metrics,
        )
        for dataset in datasets
        for method in methods
        for choice in options
        for seed in seeds
    ]


def _table1(seeds: Sequence[int]) -> list[Experiment]:
    return _cells(CLASSIFICATION + REGRESSION, METHODS, seeds)


def _second(seeds: Sequence[int]) -> list[Experiment]:
    """The same model, trained anew from other weights and in another order."""
    cells = _cells(CLASSIFICATION + REGRESSION, ["hpme"], seeds)
    return [replace(experiment, target_seed=1) for experiment in cells]


def _shift(seeds: Sequence[int]) -> list[Experiment]:
    """The table of the main text is a part of the two in the appendix."""
    classification = ("ba-housegrid", "ba-houseandgrid", "benzene", "fluoride-carbonyl")
    regression = ("ba-motif-volume", "ba-motif-counting", "crippen", "triangles")
    common = (GROUND_TRUTH, "pgexplainer", "mixupexplainer")
    return [
        *_cells(classification, (*common, "proxyexplainer", "hpme"), seeds, metrics=("shift",)),
        *_cells(regression, (*common, "regexplainer", "hpme"), seeds, metrics=("shift",)),
    ]


def _fidelity(seeds: Sequence[int]) -> list[Experiment]:
    """Ground truth and random explanations are what the paper's methods should lie between."""
    classification = ("alkane-carbonyl", "ba-housegrid")
    regression = ("house-orgrid-volume", "ba-motif-volume")
    bounds = (GROUND_TRUTH, "random")
    of_classes = ("gnnexplainer", "pgexplainer", "mixupexplainer", "proxyexplainer", "hpme")
    of_values = ("mixupexplainer", "regexplainer", "hpme")
    metrics = ("simoar", "robust_fidelity", "fidelity", "precision")
    return [
        *_cells(classification, (*bounds, *of_classes), seeds, metrics=metrics),
        *_cells(regression, (*bounds, *of_values), seeds, metrics=metrics),
    ]


def _backbones(seeds: Sequence[int]) -> list[Experiment]:
    """Seeds are those the targets are trained with; nothing is explained."""
    return [
        Experiment(
            dataset,
            None,
            seed,
            model=model,
            variant=VARIANTS.get(dataset),
            target_seed=seed,
            metrics=("target",),
        )
        for dataset in CLASSIFICATION + REGRESSION
        for model in ("gcn", "gin", "gat")
        for seed in seeds
    ]


def _ablation(seeds: Sequence[int]) -> list[Experiment]:
    datasets = ("ba-housegrid", "benzene", "ba-motif-volume", "ba-motif-counting")
    without_mix = {**GRADIENT, "mixup": False}
    without_bce = {**GRADIENT, "bce_weight": 0.0}
    of_search: list[Options] = [{"refine": 0}, {"neighbor": "random"}, {"attach": "rank"}]
    options = [{}, *of_search, GRADIENT, without_mix, without_bce]
    return _cells(datasets, ["hpme"], seeds, options)


def _beta(seeds: Sequence[int]) -> list[Experiment]:
    datasets = ("ba-houseandgrid", "benzene", "ba-motif-volume", "house-grid-volume")
    options = [{**GRADIENT, "bce_weight": step / 10} for step in range(1, 11)]
    return _cells(datasets, ["hpme"], seeds, options)


def _ratio(seeds: Sequence[int]) -> list[Experiment]:
    """Without an option the ratio is that of the ground truth."""
    datasets = ("benzene", "ba-housegrid", "ba-motif-volume", "ba-motif-counting")
    options: list[Options] = [{"ratio": step / 10} for step in range(1, 11)]
    return _cells(datasets, ["hpme"], seeds, [{}, *options])


def _cases(seeds: Sequence[int]) -> list[Experiment]:
    classification = ("ba-2motifs", "ba-houseandgrid", "benzene")
    regression = ("ba-motif-volume", "house-grid-volume")
    common = ("hpme", "proxyexplainer", "mixupexplainer", "metagnn")
    metrics = ("auc", "explanations")
    return [
        *_cells(classification, common, seeds, metrics=metrics),
        *_cells(regression, (*common, "regexplainer", "att"), seeds, metrics=metrics),
    ]


def _mixups(seeds: Sequence[int]) -> list[Experiment]:
    metrics = ("auc", "explanations", "mixups")
    methods = ("hpme", "proxyexplainer", "mixupexplainer")
    return [
        *_cells(["ba-housegrid"], methods, seeds, metrics=metrics),
        *_cells(
            ["ba-motif-volume"], ("hpme", "regexplainer", "mixupexplainer"), seeds, metrics=metrics
        ),
    ]


def _sizes(seeds: Sequence[int]) -> list[Experiment]:
    metrics = ("auc", "explanations", "mixups")
    options = [{"neighbor": "near"}, {"neighbor": "far"}]
    return _cells(["ba-housegrid"], ["hpme"], seeds, options, metrics)


def _nodes(seeds: Sequence[int]) -> list[Experiment]:
    methods = ("random", "grad", "gnnexplainer", "pgexplainer", "mixupexplainer", "hpme")
    return _cells(NODES, methods, seeds)


def _links(seeds: Sequence[int]) -> list[Experiment]:
    """There is no ground truth, so HPME chooses the pooled size itself."""
    return [
        Experiment(dataset, method, seed, model="dgcnn", metrics=("robust_fidelity",))
        for dataset in LINKS
        for method in ("random", "pgexplainer", "hpme")
        for seed in seeds
    ]


SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite("table1", "Edge ROC-AUC of all methods on the 13 graph datasets", _table1),
        Suite("second", "HPME on a second target, trained with another seed", _second),
        Suite("nodes", "Edge ROC-AUC for node classification", _nodes),
        Suite("links", "Robust fidelity for link prediction", _links),
        Suite("shift", "Distance of graphs to mixup graphs and to the ground truth", _shift),
        Suite("fidelity", "SimOAR and robust fidelity", _fidelity),
        Suite("backbones", "Targets GCN, GIN and GAT on their test split", _backbones, (0,)),
        Suite("ablation", "HPME without mixup, without BCE", _ablation),
        Suite("beta", "HPME by weight of the BCE", _beta),
        Suite("ratio", "HPME by pooling ratio", _ratio),
        Suite("cases", "Explanations to look at", _cases, ONE_SEED),
        Suite("mixups", "Mixup graphs to look at", _mixups, ONE_SEED),
        Suite("sizes", "Mixup with near and with far graphs to look at", _sizes, ONE_SEED),
    )
}
"""All suites by name."""


def _everything(seeds: Sequence[int]) -> list[Experiment]:
    """Every experiment once, with all that any suite wants to know of it.

    Suites that are meant for seeds of their own keep them.
    """
    merged: dict[str, Experiment] = {}
    for suite in SUITES.values():
        for experiment in suite.experiments(seeds if suite.seeds == SEEDS else suite.seeds):
            bare = replace(experiment, metrics=()).key
            known = merged.get(bare, experiment).metrics
            metrics = tuple(dict.fromkeys(known + experiment.metrics))
            merged[bare] = replace(experiment, metrics=metrics)
    order = {name: place for place, name in enumerate(dict.fromkeys(
        experiment.dataset for experiment in merged.values()))}  # fmt: skip
    return sorted(merged.values(), key=lambda experiment: order[experiment.dataset])


EVERYTHING = Suite("all", "All suites, every explainer fitted once", _everything)
"""Costs less than the suites one by one: they share many fits."""
