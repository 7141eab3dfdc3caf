"""Groups exchanged for others: what is made is a molecule that a chemist would keep."""

import pytest

pytest.importorskip("rdkit")

from hpme.data.molecules.anatomy import Anatomy, graft_of
from hpme.data.molecules.chem import read_molecule
from hpme.data.molecules.exchanges import (
    UNLIKELY,
    Edit,
    accessibility,
    exchanged,
    fingerprint,
    group_name,
    objection,
    shared_atoms,
    similarities,
    swapped,
)

NITROBENZENE = "O=[N+]([O-])c1ccccc1"


def anatomy(smiles):
    return Anatomy(read_molecule(smiles))


def first(smiles):
    return Edit(smiles, tuple(range(read_molecule(smiles).GetNumAtoms())))


def test_a_group_for_another_one():
    own, donor = anatomy(NITROBENZENE), anatomy("OC(=O)c1ccccc1")
    group, _ = graft_of(donor, [0, 1, 2])
    edit = first(NITROBENZENE).then(exchanged(own, 3, (0, 1, 2), group))
    assert read_molecule(edit.smiles).HasSubstructMatch(donor.molecule)
    assert sorted(edit.origin) == [-1, -1, -1, 3, 4, 5, 6, 7, 8]
    assert edit.marked.count(":1]") == 3 == len(edit.new)
    gone = {0, 1, 2}.difference(edit.origin)
    names = group_name(own, gone), group_name(anatomy(edit.smiles), edit.new)
    assert names == ("nitro", "carboxyl")
    assert objection(own.molecule, read_molecule(edit.smiles)) is None


def test_hydrogens_come_and_go_and_edits_follow_each_other():
    group, _ = graft_of(anatomy("CCl"), [1])
    edit = first("CCO").then(exchanged(anatomy("CCO"), 1, (2,), None))
    assert edit.smiles == "CC" and sorted(edit.origin) == [0, 1]
    again = edit.then(exchanged(anatomy("CC"), edit.origin.index(0), (), group))
    assert again.smiles == "CCCl" and sorted(again.origin) == [-1, 0, 1]
    assert again.origin[again.new[0]] == -1
    assert read_molecule(again.smiles).GetAtomWithIdx(again.new[0]).GetSymbol() == "Cl"


def test_elements_of_rings_change_and_aromatic_rings_stay():
    made = {first("c1ccccc1C").then(one).smiles for one in swapped(anatomy("c1ccccc1C"), 0)}
    assert made == {"Cc1ccccn1"}
    assert not list(swapped(anatomy("c1ccccc1C"), 6))  # outside rings
    rings = [
        read_molecule(first("C1CCCC1").then(one).smiles) for one in swapped(anatomy("C1CCCC1"), 0)
    ]
    assert [{a.GetSymbol() for a in ring.GetAtoms()} for ring in rings] == [
        {"C", "N"},
        {"C", "O"},
        {"C", "S"},
    ]
    assert not list(swapped(anatomy("C[n+]1ccccc1"), 1))


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("CNC", "CN(C)Cl", "a halogen on N, O or S"),
        ("CO", "COCl", "a halogen on N, O or S"),
        ("CS", "CSCl", "a halogen on N, O or S"),
        ("CCO", "CCOO", "a peroxide"),
        ("CNN", "CNNN", "three heteroatoms in a row"),
        ("CCO", "CC(O)N", "two heteroatoms with hydrogen on one carbon"),
        ("COC", "COCF", "a halogen beside a heteroatom"),
        ("CSC", "C[SH](=O)C", "hydrogen on hypervalent S or P"),
        ("CSC", "CS(C)(C)C", "hypervalent S or P"),
        ("CP(C)C", "C[PH2](C)C", "hydrogen on hypervalent S or P"),
        ("CN", "C[NH3+]", "a charge"),
        ("CC(=O)O", "CC(=O)[O-]", "a charge"),
        ("C1CC1", "C1=CC1", "an unsaturated small ring"),
        ("C1CCCCC1", "C1CCC#CC1", "an alkyne or allene in a ring"),
        ("CC=CC", "CC=C=C", "a cumulene"),
        ("C1CCCCC1C", "C1CC2CCC1C2", "a bridged ring"),
        ("CCCCC", "C[C@@]12CC[C@@H](C(C)(C)O1)[C@]1(O)C=C[C@H]3OC3[C@@]21F", "hard to make"),
    ],
)
def test_what_a_chemist_would_not_keep(before, after, why):
    found = objection(read_molecule(before), read_molecule(after))
    assert found == why or (why == "hard to make" and found is not None)
    assert objection(read_molecule(after), read_molecule(after)) is None  # it was there before
    assert why in {*UNLIKELY, "a bridged ring", "hard to make"}


@pytest.mark.parametrize("smiles", ["CC[N+](=O)[O-]", "CCS(N)(=O)=O", "CCC(F)(F)F", "CCC1CC1"])
def test_what_a_chemist_would_keep(smiles):
    assert objection(read_molecule("CC"), read_molecule(smiles)) is None


def test_names_accessibility_and_likeness():
    own = anatomy("COc1ccc(C#N)c(C(F)(F)F)c1")
    assert group_name(own, [0, 1, 6, 7]) == "cyano + methoxy"
    assert group_name(own, []) == "H"
    assert group_name(anatomy("CCCCCCO"), [4, 5, 6]) == "*CCO"
    easy, hard = (accessibility(read_molecule(s)) for s in ("CCO", "C1CC2CCC1C23OC3CN4CC4"))
    assert 1 <= easy < 3 < hard <= 10
    ours, other = read_molecule("Clc1ccccc1"), read_molecule("Fc1ccccc1")
    near = similarities(ours, [fingerprint(ours), fingerprint(other)])
    assert near[0] == 1 > near[1] > 0
    assert sorted(shared_atoms(ours, other)) == [(i, i) for i in range(1, 7)]
    assert shared_atoms(read_molecule("O"), read_molecule("CC")) == []
    middle = read_molecule("CCOCCC"), read_molecule("CCSCCC")
    assert len(shared_atoms(*middle)) == 5 > len(shared_atoms(*middle, unlike=False)) == 3
