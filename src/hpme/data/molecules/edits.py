"""Regions of molecules cut out of one and put into another, and edits made smaller again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from hpme.data.molecules.chem import rdkit_module

LARGEST_REGION, MOST_BONDS = 8, 3
"""Heavy atoms of a region, and bonds between it and the rest."""
RADIUS, BITS = 2, 2048
ORIGIN = "origin"
"""Property of atoms: their number before any edit."""


@dataclass(frozen=True)
class Region:
    """Some atoms of a molecule and the bonds that join them to the rest.

    Args:
        atoms: Numbers of the atoms; none for a hydrogen, which is no node.
        bonds: ``(inner atom, outer atom, type)`` of every bond to the rest, by type; for a hydrogen
            the inner atom is -1.
    """

    atoms: tuple[int, ...]
    bonds: tuple[tuple[int, int, int], ...]

    @property
    def joints(self) -> tuple[int, ...]:
        """Types of the bonds to the rest; only regions that agree in them can change places."""
        return tuple(kind for *_, kind in self.bonds)


@dataclass(frozen=True)
class Fragment:
    """A region without its molecule.

    Args:
        atoms: ``(atomic number, charge, aromatic, explicit hydrogens, no implicit ones)``.
        bonds: ``(atom, atom, type)``.
        joints: ``(atom, type)`` of every bond to the rest, by type.
        name: Canonical SMILES with ``*`` for the rest.
    """

    atoms: tuple[tuple[int, int, bool, int, bool], ...]
    bonds: tuple[tuple[int, int, int], ...]
    joints: tuple[tuple[int, int], ...]
    name: str


@dataclass(frozen=True)
class Edit:
    """A molecule in which fragments have taken the place of regions.

    Args:
        smiles: The sanitised molecule.
        origin: For each of its atoms the number in the molecule that was first edited, -1 for
            inserted ones.
    """

    smiles: str
    origin: tuple[int, ...]

    @property
    def new(self) -> tuple[int, ...]:
        """Numbers of the inserted atoms."""
        return tuple(i for i, number in enumerate(self.origin) if number < 0)

    @property
    def molecule(self) -> Any:
        """The molecule; what is put into it is an edit of the molecule that was first edited."""
        molecule = rdkit_module("Chem").MolFromSmiles(self.smiles)
        for atom, number in zip(molecule.GetAtoms(), self.origin, strict=True):
            atom.SetIntProp(ORIGIN, number)
        return molecule

    @property
    def marked(self) -> str:
        """SMILES with ``:1`` at inserted atoms."""
        chem = rdkit_module("Chem")
        molecule = chem.MolFromSmiles(self.smiles)
        for number in self.new:
            molecule.GetAtomWithIdx(number).SetAtomMapNum(1)
        return str(chem.MolToSmiles(molecule))


def regions_of(molecule: Any) -> list[Region]:
    """Hydrogens, single atoms, bonded pairs, and all that hangs on a bond outside rings."""
    chem = rdkit_module("Chem")
    single, total = int(chem.BondType.SINGLE), molecule.GetNumAtoms()
    found: dict[tuple[int, ...], Region] = {}
    for atoms in _sets(molecule):
        if len(atoms) <= LARGEST_REGION and atoms not in found and len(atoms) < total:
            region = _region(molecule, atoms)
            if 1 <= len(region.bonds) <= MOST_BONDS:
                found[atoms] = region
    sites = [atom.GetIdx() for atom in molecule.GetAtoms() if atom.GetTotalNumHs() > 0]
    return [Region((), ((-1, site, single),)) for site in sites] + list(found.values())


def _sets(molecule: Any) -> Iterator[tuple[int, ...]]:
    """Sets of atoms that can be cut out."""
    for atom in molecule.GetAtoms():
        yield (atom.GetIdx(),)
    chem = rdkit_module("Chem")
    for bond in molecule.GetBonds():
        ends = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        yield tuple(sorted(ends))
        if not bond.IsInRing() and bond.GetBondType() == chem.BondType.SINGLE:
            for start, stop in (ends, ends[::-1]):
                yield tuple(sorted(_side(molecule, start, stop)))


def _side(molecule: Any, start: int, stop: int) -> set[int]:
    """Atoms that are reached from one end of a bond without crossing it, if they are few."""
    inside, open_ = {start}, [start]
    while open_ and len(inside) <= LARGEST_REGION:
        for atom in molecule.GetAtomWithIdx(open_.pop()).GetNeighbors():
            number = atom.GetIdx()
            if number not in inside and number != stop:
                inside.add(number)
                open_.append(number)
    return inside


def _region(molecule: Any, atoms: tuple[int, ...]) -> Region:
    inside, bonds = set(atoms), []
    for number in atoms:
        for bond in molecule.GetAtomWithIdx(number).GetBonds():
            other = bond.GetOtherAtomIdx(number)
            if other not in inside:
                bonds.append((number, other, int(bond.GetBondType())))
    return Region(atoms, tuple(sorted(bonds, key=lambda bond: bond[2])))


def fragment_of(molecule: Any, region: Region) -> Fragment:
    """What a region of a molecule is made of; a hydrogen becomes nothing at all."""
    chem = rdkit_module("Chem")
    place = {number: i for i, number in enumerate(region.atoms)}
    atoms = [molecule.GetAtomWithIdx(number) for number in region.atoms]
    bonds = [
        (place[bond.GetBeginAtomIdx()], place[bond.GetEndAtomIdx()], int(bond.GetBondType()))
        for bond in molecule.GetBonds()
        if bond.GetBeginAtomIdx() in place and bond.GetEndAtomIdx() in place
    ]
    outer = sorted({bond[1] for bond in region.bonds})
    symbols = [atom.GetSymbol() for atom in molecule.GetAtoms()]
    for number in place:
        atom = molecule.GetAtomWithIdx(number)
        symbols[number] = atom.GetSmarts()
    for number in outer:
        symbols[number] = "*"
    name = "[H]*"
    if region.atoms:
        inner = [
            molecule.GetBondBetweenAtoms(a, b).GetIdx() for a, b, _ in region.bonds if a >= 0
        ] + [
            bond.GetIdx()
            for bond in molecule.GetBonds()
            if bond.GetBeginAtomIdx() in place and bond.GetEndAtomIdx() in place
        ]
        name = chem.MolFragmentToSmiles(
            molecule, [*region.atoms, *outer], bondsToUse=inner, atomSymbols=symbols
        )
    return Fragment(
        tuple(
            (
                atom.GetAtomicNum(),
                atom.GetFormalCharge(),
                atom.GetIsAromatic(),
                atom.GetNumExplicitHs(),
                atom.GetNoImplicit(),
            )
            for atom in atoms
        ),
        tuple(bonds),
        tuple((place.get(a, -1), kind) for a, _, kind in region.bonds),
        name,
    )


def transplanted(
    molecule: Any, region: Region, fragment: Fragment, *, turned: bool = False
) -> Edit | None:
    """A molecule with a fragment in place of a region; ``None`` if it would be none.

    Args:
        molecule: The molecule; it stays as it is.
        region: What goes.
        fragment: What comes, with the same :attr:`Region.joints`.
        turned: Whether bonds to the rest meet in reverse order.
    """
    chem = rdkit_module("Chem")
    edited = chem.RWMol(molecule)
    for atom in edited.GetAtoms():
        if not atom.HasProp(ORIGIN):
            atom.SetIntProp(ORIGIN, atom.GetIdx())
    new = []
    for number, charge, aromatic, hydrogens, alone in fragment.atoms:
        atom = chem.Atom(number)
        atom.SetFormalCharge(charge)
        atom.SetIsAromatic(aromatic)
        atom.SetNumExplicitHs(hydrogens)
        atom.SetNoImplicit(alone)
        atom.SetIntProp(ORIGIN, -1)
        new.append(edited.AddAtom(atom))
    kinds = chem.BondType.values
    joints = fragment.joints[::-1] if turned else fragment.joints
    links = [(new[a], new[b], kind) for a, b, kind in fragment.bonds]
    for (inner, outer, kind), (ours, _) in zip(region.bonds, joints, strict=True):
        if inner < 0:
            site = edited.GetAtomWithIdx(outer)
            site.SetNumExplicitHs(max(0, site.GetNumExplicitHs() - 1))
        if ours >= 0:
            links.append((outer, new[ours], kind))
        elif edited.GetAtomWithIdx(outer).GetNoImplicit():
            site = edited.GetAtomWithIdx(outer)
            site.SetNumExplicitHs(site.GetNumExplicitHs() + 1)
    if len({frozenset(link[:2]) for link in links}) < len(links):
        return None  # an atom of a small ring would be bound twice to the same atom
    for a, b, kind in links:
        edited.AddBond(a, b, kinds[kind])
        edited.GetBondBetweenAtoms(a, b).SetIsAromatic(kinds[kind] == chem.BondType.AROMATIC)
    return finished(edited, region.atoms, molecule)


def finished(edited: Any, gone: Iterable[int], before: Any) -> Edit | None:
    """Takes atoms out and sanitises what is left; ``None`` if that is no molecule.

    Args:
        edited: The molecule with all that came; its atoms know their origin.
        gone: Atoms to take out.
        before: What it was made of; the result is in as many pieces and has no more radicals.
    """
    chem, base = rdkit_module("Chem"), rdkit_module("rdBase")
    edited.BeginBatchEdit()
    for number in gone:
        edited.RemoveAtom(number)
    edited.CommitBatchEdit()
    if not edited.GetNumAtoms() or len(chem.GetMolFrags(edited)) != len(chem.GetMolFrags(before)):
        return None
    with base.BlockLogs():
        try:
            chem.SanitizeMol(edited)
            chem.AssignStereochemistry(edited, cleanIt=True, force=True)
        except (chem.MolSanitizeException, RuntimeError, ValueError):
            return None
        smiles = chem.MolToSmiles(edited)
        again = chem.MolFromSmiles(smiles)
    if again is None or again.GetNumAtoms() != edited.GetNumAtoms():
        return None
    if _radicals(again) > _radicals(before):
        return None
    order = list(edited.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"])
    return Edit(smiles, tuple(edited.GetAtomWithIdx(i).GetIntProp(ORIGIN) for i in order))


def _radicals(molecule: Any) -> int:
    return sum(atom.GetNumRadicalElectrons() for atom in molecule.GetAtoms())


def smaller_edits(edit: Edit, original: Any) -> Iterator[Edit]:
    """All molecules with less change, those with the least first.

    Inserted atoms are taken out again, removed ones put back. A whole inserted ring goes at once,
    and aromatic ones only so: to open one changes more than an atom. The neighbours of an inserted
    atom between two others are joined. A removed atom comes back to those of its neighbours that
    are still there.

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


def fingerprint(molecule: Any) -> Any:
    """Morgan fingerprint of radius 2, 2,048 bits."""
    made = rdkit_module("Chem.rdFingerprintGenerator").GetMorganGenerator(RADIUS, fpSize=BITS)
    return made.GetFingerprint(molecule)


def similarity(first: Any, second: Any) -> float:
    """Tanimoto similarity of two fingerprints."""
    return float(rdkit_module("DataStructs").TanimotoSimilarity(first, second))
