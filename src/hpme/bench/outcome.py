"""An experiment in the making: the target, the fitted explainer, the explanations."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor, nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.explain import Explanation, HeteroExplanation

from hpme.bench.experiment import ALL_EDGES, GROUND_TRUTH, MEAN_RANK, Experiment
from hpme.data import GraphDataset, GraphStore
from hpme.data.dataset import TUNING
from hpme.explainers import GraphExplainer
from hpme.explainers.registry import make_explainer
from hpme.models import ExplainedModel, Recipe, TrainReport, load_or_train, predict, recipe_for
from hpme.models.chemprop.files import ATOM_DESCRIPTORS, MOLECULE_DESCRIPTORS
from hpme.models.explained import Model
from hpme.models.freezing import removed_afterwards
from hpme.models.output import Mode

MAX_LABELLED = 1000
"""Training graphs for methods that train the target."""
MODEL_INPUTS = (
    *("x", "edge_index", "edge_attr", "edge_weight", "anchors"),
    *(ATOM_DESCRIPTORS, MOLECULE_DESCRIPTORS),
)


@dataclass(frozen=True)
class Target:
    """A trained model and where it comes from; without report one that was trained elsewhere."""

    name: str
    seed: int
    model: Any  # a TargetGNN, or an ExplainedModel that was trained elsewhere
    report: TrainReport | None

    @classmethod
    def prepare(cls, dataset: GraphDataset, name: str, seed: int = 0, **options: Any) -> Target:
        """Trains a model, or reads it from the cache; see :func:`hpme.models.load_or_train`."""
        return cls(name, seed, *load_or_train(dataset, name, seed, **options))


def recipe_of(dataset: GraphDataset, train_steps: int | None) -> Recipe:
    """The dataset's recipe, with a training no longer than ``train_steps``."""
    recipe = recipe_for(dataset.info)
    return recipe if train_steps is None else replace(recipe, max_steps=train_steps)


@dataclass(frozen=True)
class Outcome:
    """What metrics are computed from."""

    experiment: Experiment
    dataset: GraphDataset
    target: Target
    numbers: list[int]  # of the explained graphs in the dataset
    graphs: list[Data]  # with their ground truth
    companions: list[Data]  # other graphs the explainer was fitted on too
    explanations: list[Explanation]
    explainer: GraphExplainer | None = None  # fitted
    pool_ratio_source: str | None = None  # see make_explainer
    fit_seconds: float = 0.0
    explain_seconds: float = 0.0
    cpu_seconds: float = 0.0  # of both
    target_passes: float | None = None  # meanwhile, over the graphs it was fitted on, if any

    @property
    def mode(self) -> Mode | None:
        """What the target's output means."""
        if isinstance(self.target.model, ExplainedModel):
            return self.target.model.mode
        regression = self.dataset.info.task == "regression"
        return "regression" if regression else "multiclass_classification"

    @cached_property
    def predictions(self) -> Tensor:
        """The target's output for each graph; of classes their scores before the softmax."""
        model = self.target.model
        if not isinstance(model, ExplainedModel):
            return predict(model, GraphStore.from_graphs(self.graphs))
        with model.frozen(), torch.no_grad():
            output = model.adapter().predict(model.read(without_ground_truth(self.graphs)).batch())
        task = model.task(output)
        return task.log_prob(output) if task.classification else output


def explain(
    experiment: Experiment, dataset: GraphDataset, target: Target, *, progress: bool = False
) -> Outcome:
    """Fits an explainer on the explained graphs of a dataset and explains them.

    Explainers see neither labels nor ground truth, except that a method which trains the target
    (``needs_labels``) gets training graphs with their labels besides, and methods with a pool ratio
    are told the one of the ground truth (see :func:`make_explainer`), which the record says.

    Without an explainer nothing is explained; :data:`~hpme.bench.experiment.GROUND_TRUTH`,
    ``ALL_EDGES`` and ``MEAN_RANK`` take its place. With ``fit_graphs`` the explainer is fitted on
    as many graphs that only development draws, of which it explains none.
    """
    if experiment.explainer is None:
        return Outcome(experiment, dataset, target, [], [], [], [])
    seed, count, others = experiment.seed, experiment.graphs, experiment.fit_graphs
    numbers = dataset.explained(seed, count)
    if others is None:
        beside = dataset.companions(seed, count)
    else:  # development draws from all other numbers than tables
        few = seed % TUNING
        beside = torch.cat([dataset.explained(few, others), dataset.companions(few, others)])
    graphs = [dataset[int(number)] for number in numbers]
    companions = [dataset[int(number)] for number in beside]
    inputs = without_ground_truth(graphs)
    chosen = Outcome(experiment, dataset, target, numbers.tolist(), graphs, companions, [])
    if experiment.explainer in (GROUND_TRUTH, ALL_EDGES):
        alike, pairs = experiment.explainer == ALL_EDGES, zip(inputs, graphs, strict=True)
        return replace(chosen, explanations=[_sure(*pair, alike=alike) for pair in pairs])
    start, began = time.perf_counter(), time.process_time()
    if experiment.explainer == MEAN_RANK:
        found = _mean_rank(chosen, inputs)
        seconds, spent = time.perf_counter() - start, time.process_time() - began
        return replace(chosen, explanations=found, explain_seconds=seconds, cpu_seconds=spent)
    explainer, source = make_explainer(experiment.explainer, dataset, seed, experiment.options)
    known: dict[str, Any] = {}
    if explainer.needs_labels:
        # Graphs of the training split; labels of others would leak into what is trained.
        train, generator = dataset.split["train"], torch.Generator().manual_seed(seed)
        order = torch.randperm(len(train), generator=generator)[:MAX_LABELLED]
        labelled = [dataset[int(number)] for number in train[order]]
        known["labelled"] = without_ground_truth(labelled, keep=("y",))
    fit_graphs = (inputs if others is None else []) + without_ground_truth(companions)
    with counted(target.model) as passes:
        explainer.fit(target.model, fit_graphs, mode=chosen.mode, progress=progress, **known)
        fitted = time.perf_counter()
        explanations = explainer.explain(target.model, inputs, progress=progress)
        explained, ended = time.perf_counter(), time.process_time()
    return replace(
        chosen,
        explanations=explanations,
        explainer=explainer,
        pool_ratio_source=source,
        fit_seconds=fitted - start,
        explain_seconds=explained - fitted,
        cpu_seconds=ended - began,
        target_passes=passes.over(fit_graphs),
    )


