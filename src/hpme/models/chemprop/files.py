"""Chemprop's model files, read without running what they hold; networks that answer together."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, cast
from zipfile import is_zipfile

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals
from torch_geometric.data import Batch

from hpme.errors import InputError, StorageError, optional_module
from hpme.graphs.segment import reverse_edge_index
from hpme.models.explained import ExplainedModel
from hpme.models.freezing import frozen
from hpme.models.output import position

ATOM_DESCRIPTORS, MOLECULE_DESCRIPTORS = "V_d", "X_d"
"""Chemprop's names of what joins atoms after message passing, and molecules after pooling."""


class Ensemble(nn.Module):
    """Networks of one kind whose mean output is the prediction, as with ``chemprop predict``.

    The mean is that of probabilities, or of values in the units of the labels. All members read the
    same graphs; a forward pass costs as much as one of each. Node embeddings are those of the last.

    Args:
        members: Networks with the same inputs, head and tasks, trained apart.
        names: What to call them in messages, such as their files.

    Raises:
        InputError: If they differ in inputs, head or tasks.
    """

    def __init__(self, members: Iterable[nn.Module], names: Iterable[object] = ()) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        ours, *others = (_kind(member) for member in self.members)
        called = [f"'{name}'" for name in names] or [f"member {i}" for i in range(len(others) + 1)]
        for name, theirs in zip(called[1:], others, strict=True):
            for what, value in ours.items():
                if theirs[what] != value:
                    raise InputError(
                        f"members of an ensemble have the same {what}: {called[0]} has {value}, "
                        f"{name} has {theirs[what]}"
                    )
        self.title = f"ensemble of {len(self.members)} Chemprop networks"  # what pages call it
        self.eval()

    def forward(self, graphs: Any, V_d: Tensor | None = None, X_d: Tensor | None = None) -> Tensor:
        """The mean output of the members."""
        return self.outputs(graphs, V_d, X_d).mean(0)

    def outputs(self, graphs: Any, V_d: Tensor | None = None, X_d: Tensor | None = None) -> Tensor:
        """The output of every member, ``[members, graphs, tasks]``; classes follow if several."""
        return torch.stack([_output(member, graphs, V_d, X_d) for member in self.members])

    @torch.no_grad()
    def spread(self, graphs: Any) -> Tensor:
        """Standard deviation of the members' outputs on a list or ``Batch`` of molecules."""
        batch = graphs if isinstance(graphs, Batch) else Batch.from_data_list(list(graphs))
        with frozen(self):
            return self.outputs(*_inputs(batch)).std(0)


def spread_of(explained: ExplainedModel, graphs: Any) -> Tensor | None:
    """Standard deviation of an ensemble's members, of several classes the largest, ``[graphs]``."""
    if not isinstance(explained.model, Ensemble):
        return None
    found, target = explained.model.spread(graphs), explained.target
    task = target[0] if isinstance(target, tuple) else target
    column = 0
    if task is not None and found.shape[1] > 1:
        column = position(task, found.shape[1], explained.tasks, "task")
    return found[:, column].view(len(found), -1).amax(1)


def _kind(member: Any) -> dict[str, Any]:
    """What members of an ensemble share."""
    head = {"head": type(member.predictor).__name__, "number of tasks": member.predictor.n_tasks}
    return {"input widths": input_widths(member), **head, "tasks": task_names(member)}


def input_widths(member: Any) -> tuple[int, int, int]:
    """Features per atom and per bond, and descriptors per atom, that a network takes."""
    hyper = member.message_passing.hparams
    return int(hyper["d_v"]), int(hyper["d_e"]), int(hyper.get("d_vd") or 0)


def first(model: nn.Module) -> Any:
    """The network, or the first of an ensemble; the others have the same inputs and head."""
    return model.members[0] if isinstance(model, Ensemble) else model


