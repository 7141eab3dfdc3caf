"""Transplants that chemistry allows: regions of molecules moved so that molecules result.

A region is cut at single bonds, and no ring is opened. An atom of the host takes the place of the
atom a region was bound to if it is of the same kind. Atoms of a ring that is not whole inside the
region are its frame: they are not moved, the host must have them, and a whole ring on a frame
closes on them. Molecules have no hydrogens among their atoms and are sanitised.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import torch

from hpme.data.molecules.anatomy import (
    Anatomy,
    Graft,
    Kind,
    Piece,
    Surrounding,
    forget_stereo,
    pick,
    without_atoms,
)
from hpme.data.molecules.chem import rdkit_module
from hpme.errors import InputError

Fillers = Mapping[int, Sequence[Graft]]
"""Regions that say little, by the number of atoms that are moved."""
MOST_MATCHES = 200
"""Places of a frame of several atoms in a host."""
CAPS = {(6, True): "C(C)=O", (16, True): "S(C)(=O)=O"}
"""What stands for an atom by element and whether it has a double bond to oxygen; else methyl, for
aromatic ones phenyl. Its first atom is bound."""
LONGEST_CHAIN = 4
"""Carbons that take the place of a region between several others."""


@dataclass(frozen=True)
class Transplant:
    """A sanitised molecule made of two; atoms that are of neither are new."""

    molecule: Any
    region: tuple[int, ...]  # numbers of its atoms in the molecule of the region, -1 of others
    host: tuple[int, ...]  # the same in the host


def insert(graft: Graft, host: Anatomy, generator: torch.Generator) -> Transplant | None:
    """A host with a region at a random place of the right kind; ``None`` if it has none.

    A region between two atoms goes between two that are bound to each other, where the host has
    such; else beside one atom that loses a hydrogen, or a substituent of about the same size.
    """
    assembly = Assembly(host)
    for piece in graft.pieces:
        places = _between(piece, assembly, generator) or _beside(piece, assembly, generator)
        if places is None:
            return None
        assembly.put(piece, places)
    return assembly.finished()


class Hosts:
    """Molecules that take regions, and which of them have atoms of a kind."""

    def __init__(self, anatomies: Iterable[Anatomy]) -> None:
        self.anatomies = list(anatomies)
        self.having: dict[Kind, set[int]] = defaultdict(set)
        for number, one in enumerate(self.anatomies):
            for kind in {*one.places, *one.stumps}:
                self.having[kind].add(number)

    def fitting(self, graft: Graft) -> list[int]:
        """Numbers of hosts that have atoms for a region; no others can take it."""
        fit = set(range(len(self.anatomies)))
        for piece in graft.pieces:
            takes = set[int]()
            for one in piece.surroundings:
                bound = [kind for kind, count in zip(one.kinds, one.joints, strict=True) if count]
                takes |= set.intersection(*(self.having.get(kind, set()) for kind in bound))
            fit &= takes
        return sorted(fit)


def insert_many(
    graft: Graft, hosts: Hosts, count: int, generator: torch.Generator
) -> tuple[list[tuple[int, Transplant]], int]:
    """A region in random hosts: numbers of hosts and what was made, and how many were tried."""
    made: list[tuple[int, Transplant]] = []
    fitting = hosts.fitting(graft)
    for tried, place in enumerate(torch.randperm(len(fitting), generator=generator).tolist()):
        if len(made) == count:
            return made, tried
        one = insert(graft, hosts.anatomies[fitting[place]], generator)
        if one is not None:
            made.append((fitting[place], one))
    return made, len(fitting)


def remove(
    graft: Graft,
    anatomy: Anatomy,
    generator: torch.Generator | None = None,
    *,
    fillers: Fillers | None = None,
) -> Transplant | None:
    """A molecule with hydrogens or fillers in place of a region; ``None`` if that cannot be."""
    assembly = Assembly(anatomy)
    for piece in graft.pieces:
        for part in anatomy.parts(piece.atoms):
            ends = [b for a, b in piece.joints if a in part]
            assembly.gone.update(part)
            if fillers is None:
                for end in ends:
                    assembly.hydrogens(end, 1)
                continue
            if any(len({*one.atoms} & {*ends}) > 1 for one in piece.surroundings):
                return None  # it would close another ring
            if len(ends) == 1:
                assembly.fill(ends[0], _near(fillers, len(part), generator))
            else:
                assembly.chain(ends, min(LONGEST_CHAIN, len(part)))
    return assembly.finished()


def fillers_of(hosts: Iterable[Anatomy]) -> dict[int, list[Graft]]:
    """Different substituents of hosts that are carbon alone, by the number of their atoms."""
    chem = rdkit_module("Chem")
    found: dict[int, dict[str, Graft]] = defaultdict(dict)
    for host in hosts:
        for graft in host.fillers:
            found[len(graft.atoms)].setdefault(chem.MolToSmiles(graft.pieces[0].fragment), graft)
    return {size: list(found[size].values()) for size in sorted(found)}


def _near(fillers: Fillers, size: int, generator: torch.Generator | None) -> Graft:
    sizes = [other for other, some in fillers.items() if some]
    if not sizes:
        raise InputError("no fillers; take hosts with alkyl or phenyl groups, or fillers=None")
    nearest = max(1, min(abs(other - size) for other in sizes))
    near = [other for other in sizes if abs(other - size) <= nearest]
    return pick([filler for other in near for filler in fillers[other]], generator)


def _between(piece: Piece, assembly: Assembly, generator: torch.Generator) -> dict[int, int] | None:
    """Ends of a bond of the host for a region that was bound to two atoms; the bond is cut."""
    if [one.joints for one in piece.surroundings] != [(1,), (1,)]:
        return None
    first, second = piece.surroundings
    known = assembly.anatomy.links.get((first.kinds[0], second.kinds[0]), ())
    options = [link for link in known if assembly.free(link)]
    if not options:
        return None
    x, y = pick(options, generator)
    assembly.edited.RemoveBond(x, y)
    return {first.atoms[0]: x, second.atoms[0]: y}


def _beside(piece: Piece, assembly: Assembly, generator: torch.Generator) -> dict[int, int] | None:
    """Atoms of the host for one of the surroundings; what they lose is gone."""
    order = torch.randperm(len(piece.surroundings), generator=generator).tolist()
    first = [one for one in piece.surroundings if one.closing]
    if len(first) > 1:
        return None  # a ring between them would open
    first = first or [one for one in piece.surroundings if len(one.atoms) > 1]
    for one in first or [piece.surroundings[number] for number in order]:
        options = _with_hydrogens(one, assembly)
        if options:
            chosen = pick(options, generator)
            for number, count in zip(chosen, one.joints, strict=True):
                assembly.hydrogens(number, -count)
            return dict(zip(one.atoms, chosen, strict=True))
        if one.joints == (1,):
            size, known = len(piece.atoms), assembly.anatomy.stumps.get(one.kinds[0], ())
            like = [s for s in known if abs(len(s[1]) - size) <= max(1, size // 2)]
            stumps = [(site, side) for site, side in like if assembly.free({site, *side})]
            if stumps:
                site, side = pick(stumps, generator)
                assembly.gone |= side
                return {one.atoms[0]: site}
    return None


def _with_hydrogens(one: Surrounding, assembly: Assembly) -> list[tuple[int, ...]]:
    """All atoms of the host that match, each with as many hydrogens as there are bonds to come."""
    host = assembly.anatomy
    if one.pattern is None:
        sites = [(a,) for a in host.places.get(one.kinds[0], ())]
        if one.joints == (1,):
            return [site for site in sites if assembly.free(site)]
        found = sites
    else:
        found = host.molecule.GetSubstructMatches(
            one.pattern, uniquify=False, maxMatches=MOST_MATCHES
        )
    return [
        match
        for match in found
        if assembly.free(match)
        and one.ringed == tuple(bool(host.rings_of[a]) for a in match)
        and all(
            host.kinds[a] == kind and host.hydrogens[a] >= count
            if count
            else host.kinds[a][:3] == kind[:3]  # what else is bound to it does not matter
            for a, kind, count in zip(match, one.kinds, one.joints, strict=True)
        )
    ]


class Assembly:
    """A molecule under way; where its atoms come from is known by their order."""

    def __init__(self, anatomy: Anatomy) -> None:
        self.anatomy = anatomy
        self.region = [-1] * anatomy.size
        self.host = list(range(anatomy.size))
        self.gone: set[int] = set()
        self.used: set[int] = set()
        self.closes = False
        """Whether a ring closes on one that is there, which may become aromatic by that."""

    @cached_property
    def edited(self) -> Any:
        """A copy of the molecule; most hosts that do not fit are known before it is needed."""
        return rdkit_module("Chem").RWMol(self.anatomy.molecule)

    def free(self, atoms: Collection[int]) -> bool:
        """Whether atoms are there and as they were."""
        return self.used.isdisjoint(atoms) and self.gone.isdisjoint(atoms)

    def add(self, fragment: Any, numbers: Sequence[int]) -> int:
        """Adds atoms, and returns the number of the first."""
        first: int = self.edited.GetNumAtoms()
        self.edited.InsertMol(fragment)
        self.region += numbers
        self.host += [-1] * len(numbers)
        return first

    def bind(self, old: int, new: int) -> None:
        """A single bond."""
        self.used.add(old)
        forget_stereo(self.edited, old)
        self.edited.AddBond(old, new, rdkit_module("Chem").BondType.SINGLE)

    def hydrogens(self, number: int, change: int) -> None:
        """Hydrogens that come or go at an atom; most atoms count their own."""
        atom = self.edited.GetAtomWithIdx(number)
        alone = atom.GetNoImplicit() or (atom.GetIsAromatic() and atom.GetAtomicNum() != 6)
        if alone or change < 0:
            atom.SetNumExplicitHs(max(0, atom.GetNumExplicitHs() + change))
        forget_stereo(self.edited, number)

    def put(self, piece: Piece, places: Mapping[int, int]) -> None:
        """A piece whose outer atoms are matched by atoms of the host, or stood for by groups."""
        first = self.add(piece.fragment, piece.atoms)
        kinds = {
            a: k for one in piece.surroundings for a, k in zip(one.atoms, one.kinds, strict=True)
        }
        ends = dict(places)
        self.closes |= any(one.closing for one in piece.surroundings)
        for inner, outer in piece.joints:
            here = first + piece.atoms.index(inner)
            if outer not in ends:
                number, _, aromatic, orders, _ = kinds[outer]
                double = (2.0, 8) in orders
                cap = _read("c1ccccc1" if aromatic else CAPS.get((number, double), "C"))
                ends[outer] = self.add(cap, [-1] * cap.GetNumAtoms())
            self.bind(ends[outer], here)

    def fill(self, end: int, filler: Graft) -> None:
        """A substituent at an atom."""
        piece = filler.pieces[0]
        first = self.add(piece.fragment, [-1] * len(piece.atoms))
        self.bind(end, first + piece.atoms.index(piece.joints[0][0]))

    def chain(self, ends: Sequence[int], length: int) -> None:
        """A chain of carbons between atoms."""
        length = max(length, (len(ends) - 1) // 2)
        chain = rdkit_module("Chem").MolFromSmiles("C" * length)
        first = self.add(chain, [-1] * length)
        for place, end in enumerate(ends):
            self.bind(end, first + round(place * (length - 1) / max(1, len(ends) - 1)))

    def finished(self) -> Transplant | None:
        """Takes out what is gone and sanitises; all atoms stay aromatic or not."""
        chem, edited = rdkit_module("Chem"), without_atoms(self.edited, self.gone)
        aromatic = [atom.GetIsAromatic() for atom in edited.GetAtoms()]
        with rdkit_module("rdBase").BlockLogs():
            try:
                chem.SanitizeMol(edited)
            except (chem.MolSanitizeException, RuntimeError, ValueError):
                return None
        if self.closes and aromatic != [atom.GetIsAromatic() for atom in edited.GetAtoms()]:
            return None
        chem.AssignStereochemistry(edited, cleanIt=True, force=True)
        kept = [number for number in range(len(self.host)) if number not in self.gone]
        region, host = (tuple(some[number] for number in kept) for some in (self.region, self.host))
        return Transplant(edited.GetMol(), region, host)


@cache
def _read(smiles: str) -> Any:
    return rdkit_module("Chem").MolFromSmiles(smiles)
