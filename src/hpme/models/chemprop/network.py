"""How Chemprop's networks are called on graphs, and what their output means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch

from hpme.errors import InputError, ModelError
from hpme.models.chemprop.molecules import ATOM_DESCRIPTORS, MOLECULE_DESCRIPTORS
from hpme.models.chemprop.package import chemprop_module
from hpme.models.explained import ExplainedModel


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


def explained(
    model: nn.Module, *, tasks: Sequence[str] | None = None, **options: Any
) -> ExplainedModel:
    """A Chemprop network ready to be explained.

    Args:
        model: An ``MPNN`` with messages along bonds or between atoms. Where it takes descriptors,
            the graphs carry them, see :func:`~hpme.models.chemprop.molecules`.
        tasks: Names of its tasks, see :func:`~hpme.models.chemprop.read_model`.
        **options: Further arguments of :class:`~hpme.models.explained.ExplainedModel`, such as
            ``target="the task to explain"``.

    Raises:
        ModelError: If it is another kind of network.
        MissingPackageError: If Chemprop is not installed.
    """
    kinds, heads = chemprop_module("models"), chemprop_module("nn.predictors")
    if not isinstance(model, kinds.MPNN) or isinstance(model, kinds.MulticomponentMPNN):
        raise ModelError(
            f"{type(model).__name__} is no network for properties of one molecule; "
            "expected chemprop.models.MPNN"
        )
    if isinstance(model.predictor, heads.MulticlassClassificationFFN):
        meaning = {"mode": "multiclass_classification", "return_type": "probs"}
    elif isinstance(model.predictor, heads.BinaryClassificationFFNBase):
        meaning = {"mode": "binary_classification", "return_type": "probs"}
    else:
        meaning = {"mode": "regression"}
    given = {"embedding_layer": "message_passing", "tasks": tasks, **meaning, **options}
    return ExplainedModel(model, call=call, **given)


def call(model: Any, graphs: Batch) -> Tensor:
    """Predictions of a Chemprop network on graphs of :func:`~hpme.models.chemprop.molecules`."""
    output: Tensor = model(
        mol_graphs(graphs), graphs.get(ATOM_DESCRIPTORS), graphs.get(MOLECULE_DESCRIPTORS)
    )
    # Networks that say how sure they are do so behind the prediction.
    return output[..., 0] if model.predictor.n_targets > 1 else output


def mol_graphs(graphs: Batch) -> MolGraphs:
    """The graphs as Chemprop's layers read them; reverse edges are found by sorting."""
    source, target = graphs.edge_index
    ahead, back = source * graphs.num_nodes + target, target * graphs.num_nodes + source
    order, reverse_order = ahead.argsort(), back.argsort()
    if not torch.equal(ahead[order], back[reverse_order]):
        raise InputError("a bond has one direction only; Chemprop's molecules have both")
    reverse = torch.empty_like(order)
    reverse[reverse_order] = order
    return MolGraphs(
        graphs.x, graphs.edge_attr, graphs.edge_index, reverse, graphs.batch, graphs.num_graphs
    )
