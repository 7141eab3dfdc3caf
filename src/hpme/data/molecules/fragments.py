"""Labels of atoms and bonds, and fragments of molecules as SMARTS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from hpme.data.molecules.chem import rdkit_module, read_molecule
from hpme.errors import HPMEError
from hpme.graphs.patterns import Pattern

ORGANIC = ("B", "C", "N", "O", "P", "S", "F", "Cl", "Br", "I")
"""Elements that need no brackets."""
_read = lru_cache(maxsize=4096)(read_molecule)


@dataclass(frozen=True)
class MoleculeLabels:
    """Labels of molecules laid end to end.

    An atom's label is twice its atomic number, plus one if it is aromatic; a bond's that of RDKit.
    """

    atom: Tensor
    bond: Tensor


def whole_molecule(smiles: str, num_atoms: int) -> Any:
    """The molecule with as many atoms as its graph has nodes; ``None`` if there is none."""
    try:
        for hydrogens in (False, True):
            molecule = _read(smiles, hydrogens=hydrogens)
            if molecule.GetNumAtoms() == num_atoms:
                return molecule
    except HPMEError:  # no RDKit, or a text that is no SMILES
        pass
    return None


def molecule_labels(
    smiles: Sequence[str], sizes: Tensor, edges: Sequence[Tensor]
) -> MoleculeLabels | None:
    """Labels of the atoms, and of the directed edges of molecules; ``None`` if some is none."""
    atoms: list[int] = []
    bonds: list[int] = []
    for text, size, ends in zip(smiles, sizes.tolist(), edges, strict=True):
        molecule = whole_molecule(text, size)
        if molecule is None:
            return None
        atoms += [2 * a.GetAtomicNum() + a.GetIsAromatic() for a in molecule.GetAtoms()]
        for a, b in ends.t().tolist():
            bond = molecule.GetBondBetweenAtoms(a, b)
            if bond is None and a != b:
                return None
            bonds.append(0 if bond is None else int(bond.GetBondType()))
    return MoleculeLabels(torch.tensor(atoms), torch.tensor(bonds, dtype=torch.long))


def smarts_of(pattern: Pattern) -> str:
    """A pattern of labels as in :class:`MoleculeLabels` as canonical SMILES, which is SMARTS."""
    chem = rdkit_module("Chem")
    molecule, symbols = chem.RWMol(), []
    for label in pattern.nodes:
        number, aromatic = divmod(label, 2)
        atom = chem.Atom(number)
        atom.SetIsAromatic(bool(aromatic))
        atom.SetNoImplicit(True)
        molecule.AddAtom(atom)
        symbol = chem.GetPeriodicTable().GetElementSymbol(number)
        written = symbol.lower() if aromatic else symbol
        symbols.append(written if symbol in ORGANIC else f"[{written}]")
    for i, j, label in pattern.edges:
        molecule.AddBond(i, j, chem.BondType.values[label])
    for bond in molecule.GetBonds():
        bond.SetIsAromatic(bond.GetBondType() == chem.BondType.AROMATIC)
    molecule.UpdatePropertyCache(strict=False)
    chem.FastFindRings(molecule)
    text: str = chem.MolFragmentToSmiles(
        molecule, list(range(len(pattern))), atomSymbols=symbols, canonical=True
    )
    return text
