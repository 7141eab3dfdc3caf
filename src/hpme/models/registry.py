"""All models by name."""

from __future__ import annotations

from typing import Any

import torch

from hpme.data.info import Level, TaskKind
from hpme.errors import InputError, UnknownNameError
from hpme.models.gnn import GAT, GCN, GIN, NodeGAT, NodeGCN, NodeGIN, TargetGNN
from hpme.models.hetero import HeteroGNN, NodeHeteroGNN
from hpme.models.seal import DGCNN

MODELS: dict[str, type[TargetGNN]] = {
    "gcn": GCN,
    "gin": GIN,
    "gat": GAT,
    "dgcnn": DGCNN,
    "node-gcn": NodeGCN,
    "node-gin": NodeGIN,
    "node-gat": NodeGAT,
    "hetero": HeteroGNN,
    "node-hetero": NodeHeteroGNN,
}


def name_for(name: str | None, level: Level, *, hetero: bool = False) -> str:
    """The model of that level: where nodes have labels, ``"gcn"`` means ``"node-gcn"``.

    Without a name ``"gcn"`` is meant, or ``"hetero"``.
    """
    name = name or ("hetero" if hetero else "gcn")
    fitting = [n for n, kind in MODELS.items() if (kind.level, kind.hetero) == (level, hetero)]
    for candidate in (name, f"{level}-{name}"):
        if candidate in fitting:
            return candidate
    model_class(name)
    what = f"heterogeneous {level}s" if hetero else f"{level}s"
    raise InputError(f"'{name}' is no model of {what}; use one of: {', '.join(fitting)}")


def model_class(name: str) -> type[TargetGNN]:
    """The class of a model."""
    if name not in MODELS:
        raise UnknownNameError("model", name, list(MODELS))
    return MODELS[name]


def build_model(
    name: str,
    in_channels: int,
    out_channels: int,
    task: TaskKind = "classification",
    *,
    seed: int = 0,
    **hyper_parameters: Any,
) -> TargetGNN:
    """An untrained model; the same seed gives the same weights, global random state untouched.

    Args:
        name: One of :obj:`MODELS`.
        in_channels: Number of node features.
        out_channels: Number of classes, or 1 for regression.
        task: ``"classification"`` or ``"regression"``.
        seed: Seed of the initial weights.
        hyper_parameters: Further arguments of the model's class.
    """
    kind = model_class(name)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return kind(in_channels, out_channels, task, **hyper_parameters)
