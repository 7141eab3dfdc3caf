"""Groups of molecules exchanged for others, and whether a chemist would keep the result."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hpme.data.molecules.anatomy import Anatomy, Graft
from hpme.data.molecules.chem import compile_smarts, rdkit_module, read_molecule, written
from hpme.data.molecules.grafts import Assembly, Transplant

HARDER, EASY = 1.0, 3.5
"""By how much a molecule may be harder to make than the one it was made of, by the
synthetic-accessibility score from 1 (easy) to 10; what is this easy may always come."""
MATCHES = 16
"""Ways to lay a common core on a molecule that are compared."""
SWAPS = {6: (7, 8, 16), 7: (6, 8), 8: (6, 7, 16), 16: (6, 8)}
"""Elements of rings that take each other's place."""
UNLIKELY = {
    "a halogen on N, O or S": "[#7,#8,#16]-[F,Cl,Br,I]",
    "a peroxide": "[OX2]-[OX2]",
    "three heteroatoms in a row": "[N,O,S;!$(*=*)]-[N,O,S;!$(*=*)]-[N,O,S;!$(*=*)]",
    "two heteroatoms with hydrogen on one carbon": "[CX4]([OH,SH,NH2])[OH,SH,NH2,F,Cl,Br,I]",
    "a halogen beside a heteroatom": "[CX4;!$(C(F)F)]([F,Cl,Br,I])-[N,O,S]",
    "hydrogen on hypervalent S or P": "[#15,#16;v4,v5,v6;!H0]",
    "hypervalent S or P": "[#15,#16;v4,v5,v6;!$(*=[#7,#8,#16])]",
    "a hypervalent halogen": "[F,Cl,Br,I;X2,X3,X4]",
    "a charge": "[+,-;!$([+]~[-]);!$([-]~[+])]",
    "an unsaturated small ring": "[r3,r4]=,#[r3,r4]",
    "an alkyne or allene in a ring": "[$([R]#[R]),$([R](=[R])=[R])]",
    "a cumulene": "[#6]=[#6]=[#6]",
}
"""What a molecule must not have more of than the one it was made of."""
GROUPS = {
    "methyl": "CC", "ethyl": "CCC", "isopropyl": "CC(C)C", "phenyl": "Cc1ccccc1", "vinyl": "CC=C",
    "trifluoromethyl": "CC(F)(F)F", "nitro": "C[N+](=O)[O-]", "amino": "CN", "hydroxyl": "CO",
    "thiol": "CS", "methoxy": "COC", "ethoxy": "COCC", "methylamino": "CNC", "nitroso": "CN=O",
    "dimethylamino": "CN(C)C", "fluoro": "CF", "chloro": "CCl", "bromo": "CBr", "iodo": "CI",
    "cyano": "CC#N", "carboxyl": "CC(=O)O", "carboxamide": "CC(N)=O", "formyl": "CC=O",
    "acetyl": "CC(C)=O", "acetamido": "CNC(C)=O", "methyl ester": "CC(=O)OC",
    "sulfo": "CS(=O)(=O)O", "sulfonamide": "CS(N)(=O)=O", "mesyl": "CS(C)(=O)=O",
    "azido": "CN=[N+]=[N-]",
}  # fmt: skip
"""Groups by name, each bound to a carbon."""


@dataclass(frozen=True)
class Edit:
    """A molecule in which groups were exchanged."""

    smiles: str
    origin: tuple[int, ...]  # numbers of its atoms before the first edit, -1 for those that came

    @property
    def new(self) -> list[int]:
        """Numbers of atoms that came."""
        return [place for place, number in enumerate(self.origin) if number < 0]

    @property
    def marked(self) -> str:
        """SMILES with ``:1`` at atoms that came."""
        molecule = read_molecule(self.smiles)
        for number in self.new:
            molecule.GetAtomWithIdx(number).SetAtomMapNum(1)
        return str(rdkit_module("Chem").MolToSmiles(molecule))

    def then(self, made: Transplant | None) -> Edit | None:
        """What was made of this molecule, as an edit of the first; ``None`` if it is none."""
        if made is None:
            return None
        text, order = written(made.molecule)
        if text.count(".") > self.smiles.count("."):
            return None
        with rdkit_module("rdBase").BlockLogs():
            again = rdkit_module("Chem").MolFromSmiles(text)
        if again is None or again.GetNumAtoms() != len(made.host):
            return None
        numbers = [made.host[place] for place in order]
        return Edit(text, tuple(self.origin[i] if i >= 0 else -1 for i in numbers))


def exchanged(
    anatomy: Anatomy, end: int, gone: Collection[int], group: Graft | None
) -> Transplant | None:
    """A molecule whose atom ``end`` has a group or a hydrogen in place of atoms, or of another."""
    assembly = Assembly(anatomy)
    assembly.gone.update(gone)
    if not gone:
        assembly.hydrogens(end, -1)
    if group is None:
        assembly.hydrogens(end, 1)
    else:
        assembly.fill(end, group)
    return assembly.finished()


