"""What ``hpme explain --chemprop`` reads: a Chemprop model, and molecules with its features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from torch_geometric.data import Data

from hpme.errors import InputError
from hpme.models.chemprop import explained, molecules, read_model
from hpme.models.chemprop.files import chemprop_module
from hpme.models.explained import ExplainedModel

KEPT = ("y", "name", "node_mask")
"""What graphs of a table have besides features."""


def read_chemprop(
    path: Path,
    graphs: Sequence[Data],
    extra: Mapping[str, Path | None],
    *,
    hydrogens: bool,
    trust: bool,
) -> tuple[ExplainedModel, list[Data]]:
    """A Chemprop model, and the molecules of a table as it sees them.

    Args:
        path: The model file.
        graphs: Molecules of a table, with ``smiles``.
        extra: Files (``.npz``) of additional features and descriptors by Chemprop's names ``V_f``,
            ``E_f``, ``V_d`` (an array per molecule) and ``x_d`` (a row per molecule).
        hydrogens: Whether hydrogens are atoms of the graphs.
        trust: See :func:`~hpme.models.chemprop.read_model`.
    """
    model, tasks = read_model(path, trust=trust)
    point = chemprop_module("data").MoleculeDatapoint
    points = [point.from_smi(graph.smiles, add_h=hydrogens) for graph in graphs]
    for name, file in extra.items():
        if file is not None:
            for molecule, values in zip(points, _arrays(file, len(points), name), strict=True):
                setattr(molecule, name, values)
    made = molecules(points, model)
    for ours, theirs in zip(graphs, made, strict=True):
        theirs.update({name: ours[name] for name in KEPT if ours.get(name) is not None})
        if ours.get("edge_mask") is not None:
            theirs.edge_mask = _in_order(ours.edge_index, ours.edge_mask, theirs.edge_index)
    return explained(model, tasks=tasks), made


def _arrays(path: Path, count: int, name: str) -> list[Any]:
    """An array for every molecule, as Chemprop reads them: ``arr_0``, ``arr_1`` and so on."""
    try:
        with np.load(path, allow_pickle=False) as file:
            names = ["arr_0"] if name == "x_d" else [f"arr_{i}" for i in range(len(file.files))]
            arrays = [file[key].astype(np.float32) for key in names]
    except KeyError as error:
        raise InputError(
            f"'{path}' has no {error.args[0].split()[0]}; write it with numpy.savez(path, *arrays)"
        ) from error
    except (OSError, ValueError, EOFError, AttributeError, TypeError, BadZipFile) as error:
        raise InputError(f"'{path}' is no .npz file of numbers: {error}") from error
    found = list(np.atleast_1d(arrays[0])) if name == "x_d" else arrays
    if len(found) != count:
        what = "rows" if name == "x_d" else "arrays"
        raise InputError(
            f"'{path}' has {len(found)} {what} for {count} molecules; it needs one for each row of "
            "the table that is not left out"
        )
    return found


def _in_order(edges: torch.Tensor, values: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Values of edges for the same edges in another order."""
    total = int(wanted.max()) + 1 if wanted.numel() else 1
    ours, theirs = ((index[0] * total + index[1]).argsort() for index in (edges, wanted))
    result = torch.empty_like(values)
    result[theirs] = values[ours]
    return result
