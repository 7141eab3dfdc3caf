"""An edited molecule with less change: inserted atoms taken out again, removed ones put back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hpme.data.molecules.chem import rdkit_module
from hpme.data.molecules.edits import ORIGIN, Edit, finished


def spared(edit: Edit, original: Any) -> Iterator[Edit]:
    """All molecules with less change, those that spare most first.

    A whole inserted ring is spared at once, and aromatic ones only so: to open one changes more
    than an atom. The neighbours of an inserted atom between two others are joined. A removed atom
    comes back to those of its neighbours that are still there.

    Args:
        edit: An edit of a molecule.
        original: The molecule that was first edited.
    """
    chem = rdkit_module("Chem")
    molecule = edit.molecule
    rings = sorted(molecule.GetRingInfo().AtomRings(), key=len, reverse=True)
    trials = [_without(molecule, ring) for ring in rings if {*ring} <= {*edit.new}]
    for number in edit.new:
        around = [atom.GetIdx() for atom in molecule.GetAtomWithIdx(number).GetNeighbors()]
        if len(around) == 2 and molecule.GetBondBetweenAtoms(*around) is None:
            trials.append(_without(molecule, (number,), joined=(around[0], around[1])))
        trials.append(_without(molecule, (number,)))
    # Bonds of aromatic rings that are no more are single or double.
    whole = chem.Mol(original)
    for one in (molecule, whole):
        chem.Kekulize(one, clearAromaticFlags=True)
    here = {number: i for i, number in enumerate(edit.origin) if number >= 0}
    gone = [number for number in range(whole.GetNumAtoms()) if number not in here]
    trials += [_with(molecule, whole, number, here) for number in gone]
    yield from {trial.smiles: trial for trial in trials if trial is not None}.values()


def _without(
    molecule: Any, gone: tuple[int, ...], joined: tuple[int, int] | None = None
) -> Edit | None:
    chem = rdkit_module("Chem")
    edited = chem.RWMol(molecule)
    for number in gone:
        for bond in molecule.GetAtomWithIdx(number).GetBonds():
            _room(edited, bond.GetOtherAtomIdx(number), round(bond.GetBondTypeAsDouble()))
    if joined is not None:
        edited.AddBond(*joined, chem.BondType.SINGLE)
        for number in joined:
            _room(edited, number, -1)
    return finished(edited, gone, molecule)


def _with(molecule: Any, whole: Any, number: int, here: dict[int, int]) -> Edit | None:
    """The edited molecule with an atom of the whole one back; ``here`` says what else is."""
    chem = rdkit_module("Chem")
    atom = whole.GetAtomWithIdx(number)
    bonds = [bond for bond in atom.GetBonds() if bond.GetOtherAtomIdx(number) in here]
    if not bonds:
        return None
    edited = chem.RWMol(molecule)
    back = chem.Atom(atom.GetAtomicNum())
    back.SetFormalCharge(atom.GetFormalCharge())
    back.SetIntProp(ORIGIN, number)
    place = edited.AddAtom(back)
    for bond in bonds:
        other = here[bond.GetOtherAtomIdx(number)]
        edited.AddBond(place, other, bond.GetBondType())
        _room(edited, other, -round(bond.GetBondTypeAsDouble()))
    return finished(edited, (), molecule)


def _room(molecule: Any, number: int, bonds: int) -> None:
    """Hydrogens take the place of bonds, or make place, at an atom that does not see to it."""
    atom = molecule.GetAtomWithIdx(number)
    if atom.GetNoImplicit():
        atom.SetNumExplicitHs(max(0, atom.GetNumExplicitHs() + bonds))