def _mean_rank(chosen: Outcome, inputs: list[Data]) -> list[Explanation]:
    """Mean rank of every edge, among those of all graphs, by what costs next to nothing."""
    odds = {} if chosen.mode == "regression" else {"target": "logit"}
    cheap: tuple[tuple[str, dict[str, Any]], ...] = (
        *(("occlusion", {"signed": True}), ("occlusion", {"signed": True, "unit": "node"})),
        *(("integratedgradients", {}), ("grad", odds)),
    )
    ranks, model = [], chosen.target.model
    for name, options in cheap:
        explainer, _ = make_explainer(name, chosen.dataset, chosen.experiment.seed, options)
        explainer.fit(model, inputs, mode=chosen.mode, progress=False)
        found = explainer.explain(model, inputs, progress=False)
        ranks.append(rankdata(torch.cat([one.edge_mask for one in found]).numpy()))
    mean = torch.from_numpy(np.mean(ranks, axis=0) / max(1, len(ranks[0]))).float()
    parts = torch.split(mean, [graph.num_edges for graph in inputs])
    pairs = zip(inputs, parts, strict=True)
    return [Explanation(**graph.to_dict(), edge_mask=part) for graph, part in pairs]


def without_ground_truth(graphs: Iterable[Data], keep: tuple[str, ...] = ()) -> list[Data]:
    """Copies that hold what a model reads and the attributes in ``keep``, and nothing else."""
    names = MODEL_INPUTS + keep
    return [_only(graph, names) for graph in graphs]


def _only(graph: Any, names: tuple[str, ...]) -> Any:
    """A copy of a graph with some of its attributes."""
    if not isinstance(graph, HeteroData):
        return Data(**{name: graph[name] for name in names if graph.get(name) is not None})
    kept = HeteroData({name: graph[name] for name in names if name in graph._global_store})
    for kind, rows in (*graph.node_items(), *graph.edge_items()):
        for name in names:
            if name in rows:
                kept[kind][name] = rows[name]
    return kept


def _sure(seen: Any, graph: Any, *, alike: bool) -> Any:
    """The explanation of a graph that nobody had to find: its truth, or that all edges count."""
    hetero = isinstance(seen, HeteroData)
    explanation = (HeteroExplanation if hetero else Explanation)(**seen.to_dict())
    for kind in seen.edge_types if hetero else [None]:
        into, given = (explanation[kind], graph[kind]) if hetero else (explanation, graph)
        into.edge_mask = torch.ones(given.num_edges) if alike else given.edge_mask.float()
    return explanation


@dataclass
class Passes:
    """Edges a model was shown while watched; one pass shows every edge of the graphs once."""

    edges: int = 0

    def over(self, graphs: Iterable[Any]) -> float | None:
        """Passes over some graphs; ``None`` if they have no edge."""
        once = sum(graph.num_edges for graph in graphs)
        return self.edges / once if once else None


@contextmanager
def counted(model: Model) -> Iterator[Passes]:
    """Watches a model, and copies that are made of it meanwhile."""
    passes, module = Passes(), ExplainedModel.of(model).model

    def watch(_: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        passes.edges += _edges_seen((*args, *kwargs.values()))

    with removed_afterwards() as handles:
        handles.append(module.register_forward_pre_hook(watch, with_kwargs=True))
        yield passes


def _edges_seen(values: Iterable[Any]) -> int:
    """Number of edges among the arguments of a call: integers in two rows, or several by type."""
    for given in values:
        value = getattr(given, "edge_index", given)
        parts = list(value.values()) if isinstance(value, Mapping) else [value]
        integers = all(isinstance(part, Tensor) and part.dtype == torch.long for part in parts)
        if parts and integers and all(part.dim() == 2 and len(part) == 2 for part in parts):
            return sum(part.shape[1] for part in parts)
    return 0