def swapped(anatomy: Anatomy, number: int) -> Iterator[Transplant]:
    """A molecule with another element at a place in a ring, as in a pyridine for a benzene."""
    before = anatomy.molecule.GetAtomWithIdx(number)
    if before.GetFormalCharge() or before.GetNumRadicalElectrons() or not anatomy.rings_of[number]:
        return
    for element in SWAPS.get(before.GetAtomicNum(), ()):
        assembly = Assembly(anatomy)
        atom = assembly.edited.GetAtomWithIdx(number)
        atom.SetAtomicNum(element)
        atom.SetNumExplicitHs(0)
        atom.SetNoImplicit(False)
        assembly.hydrogens(number, 0)
        assembly.host[number], assembly.closes = -1, True
        made = assembly.finished()
        if made is not None:
            yield made


def group_name(anatomy: Anatomy, atoms: Collection[int]) -> str:
    """Groups of a molecule in words, else as SMILES with ``*`` for the rest; hydrogen if none."""
    found = [_fragment(anatomy, part) for part in anatomy.parts(atoms)]
    return " + ".join(sorted(_names().get(text, text) for text in found)) or "H"


def _fragment(anatomy: Anatomy, part: Sequence[int]) -> str:
    """A part of a molecule as SMILES, with ``*`` for atoms it is bound to."""
    molecule, inside = anatomy.molecule, set(part)
    outer = {b for a in part for b in anatomy.bonded[a]} - inside
    symbols = ["*" if atom.GetIdx() in outer else atom.GetSmarts() for atom in molecule.GetAtoms()]
    bonds = {bond.GetIdx() for a in part for bond in molecule.GetAtomWithIdx(a).GetBonds()}
    text: str = rdkit_module("Chem").MolFragmentToSmiles(
        molecule, [*part, *sorted(outer)], bondsToUse=sorted(bonds), atomSymbols=symbols
    )
    return text


@cache
def _names() -> dict[str, str]:
    own = {name: Anatomy(read_molecule(text)) for name, text in GROUPS.items()}
    return {_fragment(one, range(1, one.size)): name for name, one in own.items()}


_unlikely = cache(lambda: compile_smarts(list(UNLIKELY.values())))


def objection(before: Any, after: Any) -> str | None:
    """What a chemist would object to in a molecule and not in the one it was made of."""
    for name, pattern in zip(UNLIKELY, _unlikely(), strict=True):
        count = len(after.GetSubstructMatches(pattern))
        if count and count > len(before.GetSubstructMatches(pattern)):
            return name
    described = rdkit_module("Chem.rdMolDescriptors")
    if described.CalcNumBridgeheadAtoms(after) > described.CalcNumBridgeheadAtoms(before):
        return "a bridged ring"
    hard = accessibility(after)
    if hard is not None and hard > max(EASY, HARDER + (accessibility(before) or 0.0)):
        return "hard to make"
    return None


def accessibility(molecule: Any) -> float | None:
    """Synthetic-accessibility score, 1 is easy and 10 hard; ``None`` if RDKit came without it."""
    scorer = _scorer()
    return None if scorer is None else float(scorer.calculateScore(molecule))


@cache
def _scorer() -> Any:
    path = Path(rdkit_module("RDConfig").RDContribDir) / "SA_Score" / "sascorer.py"
    if not path.exists():
        return None
    spec = importlib.util.spec_from_file_location("sascorer", path)
    assert spec is not None and spec.loader is not None
    scorer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(scorer)
    return scorer


def fingerprint(molecule: Any) -> Any:
    """Morgan fingerprint of radius 2, 2,048 bits."""
    made = rdkit_module("Chem.rdFingerprintGenerator").GetMorganGenerator(2, fpSize=2048)
    return made.GetFingerprint(molecule)


def similarities(own: Any, others: Sequence[Any]) -> list[float]:
    """Tanimoto similarities of a molecule's fingerprint to others."""
    return list(rdkit_module("DataStructs").BulkTanimotoSimilarity(fingerprint(own), list(others)))


def shared_atoms(
    first: Any, second: Any, *, unlike: bool = True, seconds: int = 2
) -> list[tuple[int, int]]:
    """Atoms of the common core of two molecules; with ``unlike`` also of a core of any atoms."""
    mcs = rdkit_module("Chem.rdFMCS")
    kinds = [
        [
            (a.GetAtomicNum(), a.GetFormalCharge(), a.GetIsAromatic(), a.GetIsotope(), a.IsInRing())
            for a in molecule.GetAtoms()
        ]
        for molecule in (first, second)
    ]
    best: list[tuple[int, int]] = []
    rings = {"ringMatchesRingOnly": True, "completeRingsOnly": True, "timeout": seconds}
    for compare in (mcs.AtomCompare.CompareElements, mcs.AtomCompare.CompareAny)[: 1 + unlike]:
        query = mcs.FindMCS([first, second], atomCompare=compare, **rings).queryMol
        if query is None:
            continue
        one = first.GetSubstructMatch(query)
        for other in second.GetSubstructMatches(query, uniquify=False, maxMatches=MATCHES):
            pairs = zip(one, other, strict=True)
            same = [(i, j) for i, j in pairs if kinds[0][i] == kinds[1][j]]
            best = same if len(same) > len(best) else best
    return best
