"""Molecules as Chemprop's networks see them, and what the output of these means."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from hpme.data.molecules.chem import rdkit_module
from hpme.errors import InputError, ModelError
from hpme.models.chemprop import files
from hpme.models.chemprop.files import chemprop_module
from hpme.models.explained import ExplainedModel, Model


def molecules(
    points: Iterable[Any],
    model: Model | None = None,
    *,
    featurizer: Any = None,
    hydrogens: bool = False,
) -> list[Data]:
    """Graphs with the features Chemprop gives atoms and bonds; atoms keep RDKit's order.

    Args:
        points: SMILES, or Chemprop's ``MoleculeDatapoint``: their additional features ``V_f`` and
            ``E_f`` become part of ``x`` and ``edge_attr``, their descriptors ``V_d`` and ``x_d``
            fields of the graphs, their labels ``y``.
        model: The network or ensemble; its widths say which of Chemprop's featurizers it was
            trained with.
        featurizer: A Chemprop featurizer, in place of ``model``.
        hydrogens: Whether hydrogens of SMILES become atoms.

    Raises:
        InputError: If a SMILES cannot be read, no featurizer has the widths of the network, or
            additional features or descriptors are missing or have other rows or widths.
        MissingPackageError: If Chemprop is not installed.
    """
    kind = chemprop_module("data").MoleculeDatapoint
    read: list[Any] = []
    for number, point in enumerate(points):
        try:
            text = isinstance(point, str)
            read.append(kind.from_smi(point, add_h=hydrogens) if text else point)
        except RuntimeError as error:
            raise InputError(f"molecule {number}: {error}") from error
    if not read:
        raise InputError("no molecules")
    network = model.model if isinstance(model, ExplainedModel) else model
    member = None if network is None else files.first(network)
    if featurizer is None:
        featurizer = _featurizer(member, read[0])
    if member is not None:
        _check_descriptors(member, read[0])
    return [_graph(point, featurizer, number) for number, point in enumerate(read)]


def _featurizer(model: nn.Module | None, point: Any) -> Any:
    """The featurizer whose widths, with the additional features, are those of the network."""
    module = chemprop_module("featurizers")
    bonds_of = {"RIGR": chemprop_module("featurizers.bond").RIGRBondFeaturizer}
    wanted = None if model is None else files.input_widths(model)[:2]
    tried = []
    for mode in ("V2", "V1", "ORGANIC", "RIGR"):
        made = module.SimpleMoleculeMolGraphFeaturizer(
            module.get_multi_hot_atom_featurizer(mode),
            bonds_of.get(mode, module.MultiHotBondFeaturizer)(),
            extra_atom_fdim=_width(point.V_f),
            extra_bond_fdim=_width(point.E_f),
        )
        if wanted in (None, (made.atom_fdim, made.bond_fdim)):
            return made
        tried.append(f"{mode} {made.atom_fdim} and {made.bond_fdim}")
    assert wanted is not None
    raise InputError(
        f"the network takes {wanted[0]} features per atom and {wanted[1]} per bond, but Chemprop's "
        f"featurizers give {', '.join(tried)} with those of the first molecule; "
        "add the additional features it was trained with (V_f, E_f), or pass featurizer="
    )


def _check_descriptors(model: Any, point: Any) -> None:
    """Refuses descriptors that are not those the network takes."""
    atoms = files.input_widths(model)[2]
    given = 0 if point.x_d is None else int(np.size(point.x_d))
    head = getattr(model.predictor, "hparams", {})  # a predictor of one's own may not say
    whole = head["input_dim"] - model.message_passing.output_dim if "input_dim" in head else given
    for kind, name, wanted, found in (
        ("atom", "V_d", atoms, _width(point.V_d)),
        ("molecule", "x_d", whole, given),
    ):
        if wanted != found:
            raise InputError(
                f"the network takes {wanted} descriptors per {kind}, the first has {found}; give "
                f"those it was trained with ({name})"
            )


def _width(values: Any) -> int:
    return 0 if values is None else int(values.shape[1])


def _graph(point: Any, featurizer: Any, number: int) -> Data:
    try:
        graph = featurizer(point.mol, point.V_f, point.E_f)
    except ValueError as error:
        raise InputError(f"molecule {number}: {error}") from error
    per_molecule = {files.MOLECULE_DESCRIPTORS: point.x_d, "y": point.y}
    fields: dict[str, Any] = {
        name: _tensor(value)[None] for name, value in per_molecule.items() if value is not None
    }
    if point.V_d is not None:
        if len(point.V_d) != len(graph.V):
            raise InputError(
                f"molecule {number} has {len(graph.V)} atoms, but descriptors V_d of "
                f"{len(point.V_d)}; it needs one row per atom"
            )
        fields[files.ATOM_DESCRIPTORS] = _tensor(point.V_d)
    return Data(
        x=_tensor(graph.V),
        edge_index=torch.from_numpy(graph.edge_index).long(),
        edge_attr=_tensor(graph.E),
        smiles=_smiles(point),
        **fields,
    )


def _tensor(values: Any) -> Tensor:
    return torch.from_numpy(np.asarray(values, dtype=np.float32))


def _smiles(point: Any) -> str:
    """A SMILES whose atoms come in the order of the molecule's, empty if none is found."""
    chem = rdkit_module("Chem")
    atoms = [atom.GetAtomicNum() for atom in point.mol.GetAtoms()]
    for text in (point.name, chem.MolToSmiles(point.mol, canonical=False)):
        read = chem.MolFromSmiles(text) if isinstance(text, str) else None
        if read is not None and [atom.GetAtomicNum() for atom in read.GetAtoms()] == atoms:
            return str(text)
    return ""


def explained(
    model: nn.Module, *, tasks: Sequence[str] | None = None, **options: Any
) -> ExplainedModel:
    """A Chemprop network ready to be explained.

    Args:
        model: An ``MPNN`` with messages along bonds or between atoms, or an
            :class:`~hpme.models.chemprop.Ensemble` of such. Where it takes descriptors, the graphs
            carry them, see :func:`~hpme.models.chemprop.molecules`.
        tasks: Names of its tasks; by default those of the file it was read from.
        **options: Further arguments of :class:`~hpme.models.explained.ExplainedModel`, such as
            ``target="the task to explain"``.

    Raises:
        ModelError: If it is another kind of network.
        MissingPackageError: If Chemprop is not installed.
    """
    kinds, heads = chemprop_module("models"), chemprop_module("nn.predictors")
    for member in model.members if isinstance(model, files.Ensemble) else [model]:
        if not isinstance(member, kinds.MPNN) or isinstance(member, kinds.MulticomponentMPNN):
            raise ModelError(
                f"{type(member).__name__} is no network for properties of one molecule; "
                "expected chemprop.models.MPNN"
            )
    head = files.first(model).predictor
    meaning = {"mode": "regression"}
    if isinstance(head, heads.MulticlassClassificationFFN):
        meaning = {"mode": "multiclass_classification", "return_type": "probs"}
    elif isinstance(head, heads.BinaryClassificationFFNBase):
        meaning = {"mode": "binary_classification", "return_type": "probs"}
    given = {
        "embedding_layer": files.embedding_layer(model),
        "tasks": files.task_names(model) if tasks is None else tasks,
        "descriptors": files.MOLECULE_DESCRIPTORS,
        "featurise": partial(molecules, model=model),
        **meaning,
        **options,
    }
    return ExplainedModel(model, call=files.call, **given)
