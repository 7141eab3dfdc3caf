"""Labels of atoms and bonds, and fragments of molecules as SMARTS."""

from __future__ import annotations

from collections import Counter
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
CHAIN = {"C": 2, "N": 1, "P": 1, "B": 1, "F": -1, "Cl": -1, "Br": -1, "I": -1, "H": -1}
"""Hydrogens up to which atoms may be in a ring; of other elements, none."""
_read = lru_cache(maxsize=4096)(read_molecule)


@dataclass(frozen=True)
class MoleculeLabels:
    """Labels of molecules laid end to end."""

    atom: Tensor  # twice the atomic number, plus one if it is aromatic
    fine: Tensor  # also how many hydrogens an atom has, its charge, and whether it is in a ring
    bond: Tensor  # RDKit's number of the type


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
    atoms, fine, bonds = list[int](), list[int](), list[int]()
    for text, size, ends in zip(smiles, sizes.tolist(), edges, strict=True):
        molecule = whole_molecule(text, size)
        if molecule is None:
            return None
        atoms += [2 * a.GetAtomicNum() + a.GetIsAromatic() for a in molecule.GetAtoms()]
        fine += [_fine(atom) for atom in molecule.GetAtoms()]
        for a, b in ends.t().tolist():
            bond = molecule.GetBondBetweenAtoms(a, b)
            if bond is None and a != b:
                return None
            bonds.append(0 if bond is None else int(bond.GetBondType()))
    found = (torch.tensor(labels, dtype=torch.long) for labels in (atoms, fine, bonds))
    return MoleculeLabels(*found)


def _fine(atom: Any) -> int:
    ring = atom.IsInRing() and not atom.GetIsAromatic()
    more = (ring, atom.GetFormalCharge() + 8, atom.GetTotalNumHs(includeNeighbors=True))
    code = 1  # larger than all labels
    for part, base in zip(more, (2, 16, 16), strict=True):
        code = code * base + min(int(part), base - 1)
    return code * 512 + 2 * int(atom.GetAtomicNum()) + int(atom.GetIsAromatic())


def _symbol(label: int) -> tuple[int, bool, str]:
    """Atomic number, whether it is aromatic, and SMARTS of an atom's label or fine label."""
    code, label = divmod(label, 512)
    number, aromatic = divmod(label, 2)
    symbol = rdkit_module("Chem").GetPeriodicTable().GetElementSymbol(number)
    written = symbol.lower() if aromatic else symbol
    if not code:
        return number, bool(aromatic), written if symbol in ORGANIC else f"[{written}]"
    code, hydrogens = divmod(code, 16)
    code, charge = divmod(code, 16)
    text = written + ("" if not hydrogens else "H" if hydrogens == 1 else f"H{hydrogens}")
    text += "" if charge == 8 else f"{charge - 8:+d}".removesuffix("1")
    text += "" if hydrogens or number == 1 else ";H0"
    chain = not aromatic and hydrogens <= CHAIN.get(symbol, 0)
    return number, bool(aromatic), f"[{text}{';R' if code % 2 else ';!R' if chain else ''}]"


def ring_systems(
    smiles: Sequence[str], sizes: Tensor, inside: Sequence[Tensor]
) -> list[tuple[int, list[int]]]:
    """Rings and up to three fused ones that touch a region: a molecule and atoms that show each."""
    chem = rdkit_module("Chem")
    example: dict[str, tuple[int, list[int]]] = {}
    count = Counter[str]()
    for number, (text, size, region) in enumerate(zip(smiles, sizes.tolist(), inside, strict=True)):
        molecule = whole_molecule(text, size)
        single = [frozenset(ring) for ring in molecule.GetRingInfo().AtomRings()]
        systems = set(single)
        for _ in range(2):
            systems |= {a | b for a in systems for b in single if len(a & b) >= 2}
        touched = [atoms for atoms in systems if bool(region[sorted(atoms)].any())]
        names = {chem.MolFragmentToSmiles(molecule, sorted(a)): sorted(a) for a in touched}
        count.update(names.keys())
        example |= {name: (number, atoms) for name, atoms in names.items() if name not in example}
    return [example[name] for name, _ in count.most_common()]


def smarts_of(pattern: Pattern) -> str:
    """A pattern of labels as in :class:`MoleculeLabels` as canonical SMILES, which is SMARTS."""
    chem = rdkit_module("Chem")
    molecule, symbols = chem.RWMol(), []
    for label in pattern.nodes:
        number, aromatic, symbol = _symbol(label)
        atom = chem.Atom(number)
        atom.SetIsAromatic(aromatic)
        atom.SetNoImplicit(True)
        molecule.AddAtom(atom)
        symbols.append(symbol)
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
