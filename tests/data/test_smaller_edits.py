"""Edited molecules with less change: molecules themselves, and all with one atom less."""

import pytest

pytest.importorskip("rdkit")

from rdkit import Chem

from hpme.data.molecules.chem import read_molecule
from hpme.data.molecules.edits import fragment_of, regions_of, smaller_edits, transplanted


def edited(smiles, atoms, donor, fragment):
    """A molecule with some of its atoms exchanged for some of a donor."""
    molecule, other = read_molecule(smiles), read_molecule(donor)
    gone = next(r for r in regions_of(molecule) if r.atoms == atoms)
    come = next(r for r in regions_of(other) if r.atoms == fragment)
    edit = transplanted(molecule, gone, fragment_of(other, come))
    assert edit is not None
    return edit, molecule


def change(edit, original):
    """Atoms removed and inserted."""
    return original.GetNumAtoms() + 2 * len(edit.new) - len(edit.origin)


@pytest.mark.parametrize(
    ("case", "less"),
    [
        (("CCCl", (2,), "CCCO", (2, 3)), {"CCO", "CCC"}),
        (("OCCc1ccccc1", (3, 4, 5, 6, 7, 8), "NCO", (2,)), {"CCO", "CC(O)CO"}),  # an atom is back
        (("CCO", (2,), "CC1CCC1", (1, 2, 3, 4)), {"CC", "CCC1CC1", "CCCCC"}),  # a ring less
        (("CCO", (2,), "Cc1ccccc1", (1, 2, 3, 4, 5, 6)), {"CC"}),
        (("C[C@H](F)O", (2,), "CN", (1,)), {"CCO"}),  # hydrogens that SMILES spells out
        (("c1ccccc1C", (1,), "c1ccncc1", (3,)), set()),  # aromatic rings stay
    ],
)
def test_less_change(case, less):
    edit, original = edited(*case)
    found = {one.smiles: one for one in smaller_edits(edit, original)}
    assert less <= set(found) and bool(found) == bool(less)
    for one in found.values():
        molecule = read_molecule(one.smiles)
        assert molecule.GetNumAtoms() == len(one.origin)
        assert not any(atom.GetNumRadicalElectrons() for atom in molecule.GetAtoms())
        assert change(one, original) < change(edit, original)


@pytest.mark.parametrize("smiles", ["CC(=O)Nc1ccc(OC)cc1", "C1CC1CN", "[O-][N+](=O)CC(F)C"])
def test_whatever_can_be_left_out_is_tried(smiles):
    """By RDKit alone: every inserted atom, and whether the molecule without it is one."""
    original, donor = read_molecule("OCC(F)CC1CCCCC1"), read_molecule(smiles)
    hydroxyl = next(r for r in regions_of(original) if r.atoms == (0,))
    for region in regions_of(donor):
        if not region.atoms or region.joints != hydroxyl.joints:
            continue
        edit = transplanted(original, hydroxyl, fragment_of(donor, region))
        found = {one.smiles for one in smaller_edits(edit, original)}
        for number in edit.new:
            less = Chem.RWMol(Chem.MolFromSmiles(edit.smiles))
            less.RemoveAtom(number)
            pieces = len(Chem.GetMolFrags(less))
            if pieces == 1 and not int(Chem.SanitizeMol(less, catchErrors=True)):
                atoms = less.GetAtoms()
                assert Chem.MolToSmiles(less) in found or any(
                    a.GetNumRadicalElectrons() for a in atoms
                )