def embedding_layer(model: nn.Module) -> str:
    """Name of the layer whose output is the node embedding."""
    # The readout of the last member runs last: embeddings of nodes and graphs are of one network.
    inside = f"members.{len(model.members) - 1}." if isinstance(model, Ensemble) else ""
    return f"{inside}message_passing"


def task_names(model: nn.Module) -> list[str] | None:
    """Names of the tasks, where the network was read from a file that has them."""
    return cast("list[str] | None", getattr(first(model), "task_names", None))


def call(model: nn.Module, graphs: Batch) -> Tensor:
    """Predictions of a network or ensemble on graphs of :func:`~hpme.models.chemprop.molecules`."""
    inputs = _inputs(graphs)
    return model(*inputs) if isinstance(model, Ensemble) else _output(model, *inputs)


class _Views(TorchFunctionMode):
    """Chemprop copies an index for every feature; sums by a view of it take a tenth of the time."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.repeat and args[1:2] == (1,) and args[0].shape[1:] == (1,):
            return args[0].expand(-1, args[2])
        return func(*args, **kwargs or {})


def _output(member: Any, graphs: Any, V_d: Tensor | None, X_d: Tensor | None) -> Tensor:
    with _Views():
        output: Tensor = member(graphs, V_d, X_d)
    # Networks that say how sure they are do so behind the prediction.
    return output[..., 0] if member.predictor.n_targets > 1 else output


@dataclass
class MolGraphs:
    """What Chemprop's layers read of its ``BatchMolGraph``, made of tensors that are there."""

    V: Tensor
    E: Tensor
    edge_index: Tensor
    rev_edge_index: Tensor
    batch: Tensor
    size: int

    def __len__(self) -> int:
        return self.size


def _inputs(graphs: Batch) -> tuple[MolGraphs, Tensor | None, Tensor | None]:
    """Graphs as Chemprop's layers read them, and descriptors of atoms and molecules."""
    edges: Tensor = graphs.edge_index
    reverse = reverse_edge_index(edges, graphs.num_nodes)
    if not torch.equal(edges[:, reverse], edges.flip(0)):
        raise InputError("a bond has one direction only; Chemprop's molecules have both")
    read = MolGraphs(graphs.x, graphs.edge_attr, edges, reverse, graphs.batch, graphs.num_graphs)
    return read, graphs.get(ATOM_DESCRIPTORS), graphs.get(MOLECULE_DESCRIPTORS)


_MODULES = ("chemprop.nn.", "torch.nn.modules.")
"""Where classes of layers, transforms and metrics come from; making one runs nothing else."""
_DICTIONARY = "lightning.fabric.utilities.data.AttributeDict"
_REDUCTIONS = (f"dim_zero_{how}" for how in ("cat", "max", "mean", "min", "sum"))
_OTHERS = {f"torchmetrics.utilities.data.{name}" for name in _REDUCTIONS}
_OTHERS.add("torchmetrics.metric.jit_distributed_available")
_DAMAGED = (pickle.UnpicklingError, RuntimeError, KeyError, TypeError, ValueError, AttributeError)
PARTS = ("message_passing", "agg", "predictor")


def read_model(
    path: str | Path | Iterable[str | Path], *, trust: bool = False
) -> tuple[nn.Module, list[str] | None]:
    """The network in a file of ``chemprop train`` or of Lightning, and the names of its tasks.

    Several files, or a folder of them, are an :class:`~hpme.models.chemprop.Ensemble`. Such files
    are pickles. Tensors, numbers and Chemprop's own classes are read from them with
    ``weights_only=True``; a file that names anything else is refused.

    Args:
        path: A ``.pt`` or ``.ckpt`` file, several, or a folder: then the ``.pt`` files in it at any
            depth, or the ``.ckpt`` files if there are no others.
        trust: Whether to read a file that names other code, for example a layer of your own. That
            code runs while the file is read: do so only with files you made.

    Raises:
        StorageError: If a file is missing, damaged, needs trust, or holds another network.
        InputError: If several networks differ in inputs, head or tasks.
        MissingPackageError: If Chemprop is not installed.
    """
    chemprop_module("nn")
    files = model_files([path] if isinstance(path, str | Path) else path)
    members = [_read_one(file, trust=trust) for file in files]
    model = members[0] if len(members) == 1 else Ensemble(members, files)
    return model, task_names(model)


