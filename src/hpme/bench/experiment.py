"""One experiment: explain a trained model on a dataset with one explainer and one seed."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch_geometric
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.explain import Explanation

from hpme import __version__
from hpme.bench.options import make_explainer
from hpme.data import GraphDataset, GraphStore
from hpme.explainers import GraphExplainer
from hpme.metrics import explanation_auc
from hpme.models import Recipe, TargetGNN, TrainReport, load_or_train, predict
from hpme.models.task import Mode

MODEL_INPUTS = ("x", "edge_index", "edge_attr", "edge_weight")


@dataclass(frozen=True)
class Target:
    """A trained model and where it comes from."""

    name: str
    seed: int
    model: TargetGNN
    report: TrainReport

    @classmethod
    def prepare(
        cls,
        dataset: GraphDataset,
        name: str,
        seed: int = 0,
        *,
        recipe: Recipe | None = None,
        root: str | Path | None = None,
        progress: bool = False,
    ) -> Target:
        """Trains a model, or reads it from the cache; see :func:`hpme.models.load_or_train`."""
        model, report = load_or_train(
            dataset, name, seed, recipe=recipe, root=root, progress=progress
        )
        return cls(name, seed, model, report)


@dataclass(frozen=True)
class Record:
    """What is kept of an experiment; plain values only.

    Args:
        dataset: Name of the dataset.
        variant: Its variant.
        rule: What its labels say.
        size: Its number of graphs.
        model: Name of the target model.
        target_seed: Seed the target was trained with.
        target_metrics: The target's metrics on ``train``, ``val`` and ``test``.
        explainer: Name of the explainer.
        config: All constructor arguments of the explainer.
        pool_ratio_source: ``"ground truth"``, ``"option"`` or, without ground truth, ``"default"``;
            ``None`` without a pool ratio.
        seed: Seed of the explainer and of the choice of explained graphs.
        graphs: Number of explained graphs.
        companions: Number of other graphs the explainer was fitted on too.
        auc: Pooled edge ROC-AUC, ``None`` if undefined.
        auc_per_graph: Mean edge ROC-AUC per graph, ``None`` if undefined.
        auc_undefined: Why ``auc`` is ``None``.
        fit_seconds: Time to fit the explainer.
        explain_seconds: Time to explain all graphs.
        report: What the explainer reports about its fit, if it does.
        versions: Versions of the software.
    """

    dataset: str
    variant: str
    rule: str
    size: int
    model: str
    target_seed: int
    target_metrics: dict[str, dict[str, float]]
    explainer: str
    config: dict[str, Any]
    pool_ratio_source: str | None
    seed: int
    graphs: int
    companions: int
    auc: float | None
    auc_per_graph: float | None
    auc_undefined: str | None
    fit_seconds: float
    explain_seconds: float
    report: dict[str, Any] | None
    versions: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON values; a number that is not finite becomes ``None``."""
        values: dict[str, Any] = _json_values(asdict(self))
        return values


@dataclass(frozen=True)
class Outcome:
    """A record together with what it was made from.

    Args:
        record: The numbers.
        explainer: The fitted explainer.
        graphs: The explained graphs, with their ground truth.
        explanations: One per graph.
        predictions: The target's output for each graph.
    """

    record: Record
    explainer: GraphExplainer
    graphs: list[Data]
    explanations: list[Explanation]
    predictions: Tensor


def run_experiment(
    dataset: GraphDataset,
    model: str | Target,
    explainer_name: str,
    seed: int = 0,
    *,
    target_seed: int = 0,
    count: int = 200,
    options: Mapping[str, Any] | None = None,
    progress: bool = False,
) -> Outcome:
    """Fits an explainer on the explained graphs of a dataset, explains them, and scores the result.

    Explainers see neither labels nor ground truth, except that a method which trains the target
    (``needs_labels``) gets the labels of the training graphs among the same graphs, and methods
    with a pool ratio are told the one of the ground truth (see
    :func:`~hpme.bench.options.make_explainer`), which the record says.

    Args:
        dataset: Graphs with ground truth.
        model: A target, or the name of one to train with ``target_seed`` or take from the cache.
        explainer_name: A key of :obj:`hpme.explainers.EXPLAINERS`.
        seed: Seed of the explainer and of the choice of explained graphs.
        target_seed: Seed of the target, if ``model`` is a name.
        count: Number of explained graphs.
        options: Constructor arguments of the explainer.
        progress: Whether to draw progress bars.
    """
    explainer, source = make_explainer(explainer_name, dataset, seed, options)
    target = (
        model
        if isinstance(model, Target)
        else Target.prepare(dataset, model, target_seed, progress=progress)
    )
    numbers, others = dataset.explained(seed, count), dataset.companions(seed, count)
    graphs = [dataset[int(number)] for number in numbers]
    inputs = without_ground_truth(graphs)
    company = [dataset[int(number)] for number in others]
    mode: Mode = "regression" if dataset.info.task == "regression" else "multiclass_classification"
    start = time.perf_counter()
    fit_graphs = inputs + without_ground_truth(company)
    if explainer.needs_labels:
        # Labels of validation and test graphs would leak into what the method trains.
        known = torch.isin(torch.cat([numbers, others]), dataset.split["train"]).tolist()
        labelled = without_ground_truth(graphs + company, keep=("y",))
        fit_graphs = [graph for graph, ok in zip(labelled, known, strict=True) if ok]
    explainer.fit(target.model, fit_graphs, mode=mode, progress=progress)
    fitted = time.perf_counter()
    explanations = explainer.explain(target.model, inputs, progress=progress)
    explained = time.perf_counter()
    pooled = explanation_auc(explanations, graphs)
    per_graph = explanation_auc(explanations, graphs, reduction="per_graph")
    report = getattr(explainer, "report", None)
    record = Record(
        dataset=dataset.info.name,
        variant=dataset.variant,
        rule=dataset.rule,
        size=len(dataset),
        model=target.name,
        target_seed=target.seed,
        target_metrics=target.report.metrics,
        explainer=explainer_name,
        config=explainer.config(),
        pool_ratio_source=source,
        seed=seed,
        graphs=len(graphs),
        companions=len(company),
        auc=None if pooled.reason else float(pooled),
        auc_per_graph=None if per_graph.reason else float(per_graph),
        auc_undefined=pooled.reason,
        fit_seconds=fitted - start,
        explain_seconds=explained - fitted,
        report=None if report is None else report.to_dict(),
        versions=versions(),
    )
    predictions = predict(target.model, GraphStore.from_graphs(inputs))
    return Outcome(record, explainer, graphs, explanations, predictions)


def without_ground_truth(graphs: Iterable[Data], keep: tuple[str, ...] = ()) -> list[Data]:
    """Copies that hold what a model reads and the attributes in ``keep``, and nothing else."""
    names = MODEL_INPUTS + keep
    return [
        Data(**{name: graph[name] for name in names if graph.get(name) is not None})
        for graph in graphs
    ]


def versions() -> dict[str, str]:
    """Versions of the software a result depends on."""
    return {
        "hpme": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "torch_geometric": torch_geometric.__version__,
    }


def _json_values(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _json_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_values(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
