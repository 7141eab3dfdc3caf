"""All models by name; trained ones are on disk, found again by what determines their weights."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch_geometric
from torch import Tensor

from hpme import __version__
from hpme.data import GraphDataset, GraphStore
from hpme.data.info import Level, TaskKind
from hpme.data.registry import default_root
from hpme.errors import InputError, ModelError, StorageError, UnknownNameError
from hpme.graphs.schema import EDGE_TYPE, NODE_TYPE
from hpme.models.gnn import GAT, GCN, GIN, NodeGAT, NodeGCN, NodeGIN, TargetGNN
from hpme.models.hetero import HeteroGNN, NodeHeteroGNN
from hpme.models.seal import DGCNN
from hpme.models.train import Recipe, TrainReport, recipe_for, train_target
from hpme.storage import read_or_make, read_tensors, write_tensors

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
    """The model of that level, by default ``"gcn"``; of nodes that means ``"node-gcn"``."""
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
        in_channels, out_channels, task, hyper_parameters: Arguments of the model's class.
        seed: Seed of the initial weights.
    """
    kind = model_class(name)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return kind(in_channels, out_channels, task, **hyper_parameters)


TRAINING_VERSION = 1
"""Part of every key; raise it when a change to models or training alters the weights."""


def save_model(model: TargetGNN, path: str | Path, meta: dict[str, Any] | None = None) -> None:
    """Writes a model and how to rebuild it to one safetensors file.

    Args:
        model: One of :obj:`hpme.models.MODELS`.
        path: The file.
        meta: Anything else worth keeping, as JSON values.
    """
    names = [name for name, kind in MODELS.items() if type(model) is kind]
    if not names:
        raise ModelError(
            f"only models of {', '.join(MODELS)} can be saved, got {type(model).__name__}; save "
            "the weights of other models with safetensors.torch.save_model"
        )
    weights = model.state_dict()
    description = {
        "kind": "target model",
        "model": names[0],
        "hyper_parameters": model.hyper_parameters,
        "versions": {
            "hpme": __version__,
            "torch": torch.__version__,
            "torch_geometric": torch_geometric.__version__,
        },
        "sha256": _digest(weights),
        "meta": meta or {},
    }
    write_tensors(path, weights, description)


def load_model(path: str | Path) -> tuple[TargetGNN, dict[str, Any]]:
    """Reads what :func:`save_model` wrote: the model in evaluation mode, and ``meta``.

    Raises:
        StorageError: If the file is missing, damaged or holds something else.
    """
    weights, description = read_tensors(path, undigested=True)  # it has one of its own
    if description.get("kind") != "target model":
        raise StorageError(f"'{path}' holds no target model; write one with save_model()")
    if description.get("sha256") != _digest(weights):
        raise StorageError(f"'{path}' is damaged: its weights have changed; train or copy it again")
    try:
        model = build_model(description["model"], **description["hyper_parameters"])
        model.load_state_dict(weights)
    except (KeyError, TypeError, RuntimeError, InputError, UnknownNameError) as error:
        raise StorageError(
            f"'{path}' does not fit this version of hpme ({error}); train the model again"
        ) from error
    meta: dict[str, Any] = description["meta"]
    return model.eval(), meta


def load_or_train(
    dataset: GraphDataset,
    model_name: str | None = None,
    seed: int = 0,
    *,
    recipe: Recipe | None = None,
    root: str | Path | None = None,
    progress: bool = False,
) -> tuple[TargetGNN, TrainReport]:
    """A trained model in evaluation mode, from the cache if it is there and intact.

    Args:
        dataset: Graphs with labels and a split.
        model_name: One of :obj:`hpme.models.MODELS`; where nodes have labels, ``"gcn"`` stands
            for ``"node-gcn"``. By default ``"gcn"``, ``"hetero"`` for heterogeneous graphs.
        seed: Seed of the initial weights and of training.
        recipe: How to train; by default :func:`recipe_for` the dataset.
        root: Cache folder; by default ``$HPME_CACHE_DIR`` or the platform's cache folder.
    """
    recipe = recipe or recipe_for(dataset.info)
    model, request = _untrained(dataset, model_name, seed, recipe)
    path = checkpoint_path(default_root() if root is None else Path(root), request)

    def read() -> tuple[TargetGNN, TrainReport]:
        stored, meta = load_model(path)
        if meta["request"] != request:
            raise ValueError("it is of another request")
        return stored, TrainReport(**meta["report"])

    def train() -> tuple[TargetGNN, TrainReport]:
        return model, train_target(model, dataset, seed=seed, recipe=recipe, progress=progress)

    def write(trained: tuple[TargetGNN, TrainReport]) -> None:
        save_model(model, path, {"request": request, "report": asdict(trained[1])})

    return read_or_make(path, read, train, write, what="model", making="training")


def target_path(dataset: GraphDataset, model_name: str, seed: int, *, recipe: Recipe) -> Path:
    """Where :func:`load_or_train` keeps a model; arguments as there."""
    return checkpoint_path(default_root(), _untrained(dataset, model_name, seed, recipe)[1])


def _untrained(
    dataset: GraphDataset, model_name: str | None, seed: int, recipe: Recipe
) -> tuple[TargetGNN, dict[str, Any]]:
    """A new model, and all that determines its weights after training."""
    info, store, suited = dataset.info, dataset.training_store(), {}
    model_name = name_for(model_name, info.model_level, hetero=store.schema is not None)
    if store.schema is not None:
        suited = HeteroGNN.shape_of(store.schema)
    elif info.model_level == "graph":
        suited = MODELS[model_name].suited_to(store.sizes[dataset.split["train"]])
    shape = (int(store.x.shape[1]), info.num_outputs, info.task)
    model = build_model(model_name, *shape, seed=seed, **suited)
    known = {"name": info.name, "variant": dataset.variant, "graphs": len(dataset)}
    request = {
        "dataset": {**known, "sha256": _fingerprint(store, dataset.split)},
        "model": model_name,
        "hyper_parameters": model.hyper_parameters,
        "recipe": asdict(recipe),
        "seed": seed,
        "training_version": TRAINING_VERSION,
    }
    return model, request


def checkpoint_path(root: Path, request: dict[str, Any]) -> Path:
    """Where the model of a request is stored; the name holds a digest of the whole request."""
    digest = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()[:16]
    name = f"{request['dataset']['name']}-{request['model']}-seed{request['seed']}-{digest}"
    return root / "models" / f"{name}.safetensors"


def _fingerprint(store: GraphStore, split: dict[str, Tensor]) -> str:
    """Digest of all that training sees of a dataset."""
    used = {"x": store.x, "edge_index": store.local_edge_index, **split}
    used |= {"sizes": store.sizes, "edge_counts": store.edge_counts}
    if store.y is not None:
        used["y"] = store.y
    if store.schema is not None:
        used |= {NODE_TYPE: store.node[NODE_TYPE], EDGE_TYPE: store.edge[EDGE_TYPE]}
    return _digest(used)


def _digest(tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()