def model_files(paths: Iterable[str | Path]) -> list[Path]:
    """The model files among files and in folders, each once."""
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            # Training writes the best network as .pt beside checkpoints of the same.
            inside = sorted(path.rglob("*.pt")) or sorted(path.rglob("*.ckpt"))
            if not inside:
                raise StorageError(f"no .pt or .ckpt file in folder '{path}'; check the path")
            found += inside
        else:
            found.append(path)
    if not found:
        raise StorageError("no model file; give a .pt or .ckpt file, several, or a folder")
    return list(dict.fromkeys(found))


def _read_one(path: Path, *, trust: bool) -> nn.Module:
    if not path.is_file():
        raise StorageError(f"no file '{path}'; check the path")
    if not is_zipfile(path):
        raise StorageError(
            f"'{path}' is no model file of Chemprop 2; convert one of version 1 with: "
            "chemprop convert --conversion v1_to_v2"
        )
    try:
        named = [] if trust else get_unsafe_globals_in_checkpoint(path)
        # Torch fills plain dictionaries only; this one adds nothing that is needed.
        found = {name: dict if name == _DICTIONARY else _known(name) for name in named}
        if foreign := [name for name, kind in found.items() if kind is None]:
            raise StorageError(
                f"'{path}' names code that is not Chemprop's ({', '.join(sorted(foreign))}), which "
                "would run while the file is read; if you made the file, or trust whoever did, "
                "read it with --trust-model-file (in Python: trust=True)"
            )
        with safe_globals([(kind, name) for name, kind in found.items()]):
            content = torch.load(path, map_location="cpu", weights_only=not trust)
        model: Any = _rebuild(content, path)
        names = content.get("output_columns")
        model.task_names = None if names is None else [str(name) for name in names]
        return cast(nn.Module, model)
    except StorageError:
        raise
    except _DAMAGED as error:
        raise StorageError(
            f"'{path}' is damaged or of another version of Chemprop: {type(error).__name__}: "
            f"{str(error).splitlines()[0] if str(error) else ''}"
        ) from error


def _known(name: str) -> Any:
    """A class or function that a file may name, ``None`` if it may not."""
    module, _, attribute = name.rpartition(".")
    if name not in _OTHERS and not name.startswith(_MODULES):
        return None
    found = getattr(importlib.import_module(module), attribute, None)
    layer = isinstance(found, type) and issubclass(found, nn.Module | Enum)
    return found if layer or name in _OTHERS else None


def _rebuild(content: dict[str, Any], path: Path) -> nn.Module:
    hyper = dict(content["hyper_parameters"])
    if "atom_predictor" in hyper or "blocks" in hyper["message_passing"]:
        raise StorageError(
            f"'{path}' holds a network for atoms and bonds or for several molecules at once; "
            "networks that predict properties of one molecule can be explained"
        )
    for part in PARTS:
        given = dict(hyper[part])
        hyper[part] = given.pop("cls")(**given)
    hyper["metrics"] = None  # they score a training, which is over
    model: nn.Module = chemprop_module("models").MPNN(**hyper)
    weights = {k: v for k, v in content["state_dict"].items() if not k.startswith("metrics.")}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    wrong = [name for name in [*missing, *unexpected] if not name.startswith("metrics.")]
    if wrong:
        raise InputError(f"weights do not fit the hyper-parameters: {', '.join(wrong)}")
    return model.eval()


def chemprop_module(name: str) -> Any:
    """A module of Chemprop, such as ``"nn"``."""
    return optional_module(f"chemprop.{name}", "this needs Chemprop 2 ({error})", "chemprop")
