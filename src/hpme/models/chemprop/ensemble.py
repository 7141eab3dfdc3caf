"""How Chemprop's networks are called on graphs: one alone, or several that answer together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch_geometric.data import Batch

from hpme.errors import InputError
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
        """Standard deviation of the members' outputs, ``[graphs, tasks]``: how far they disagree.

        Args:
            graphs: A list of graphs of :func:`~hpme.models.chemprop.molecules`, or their ``Batch``.
        """
        batch = graphs if isinstance(graphs, Batch) else Batch.from_data_list(list(graphs))
        with frozen(self):
            return self.outputs(*_inputs(batch)).std(0)


def spread_of(explained: ExplainedModel, graphs: Any) -> Tensor | None:
    """How far the members of an ensemble disagree about the explained task, ``[graphs]``.

    That is the standard deviation of the probability, the largest of several classes, or of the
    value; ``None`` for a single network.
    """
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
    head = member.predictor
    return {
        "input widths": input_widths(member),
        "head": type(head).__name__,
        "number of tasks": head.n_tasks,
        "tasks": task_names(member),
    }


def input_widths(member: Any) -> tuple[int, int, int]:
    """Features per atom and per bond, and descriptors per atom, that a network takes."""
    hyper = member.message_passing.hparams
    return int(hyper["d_v"]), int(hyper["d_e"]), int(hyper.get("d_vd") or 0)


def first(model: nn.Module) -> Any:
    """The network, or the first of an ensemble; the others have the same inputs and head."""
    return model.members[0] if isinstance(model, Ensemble) else model


def embedding_layer(model: nn.Module) -> str:
    """Name of the layer whose output is the node embedding.

    Of an ensemble it is that of the last member, whose readout is the last to run, so that
    embeddings of nodes and graphs belong to one network.
    """
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
    """Graphs as Chemprop's layers read them, by sorting for reverse edges, and descriptors."""
    source, target = graphs.edge_index
    ahead, back = source * graphs.num_nodes + target, target * graphs.num_nodes + source
    order, reverse_order = ahead.argsort(), back.argsort()
    if not torch.equal(ahead[order], back[reverse_order]):
        raise InputError("a bond has one direction only; Chemprop's molecules have both")
    reverse = torch.empty_like(order)
    reverse[reverse_order] = order
    read = MolGraphs(
        graphs.x, graphs.edge_attr, graphs.edge_index, reverse, graphs.batch, graphs.num_graphs
    )
    return read, graphs.get(ATOM_DESCRIPTORS), graphs.get(MOLECULE_DESCRIPTORS)
