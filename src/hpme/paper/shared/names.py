"""How the paper calls datasets, methods and metrics, and the numbers it prints for them."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, NamedTuple

from hpme.bench.experiment import ALL_EDGES, GROUND_TRUTH, MEAN_RANK
from hpme.data import DATASETS
from hpme.errors import UnknownNameError
from hpme.explainers import EXPLAINERS

OURS, PRINTED = "hpme", "hpme-printed"
"""HPME as it is here, and as the paper prints it."""
OWN_SIZE = {"ratio": "auto"}
"""HPME that is told nothing about the ground truth, as users have it."""

LOGIT, BY_NODES = {"target": "logit"}, {"unit": "node"}
BOUNDS = {GROUND_TRUTH: "Ground truth", ALL_EDGES: "All edges", MEAN_RANK: "Mean rank"}
"""What is shown beside explainers for comparison, and is none."""
OPTIONS = {"bce_weight": "β", "ratio": "r"}
"""Options with a name of their own in the paper."""


@dataclass(frozen=True)
class Metric:
    """A column of numbers."""

    title: str
    higher: bool | None = True  # whether higher is better; None if neither is
    digits: int = 3

    @property
    def heading(self) -> str:
        """The title with an arrow towards better values."""
        arrow = {True: " ↑", False: " ↓", None: ""}[self.higher]
        return self.title + arrow


METRICS = {
    "auc": Metric("AUC"),
    "auc_per_graph": Metric("AUC per graph"),
    "node_auc": Metric("node AUC"),
    "recall_1": Metric("first"),
    "recall_2": Metric("second"),
    "recall_least": Metric("least"),
    "carried": Metric("carried"),
    "lost": Metric("lost"),
    "cosine": Metric("Cos."),
    "euclidean": Metric("Euc.", higher=False),
    "simoar": Metric("SimOAR"),
    "simoar_random": Metric("SimOAR of random edges", higher=None),
    "simoar_empty": Metric("SimOAR of no edges", higher=None),
    "precision": Metric("Precision"),
    "robust_fidelity_plus": Metric("robust Fid+"),
    "robust_fidelity_minus": Metric("robust Fid-", higher=False),
    "fidelity_plus": Metric("Fid+"),
    "fidelity_minus": Metric("Fid-", higher=False),
    "accuracy": Metric("ACC", digits=2),
    "macro_f1": Metric("Macro-F1", digits=2),
    "rmse": Metric("RMSE", higher=False, digits=2),
    "mape": Metric("MAPE", higher=False, digits=2),
}


def metric_of(name: str) -> Metric:
    """A known metric, or a plain column for any other."""
    return METRICS.get(name, Metric(name.replace("_", " "), higher=None))


def explainer_title(name: str) -> str:
    """Name of an explainer, whatever its options."""
    if name in BOUNDS:
        return BOUNDS[name]
    return EXPLAINERS[name].title if name in EXPLAINERS else name


def method_title(name: str, options: Mapping[str, Any] | None = None) -> str:
    """Name of an explainer, with options that set it apart."""
    for special, end in (OWN_SIZE, ", its own size"), (BY_NODES, " of nodes"), (LOGIT, ""):
        if options == special:
            return explainer_title(name) + end
    shown = []
    for key, value in (options or {}).items():
        known = type(value) in (int, float)
        text = f"{value:g}" if known else json.dumps(value).strip('"')
        shown.append(f"{OPTIONS.get(key, key)}={text}")
    return explainer_title(name) + (f" ({', '.join(shown)})" if shown else "")


def dataset_title(name: str) -> str:
    """Name of a dataset as the paper prints it."""
    return DATASETS[name].title if name in DATASETS else name


class PaperValue(NamedTuple):
    """A printed value."""

    mean: float
    std: float | None  # what stands behind its ±, if anything


PaperTable = dict[str, dict[str, dict[str, PaperValue]]]
"""Values by dataset, method (for targets: model) and metric."""


def paper_table(*names: str) -> PaperTable:
    """Tables of the paper as it prints them, in one."""
    return {
        dataset: {
            method: {metric: PaperValue(*value) for metric, value in metrics.items()}
            for method, metrics in methods.items()
        }
        for name in names
        for dataset, methods in _printed(name)["values"].items()
    }


def paper_note(name: str) -> str | None:
    """What to know about a table of the paper, if anything."""
    note: str | None = _printed(name).get("note")
    return note


@functools.cache
def paper_tables() -> dict[str, dict[str, Any]]:
    """All tables by name: their ``values``, and a ``note`` where there is one."""
    text = resources.files(__package__).joinpath("numbers.json").read_text("utf-8")
    tables: dict[str, dict[str, Any]] = json.loads(text)
    return tables


def _printed(name: str) -> dict[str, Any]:
    if name not in paper_tables():
        raise UnknownNameError("table of the paper", name, list(paper_tables()))
    return paper_tables()[name]
