"""Where molecules can be cut, and which of their atoms can be moved to another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import torch

from hpme.data.molecules.chem import rdkit_module
from hpme.errors import InputError

Kind = tuple[Any, ...]
"""Element, charge, whether aromatic, double and triple bonds and to what, and whether it is next to
another element (carbon) or to an unsaturated atom (others)."""
Link = tuple[int, int]
Near = Sequence[Sequence[int]] | Mapping[int, Sequence[int]]
"""Neighbours of every atom."""
T = TypeVar("T")
DRAWS = 24
"""Random regions of which the one most like its model is taken."""


@dataclass(frozen=True)
class Surrounding:
    """Connected atoms that a region needs in its host, by their numbers in its own molecule."""

    atoms: tuple[int, ...]
    kinds: tuple[Kind, ...]  # without the region
    ringed: tuple[bool, ...]  # whether they are in a ring
    joints: tuple[int, ...]  # numbers of bonds to the region
    pattern: Any = field(compare=False)  # all as a molecule, unless there is one only

    @property
    def closing(self) -> bool:
        """Whether a region that meets it closes a ring."""
        return sum(map(bool, self.joints)) > 1


@dataclass(frozen=True)
class Piece:
    """A part of a region that is moved as a whole."""

    atoms: tuple[int, ...]
    joints: tuple[Link, ...]  # own atom and the one it is bound to
    surroundings: tuple[Surrounding, ...]
    fragment: Any = field(compare=False)  # the atoms, in their order, as a molecule


@dataclass(frozen=True)
class Graft:
    """A region that can be moved."""

    atoms: tuple[int, ...]  # that are moved
    frame: tuple[int, ...]  # atoms that are not moved, but matched by atoms of the host
    sizes: tuple[int, ...]  # of connected parts, of atoms of either kind
    pieces: tuple[Piece, ...]


class Anatomy:
    """A molecule with what grafts ask about it, found once."""

    def __init__(self, molecule: Any) -> None:
        chem = rdkit_module("Chem")
        self.molecule, self.size = molecule, molecule.GetNumAtoms()
        rings = [frozenset(ring) for ring in molecule.GetRingInfo().AtomRings()]
        self.rings_of = [[ring for ring in rings if a in ring] for a in range(self.size)]
        charges = [atom.GetFormalCharge() for atom in molecule.GetAtoms()]
        self.bonded: list[list[int]] = [[] for _ in range(self.size)]
        self.stiff: list[list[int]] = [[] for _ in range(self.size)]
        """Neighbours that cannot be cut off: nitro groups and N-oxides are one, like C=O."""
        self.outside: list[list[int]] = [[] for _ in range(self.size)]
        """Those of them by bonds outside rings."""
        self.cuttable: list[Link] = []
        """Single bonds outside rings, in both directions."""
        for bond in molecule.GetBonds():
            a, b = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            stiff = bond.GetBondType() != chem.BondType.SINGLE or charges[a] * charges[b] < 0
            for x, y in ((a, b), (b, a)):
                self.bonded[x].append(y)
                if stiff:
                    self.stiff[x].append(y)
                if stiff and not bond.IsInRing():
                    self.outside[x].append(y)
                elif not bond.IsInRing():
                    self.cuttable.append((x, y))

    def kind(self, number: int, without: Collection[int] = ()) -> Kind:
        """What an atom is like without some of its neighbours."""
        atom, unlike, orders = self.molecule.GetAtomWithIdx(number), False, []
        element = atom.GetAtomicNum()
        for bond in atom.GetBonds():
            other = bond.GetOtherAtom(atom)
            if other.GetIdx() in without:
                continue
            order = bond.GetBondTypeAsDouble()
            if order > 1.5:
                orders.append((order, other.GetAtomicNum()))
            elif element == 6:
                unlike |= other.GetAtomicNum() != 6
            else:
                unlike |= bool(self.stiff[other.GetIdx()])
        return element, atom.GetFormalCharge(), atom.GetIsAromatic(), tuple(sorted(orders)), unlike

    def closed(self, atoms: Iterable[int]) -> set[int]:
        """Atoms with all that multiple bonds outside rings bind to them."""
        return _reached(atoms, self.outside)

    def frame(self, inside: set[int]) -> set[int]:
        """Those that stay: in rings that are not whole inside, and what cannot be cut off them."""
        cut = {a for a in inside if any(not ring <= inside for ring in self.rings_of[a])}
        return _reached(cut, self.stiff, inside)

    def parts(self, atoms: Collection[int]) -> list[list[int]]:
        """Connected parts of some atoms, each sorted, by their lowest."""
        return _components(sorted(atoms), self.bonded)

    def cut_out(self, atoms: Sequence[int]) -> Any:
        """Some atoms and the bonds between them as a molecule that is not sanitised."""
        edited, kept = rdkit_module("Chem").RWMol(self.molecule), set(atoms)
        for number in kept:
            if not kept.issuperset(self.bonded[number]):
                forget_stereo(edited, number)
        return without_atoms(edited, set(range(self.size)) - kept).GetMol()

    @cached_property
    def hydrogens(self) -> list[int]:
        """Hydrogens of every atom of the largest part, 0 for those of counter-ions."""
        main = max(self.parts(range(self.size)), key=len)
        return [a.GetTotalNumHs() * (a.GetIdx() in main) for a in self.molecule.GetAtoms()]

    @cached_property
    def sides(self) -> dict[Link, frozenset[int]]:
        """Substituents: what hangs on one end of a bond, if that is at most half of all."""
        found = {}
        for x, y in self.cuttable:
            side = _reached([y], self.bonded, set(range(self.size)) - {x})
            if 2 * len(side) <= self.size:
                found[x, y] = frozenset(side)
        return found

    @cached_property
    def kinds(self) -> list[Kind]:
        """The kind of every atom."""
        return [self.kind(number) for number in range(self.size)]

    @cached_property
    def places(self) -> dict[Kind, list[int]]:
        """Atoms by kind at which a hydrogen can be replaced."""
        found = defaultdict(list)
        for number, count in enumerate(self.hydrogens):
            if count:
                found[self.kinds[number]].append(number)
        return found

    @cached_property
    def stumps(self) -> dict[Kind, list[tuple[int, frozenset[int]]]]:
        """Atoms by kind at which a substituent can be replaced, and that substituent."""
        found = defaultdict(list)
        for (x, y), side in self.sides.items():
            found[self.kind(x, (y,))].append((x, side))
        return found

    @cached_property
    def links(self) -> dict[tuple[Kind, Kind], list[Link]]:
        """Bonds by the kinds of their ends into which something can be put."""
        found = defaultdict(list)
        for x, y in self.cuttable:
            found[self.kind(x, (y,)), self.kind(y, (x,))].append((x, y))
        return found

    @cached_property
    def substituents(self) -> list[Graft]:
        """Substituents as regions that can be moved."""
        found = [graft_of(self, side)[0] for side in sorted({*self.sides.values()}, key=sorted)]
        return [graft for graft in found if graft is not None]

    @cached_property
    def fillers(self) -> list[Graft]:
        """Substituents made of carbon alone, which say little: alkyl, phenyl and the like."""
        element = [atom.GetAtomicNum() for atom in self.molecule.GetAtoms()]
        return [graft for graft in self.substituents if all(element[a] == 6 for a in graft.atoms)]


def graft_of(anatomy: Anatomy, atoms: Iterable[int]) -> tuple[Graft | None, str]:
    """A set of atoms as a region that can be moved; ``None`` and the reason if there is none."""
    region, reason = _movable(anatomy, {int(number) for number in atoms})
    return (None if region is None else _graft(anatomy, *region)), reason


def _movable(anatomy: Anatomy, asked: set[int]) -> tuple[tuple[set[int], set[int]] | None, str]:
    """Atoms that are moved and the frame of a region, or the reason why there are none."""
    if not asked:
        return None, "no atoms"
    if min(asked) < 0 or max(asked) >= anatomy.size:
        raise InputError(f"atoms must be numbers from 0 to {anatomy.size - 1}, got {sorted(asked)}")
    inside = anatomy.closed(asked)
    frame = anatomy.frame(inside)
    if len(frame) == len(inside):  # then whole rings come along, if these are small
        ringed = [sorted(set[int]().union(*rings)) for rings in anatomy.rings_of]
        inside = anatomy.closed(_reached(inside, ringed))
        if len(inside) > max(3, 2 * len(asked)):
            return None, "a small part of a ring"
        frame = anatomy.frame(inside)
    moved = set[int]()
    for part in anatomy.parts(inside - frame):
        if any(b not in inside or b in frame for a in part for b in anatomy.bonded[a]):
            moved.update(part)
    return ((moved, frame), "") if moved else (None, "a whole molecule")


def _graft(anatomy: Anatomy, moved: set[int], frame: set[int]) -> Graft:
    pieces = _pieces(anatomy, moved, frame)
    # Of the frame, what is not connected to anything that is moved is of no use.
    frame = frame & {a for piece in pieces for one in piece.surroundings for a in one.atoms}
    sizes = tuple(len(part) for part in anatomy.parts(moved | frame))
    return Graft(tuple(sorted(moved)), tuple(sorted(frame)), sizes, tuple(pieces))


def _pieces(anatomy: Anatomy, core: set[int], frame: set[int]) -> list[Piece]:
    anchors = {b for a in core for b in anatomy.bonded[a] if b not in core}
    outer = anchors | frame
    # Bonds between atoms that stay count only inside the frame.
    near = {a: [b for b in anatomy.bonded[a] if a in frame and b in frame] for a in outer}
    through = {a: near[a] + [b for b in anatomy.bonded[a] if b in core] for a in outer}
    through |= {a: anatomy.bonded[a] for a in core}
    pieces = []
    for part in _components(sorted(core | outer), through):
        inner = tuple(number for number in part if number in core)
        joints = tuple((a, b) for a in inner for b in anatomy.bonded[a] if b not in core)
        surroundings = []
        if not inner:
            continue
        for own in _components([number for number in part if number not in core], near):
            kinds = tuple(anatomy.kind(number, core) for number in own)
            ringed = tuple(bool(anatomy.rings_of[number]) for number in own)
            counts = tuple(sum(b == number for _, b in joints) for number in own)
            pattern = anatomy.cut_out(own) if len(own) > 1 else None
            surroundings.append(Surrounding(tuple(own), kinds, ringed, counts, pattern))
        # Those with most to match come first, the others are easier to stand for.
        surroundings.sort(key=lambda one: -len(one.atoms))
        pieces.append(Piece(inner, joints, tuple(surroundings), anatomy.cut_out(inner)))
    return pieces


def _components(nodes: Sequence[int], near: Near) -> list[list[int]]:
    left, found = set(nodes), []
    for start in nodes:
        if start in left:
            part = _reached([start], near, left)
            left -= part
            found.append(sorted(part))
    return found


def _reached(start: Iterable[int], near: Near, among: Collection[int] | None = None) -> set[int]:
    """Atoms from which on others, or those among some, are reached, and these."""
    todo = list(start)
    found = set(todo)
    while todo:
        new = {b for b in near[todo.pop()] if among is None or b in among} - found
        found |= new
        todo += new
    return found


def random_region(
    anatomy: Anatomy, like: Graft, generator: torch.Generator, *, avoid: Collection[int] = ()
) -> Graft | None:
    """A random region as large and as connected as another one; ``None`` if none was found."""
    avoid = set(avoid)
    best: tuple[tuple[int, int], set[int], set[int]] | None = None
    for _ in range(DRAWS):
        drawn = _drawn(anatomy, like.sizes, generator, avoid)
        region = None if drawn is None else _movable(anatomy, drawn)[0]
        if region is None:
            continue
        moved, frame = region
        unlike = len(moved & avoid), abs(len(moved) - len(like.atoms))
        if best is None or unlike < best[0]:
            best = unlike, moved, frame
        if not any(unlike):
            break
    return None if best is None else _graft(anatomy, *best[1:])


def _drawn(
    anatomy: Anatomy, sizes: Sequence[int], generator: torch.Generator, avoid: set[int]
) -> set[int] | None:
    """Connected sets of atoms that grow from random ones, by others only where they must."""
    taken: set[int] = set()
    for size in sizes:
        near, part = set(range(anatomy.size)) - taken, set[int]()
        while len(part) < size:
            if not near:
                return None
            part.add(pick(sorted(near - avoid or near), generator))
            near = {b for a in part for b in anatomy.bonded[a]} - part - taken
        taken |= part
    return taken


def pick(options: Sequence[T], generator: torch.Generator | None) -> T:
    """One of several at random."""
    if len(options) == 1:
        return options[0]
    return options[int(torch.randint(len(options), (1,), generator=generator))]


def without_atoms(edited: Any, gone: Iterable[int]) -> Any:
    """The same ``RWMol`` after some of its atoms went."""
    edited.BeginBatchEdit()
    for number in gone:
        edited.RemoveAtom(number)
    edited.CommitBatchEdit()
    return edited


def forget_stereo(molecule: Any, number: int) -> None:
    """Forgets the handedness of an atom that gets another neighbour, and of its double bonds."""
    chem = rdkit_module("Chem")
    atom = molecule.GetAtomWithIdx(number)
    atom.SetChiralTag(chem.ChiralType.CHI_UNSPECIFIED)
    for bond in atom.GetBonds():
        if bond.GetStereo() != chem.BondStereo.STEREONONE:
            bond.SetStereo(chem.BondStereo.STEREONONE)
        bond.SetBondDir(chem.BondDir.NONE)
