"""SMILES to graphs at nearly the speed at which RDKit reads them, for any number of molecules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from hpme.data.molecules.chem import (
    ARROWS,
    ATOMS,
    BONDS,
    ORDER_CODE,
    atom_codes,
    bond_codes,
    parse,
    rdkit_module,
)
from hpme.errors import InputError
from hpme.graphs import GraphStore

LARGEST_TABLE = 400
"""Atoms up to which a table of all pairs of them is faster than asking bond by bond."""
_CARBON = 6
_CODE_OF_ORDER = np.full(256, len(BONDS) - 1, dtype=np.int64)
for _order, _code in ORDER_CODE.items():
    _CODE_OF_ORDER[int(2 * _order)] = _code


@dataclass(frozen=True)
class ReadMolecules:
    """Molecules that could be read, and those that could not.

    Features are those of :func:`~hpme.data.from_smiles`; edges are sorted by their atoms.
    """

    store: GraphStore
    numbers: list[int]  # positions of these molecules in the input
    failed: dict[int, str]  # positions of those that cannot be read, and why


def stream_molecules(smiles: Sequence[str], *, hydrogens: bool = False) -> ReadMolecules:
    """Reads a part of a long list of molecules."""
    chem = rdkit_module("Chem")
    other = chem.MolFromSmarts("[!#6]")
    failed: dict[int, str] = {}
    numbers: list[int] = []
    sizes: list[int] = []
    unusual: list[tuple[int, int]] = []  # atoms other than carbon, numbered over all molecules
    tables: list[npt.NDArray[Any]] = []
    total = 0
    with rdkit_module("rdBase").BlockLogs():  # failures are listed
        for number, text in enumerate(smiles):
            try:
                molecule = parse(chem, text, hydrogens)
            except InputError as error:
                failed[number] = str(error)
                continue
            size = molecule.GetNumAtoms()
            numbers.append(number)
            sizes.append(size)
            atom = molecule.GetAtomWithIdx
            for (place,) in molecule.GetSubstructMatches(other, maxMatches=size):
                unusual.append((total + place, atom(place).GetAtomicNum()))
            tables.append(_bond_table(chem, molecule, text))
            total += size
    edges, types, edge_counts = _edges(tables)
    atoms = np.full(total, _CARBON)
    if unusual:
        where, what = np.array(unusual).T
        atoms[where] = what
    return ReadMolecules(
        GraphStore(
            sizes=torch.tensor(sizes, dtype=torch.long),
            edge_counts=torch.from_numpy(edge_counts),
            local_edge_index=torch.from_numpy(edges),
            node={"x": torch.eye(len(ATOMS))[torch.from_numpy(atom_codes(chem)[atoms])]},
            edge={"edge_attr": torch.eye(len(BONDS))[torch.from_numpy(types)]},
        ),
        numbers,
        failed,
    )


def _bond_table(chem: Any, molecule: Any, smiles: str) -> npt.NDArray[Any]:
    """Order of the bond between any two atoms, 0 if there is none; or rows of atoms and codes.

    A table of all pairs cannot hold bonds of order 0, and does not tell dative bonds from single
    ones: then, and for large molecules, rows ``(begin, end, type code)`` are returned, integers.
    """
    size = molecule.GetNumAtoms()
    if size <= LARGEST_TABLE and not any(arrow in smiles for arrow in ARROWS):
        table: npt.NDArray[Any] = chem.GetAdjacencyMatrix(molecule, useBO=True)
        if np.count_nonzero(table) == 2 * molecule.GetNumBonds():
            return table
    ends, types = bond_codes(molecule, smiles)
    one_way = np.array([(*pair, code) for pair, code in zip(ends, types, strict=True)], np.int64)
    one_way = one_way.reshape(-1, 3)
    rows = np.concatenate([one_way, one_way[:, [1, 0, 2]]])
    return rows[np.lexsort((rows[:, 1], rows[:, 0]))]


def _edges(
    tables: Sequence[npt.NDArray[Any]],
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Edges ``[2, E]``, their type codes, and their number in every molecule."""
    listed = [number for number, table in enumerate(tables) if table.dtype == np.int64]
    square = [table for table in tables if table.dtype != np.int64]
    width = np.array([len(table) for table in square], dtype=np.int64)
    flat = np.concatenate([table.ravel() for table in square]) if square else np.zeros(0)
    found = np.flatnonzero(flat)
    end = (width**2).cumsum()
    owner = np.searchsorted(end, found, side="right")
    place = found - (end - width**2)[owner]
    source, target = np.divmod(place, width[owner])
    edges, types = np.stack([source, target]), _CODE_OF_ORDER[(2 * flat[found]).astype(np.int64)]
    counts = np.bincount(owner, minlength=len(square))
    if not listed:
        return edges, types, counts
    # The few molecules that came as rows go back to their places.
    parts = np.split(np.concatenate([edges, types[None]]), counts.cumsum()[:-1], axis=1)
    ours = iter(parts if square else [])
    apart = set(listed)
    rows = [table.T if number in apart else next(ours) for number, table in enumerate(tables)]
    joined = np.concatenate(rows, axis=1)
    return joined[:2], joined[2], np.array([row.shape[1] for row in rows], dtype=np.int64)
