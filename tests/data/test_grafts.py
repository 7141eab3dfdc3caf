"""Regions moved between molecules: what is made is a molecule, and all its atoms are known."""

import pytest

pytest.importorskip("rdkit")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem

from hpme.data.molecules.anatomy import Anatomy, _drawn, graft_of, random_region
from hpme.data.molecules.grafts import Hosts, fillers_of, insert, insert_many, remove
from hpme.errors import InputError

MOLECULES = [
    "O=[N+]([O-])c1ccc(N)cc1",
    "CC(=O)Nc1ccc(OC)cc1C#N",
    "O=NN1CCCCC1",
    "O=NN(C)CCO",
    "C1CCC2OC2C1",
    "CC1OC1C(F)(F)Cl",
    "c1ccc2c(c1)ccc1[nH]c3ccccc3c12",
    "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
    "[Na+].[O-]C(=O)c1ccccc1O",
    "C[C@H](N)C(=O)N[C@@H](CS)C(=O)O",
    "C/C=C/C(=O)OCC",
    "CS(=O)(=O)N(CCCl)CCCl",
    "c1ccc(N=Nc2ccccc2)cc1",
    "[O-][n+]1ccccc1CN=[N+]=[N-]",
    "Clc1cc2c(cc1Cl)Oc1cc(Cl)c(Cl)cc1O2",
    "CC12CCC3C(CCC4CC(O)CCC34C)C1CCC2=O",
    "C[N+](C)(C)CCOP(=O)([O-])OCC",
    "O=C1C=CC(=O)C=C1C",
    "C1CC12CCN2CC(C)C",
    "CC",
    "[NH4+].[Cl-]",
]
ANATOMIES = [Anatomy(Chem.MolFromSmiles(smiles)) for smiles in MOLECULES]
HOSTS, FILLERS = Hosts(ANATOMIES), fillers_of(ANATOMIES)


def anatomy(smiles):
    return Anatomy(Chem.MolFromSmiles(smiles))


def graft(smiles, atoms):
    found, reason = graft_of(anatomy(smiles), atoms)
    assert found is not None, reason
    return found


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def smiles_of(transplant):
    return None if transplant is None else Chem.MolToSmiles(transplant.molecule)


def canonical(smiles):
    return Chem.CanonSmiles(smiles)


def facts(atom):
    return atom.GetAtomicNum(), atom.GetFormalCharge(), atom.GetIsAromatic(), atom.IsInRing()


def check(made, donor, region, host):
    """A molecule that is read again, without radicals, whose atoms are those they come from."""
    molecule = made.molecule
    again = Chem.MolFromSmiles(Chem.MolToSmiles(molecule))
    assert again is not None and Chem.MolToSmiles(again) == Chem.MolToSmiles(molecule)
    assert not any(atom.GetNumRadicalElectrons() for atom in molecule.GetAtoms())
    assert molecule.GetNumAtoms() == len(made.region) == len(made.host)
    assert len(Chem.GetMolFrags(molecule)) >= len(Chem.GetMolFrags(host))
    assert sorted(number for number in made.region if number >= 0) == list(region)
    kept = [number for number in made.host if number >= 0]
    assert len(set(kept)) == len(kept)
    for atom, inside, outside in zip(molecule.GetAtoms(), made.region, made.host, strict=True):
        assert inside < 0 or outside < 0
        if inside >= 0:
            source = donor.GetAtomWithIdx(inside)
            assert facts(atom) == facts(source)
            assert (atom.GetDegree(), atom.GetTotalNumHs()) == (
                source.GetDegree(),
                source.GetTotalNumHs(),
            )
        elif outside >= 0:
            assert facts(atom) == facts(host.GetAtomWithIdx(outside))


regions = st.tuples(
    st.integers(0, len(MOLECULES) - 1), st.sets(st.integers(0, 30), min_size=1, max_size=12)
).map(lambda pair: (pair[0], {number % ANATOMIES[pair[0]].size for number in pair[1]}))
grown = st.tuples(st.integers(0, len(MOLECULES) - 1), st.integers(1, 10), st.integers(0, 999)).map(
    lambda t: (t[0], _drawn(ANATOMIES[t[0]], [t[1]], seeded(t[2]), set()) or {0})
)


@settings(max_examples=150, deadline=None)
@given(st.one_of(regions, grown), st.integers(0, 999))
def test_whatever_is_made_is_a_molecule(region, seed):
    number, atoms = region
    donor = ANATOMIES[number]
    found, reason = graft_of(donor, atoms)
    assert (found is None) == bool(reason)
    if found is None:
        return
    assert not {*found.atoms} & {*found.frame}
    for host, made in insert_many(found, HOSTS, 8, seeded(seed))[0]:
        check(made, donor.molecule, found.atoms, ANATOMIES[host].molecule)
    for fillers in (None, FILLERS):
        made = remove(found, donor, seeded(seed), fillers=fillers)
        assert made is not None or fillers is not None
        if made is not None:
            check(made, None, (), donor.molecule)
            stay = set(range(donor.size)) - {*found.atoms}
            assert {number for number in made.host if number >= 0} == stay


@settings(max_examples=60, deadline=None)
@given(grown)
def test_cuts_are_single_bonds_outside_broken_rings(region):
    """By RDKit alone: what is moved and what stays."""
    donor = ANATOMIES[region[0]].molecule
    found, _ = graft_of(ANATOMIES[region[0]], region[1])
    if found is None:
        return
    moved, known = {*found.atoms}, {*found.atoms, *found.frame}
    for bond in donor.GetBonds():
        ends = {bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()}
        if len(ends & moved) == 1:
            assert bond.GetBondType() == Chem.BondType.SINGLE
            rings = [{*ring} for ring in donor.GetRingInfo().AtomRings() if ends <= {*ring}]
            assert all(ring <= known for ring in rings)


@pytest.mark.parametrize(
    ("smiles", "atoms", "moved", "frame"),
    [
        ("O=[N+]([O-])c1ccccc1", (0, 1, 2, 3), (0, 1, 2), (3,)),
        ("O=[N+]([O-])c1ccccc1", (1,), (0, 1, 2), ()),  # charges of one group stay together
        ("O=[N+]([O-])c1ccccc1", (3, 4, 5), (3, 4, 5, 6, 7, 8), ()),  # half of a ring: all of it
        ("ClCC1CO1", (4,), (2, 3, 4), ()),  # an epoxide is one group
        ("CCC(=O)OC", (2,), (2, 3), ()),  # the other end of a double bond
        ("CC=CC", (1,), (1, 2), ()),
        ("CC#N", (2,), (1, 2), ()),
        ("O=NN1CCCCC1", (0, 1, 2), (0, 1), (2,)),
        ("C1CCC2OC2C1", (3, 4, 5), (4,), (3, 5)),  # a whole ring on a broken one
        ("c1ccc2ccccc2c1C", (0, 1, 2, 3, 8, 9, 10), (10,), (0, 1, 2, 3, 8, 9)),
        ("O=C1CCCCC1CC", (0, 1, 7, 8), (7, 8), ()),  # a ketone is part of its ring
        ("CC(C)c1ccccc1", (1, 2, 4), (1, 2), ()),  # a frame apart from all else is of no use
        ("CCO.[Na+]", (2, 3), (2,), ()),  # a counter-ion hangs on nothing
        ("CC(F)(F)C", (2, 3), (2, 3), ()),
    ],
)
def test_what_is_moved(smiles, atoms, moved, frame):
    found = graft(smiles, atoms)
    assert (found.atoms, found.frame) == (moved, frame)
    assert sum(found.sizes) == len(moved) + len(frame)


@pytest.mark.parametrize(
    ("smiles", "atoms", "reason"),
    [
        ("CCO", (), "no atoms"),
        ("CCO", (0, 1, 2), "a whole molecule"),
        ("CC(=O)[O-].[Na+]", (4,), "a whole molecule"),
        ("c1ccccc1C", (0, 1), "a small part of a ring"),
    ],
)
def test_what_cannot_be_moved(smiles, atoms, reason):
    assert graft_of(anatomy(smiles), atoms) == (None, reason)


def test_atoms_that_are_not_there():
    with pytest.raises(InputError, match="from 0 to 2"):
        graft_of(anatomy("CCO"), [3])
    with pytest.raises(InputError, match="no fillers"):
        remove(graft("CCO", [2]), anatomy("CCO"), seeded(), fillers={})


def made_from(region, host, count=30):
    """All that comes of several seeds."""
    found = [smiles_of(insert(region, anatomy(host), seeded(i))) for i in range(count)]
    return {smiles for smiles in found if smiles is not None}


@pytest.mark.parametrize(
    ("donor", "atoms", "host", "expected"),
    [
        # nitro on an aromatic carbon stays on one
        ("O=[N+]([O-])c1ccccc1", (0, 1, 2), "Cc1ccc(C)cc1", {"Cc1ccc(C)c([N+](=O)[O-])c1"}),
        ("O=[N+]([O-])c1ccccc1", (0, 1, 2), "C1CCCCC1CC", set()),
        ("O=[N+]([O-])CC", (0, 1, 2), "CC", {"CC[N+](=O)[O-]"}),
        # between two atoms of the same kinds
        ("c1ccccc1OCC", (6,), "Cc1ccccc1", {"COc1ccccc1"}),
        ("c1ccccc1N=Nc1ccccc1", (6, 7), "c1ccc(cc1)-c1ccccc1", {"c1ccc(N=Nc2ccccc2)cc1"}),
        # a group stands for the second atom, which the host does not have
        ("c1ccccc1N=Nc1ccccc1", (6, 7), "c1ccccc1", {"c1ccc(N=Nc2ccccc2)cc1"}),
        ("CC(=O)NC", (3,), "CC", {"CCNC(C)=O"}),
        ("CN(C)C", (1,), "CC", {"CCN(C)C", "CN(C)C"}),
        # a ring closes on a bond of the host
        ("C1CCC2OC2C1", (3, 4, 5), "C1CCCCC1", {"C1CCC2OC2C1"}),
        ("C1CCc2ccccc2C1", (0, 1, 2, 9, 3, 8), "c1ccccc1", {"c1ccc2c(c1)CCCC2"}),
        ("C1CCC2OC2C1", (3, 4, 5), "c1ccccc1", set()),
        # positions in a ring
        ("Clc1ccc(F)cc1", (0, 1, 2, 3, 4, 5), "c1ccccc1", {"Fc1ccc(Cl)cc1"}),
        # nitrogen of pyrroles
        ("Cn1cccc1", (0,), "c1cc[nH]c1", {"Cn1cccc1"}),
        # charges
        ("CCC(=O)[O-]", (2, 3, 4), "CC", {"CCC(=O)[O-]"}),
        # into the acid, not its counter-ion
        ("CCF", (2,), "CCC(=O)[O-].[Na+]", {"O=C([O-])CCF.[Na+]", "CC(F)C(=O)[O-].[Na+]"}),
        # two hydrogens of one atom, two pieces at two atoms
        ("CC(F)(F)C", (2, 3), "CC", {"CC(F)F"}),
        ("FCCCCl", (0, 4), "CC", {"FCCCl"}),
    ],
)
def test_what_is_made(donor, atoms, host, expected):
    assert made_from(graft(donor, atoms), host) <= {canonical(s) for s in expected}
    assert bool(made_from(graft(donor, atoms), host)) == bool(expected)


def test_what_goes_for_a_region():
    nitro = graft("O=[N+]([O-])c1ccccc1", (0, 1, 2))
    host = "CC(=O)c1c(C)c(C)c(C)c(C)c1C"
    assert made_from(nitro, host) == {canonical("O=[N+]([O-])c1c(C)c(C)c(C)c(C)c1C")}


def test_handedness_is_kept_where_nothing_changes():
    made = insert(graft("CCF", (2,)), anatomy("C[C@H](O)c1ccccc1"), seeded())
    assert canonical("FC[C@H](O)c1ccccc1") in (
        smiles_of(made),
        smiles_of(made).replace("@", "@@"),
        smiles_of(made).replace("@@", "@"),
    )
    flat = remove(graft("C[C@H](O)CC", (2,)), anatomy("C[C@H](O)CC"))
    assert smiles_of(flat) == "CCCC"


@pytest.mark.parametrize(
    ("smiles", "atoms", "bare", "filled"),
    [
        ("O=[N+]([O-])c1ccccc1", (0, 1, 2), "c1ccccc1", "CCCc1ccccc1"),
        ("Cn1cccc1", (0,), "c1cc[nH]c1", "Cn1cccc1"),
        ("C[C@H](O)F", (2,), "CCF", "CC(C)F"),
        ("c1ccccc1N=Nc1ccccc1", (6, 7), "c1ccccc1.c1ccccc1", "c1ccc(CCc2ccccc2)cc1"),
        ("CN(C)C", (1,), "C.C.C", "CC(C)C"),
        ("C1CCC2OC2C1", (3, 4, 5), "C1CCCCC1", None),
        ("CC(F)(F)C", (2, 3), "CCC", "CC(C)(C)C"),
        ("[Na+].[O-]C(=O)CC", (1, 2, 3), "CC.[Na+]", "CCCCC.[Na+]"),
    ],
)
def test_what_is_left(smiles, atoms, bare, filled):
    own, region = anatomy(smiles), graft(smiles, atoms)
    fillers = fillers_of([anatomy("CCCCCO"), anatomy("CCCCO")])
    sizes = {len(part) for piece in region.pieces for part in own.parts(piece.atoms)}
    fillers = {size: some for size, some in fillers.items() if size in sizes}
    assert smiles_of(remove(region, own)) == canonical(bare)
    other = smiles_of(remove(region, own, seeded(), fillers=fillers))
    assert other == (filled and canonical(filled))


def test_fillers_are_carbon():
    found = fillers_of(
        [anatomy("CC(C)Cc1ccc(OCC)cc1"), anatomy("CCOC"), anatomy("OCCCCCCCc1ccccc1")]
    )
    assert {*found} >= {1, 2, 4, 6} and all(len(g.atoms) == n for n, s in found.items() for g in s)
    assert len(found[1]) == 1  # one methyl group will do


def test_random_regions_are_like_their_model():
    own = anatomy("O=[N+]([O-])c1ccc(CCC(C)C(=O)OC)cc1")
    model, _ = graft_of(own, (0, 1, 2, 3))
    drawn = {random_region(own, model, seeded(i), avoid=model.atoms).atoms for i in range(20)}
    assert len(drawn) > 2
    for atoms in drawn:
        assert not {*atoms} & {*model.atoms} and abs(len(atoms) - len(model.atoms)) < 2
    # where there is too little else, it overlaps
    small = anatomy("CCCCCO")
    model, _ = graft_of(small, (0, 1, 2, 3))
    assert random_region(small, model, seeded(), avoid=model.atoms).atoms == (2, 3, 4, 5)


def test_random_regions_are_as_connected():
    two = graft("OCCCCCCOC", (0, 7, 8))
    assert two.sizes == (1, 2)
    pair = random_region(anatomy("CCCCCCCCCCCC"), two, seeded())
    assert sum(pair.sizes) == 3
    three = graft("OCCCCCCOC", (6, 7, 8))
    assert {random_region(anatomy("CCCCCCCC"), three, seeded(i)).sizes for i in range(9)} == {(3,)}
    assert random_region(anatomy("CC"), three, seeded()) is None
    assert random_region(anatomy("c1ccccc1"), three, seeded()) is None


def test_the_same_seed_makes_the_same():
    own = ANATOMIES[1]
    region, _ = graft_of(own, (0, 1, 2, 3))

    def all_of(seed):
        generator = seeded(seed)
        made, tried = insert_many(region, HOSTS, 8, generator)
        assert len(made) <= tried <= len(HOSTS.fitting(region))
        drawn = random_region(own, region, generator)
        left = remove(region, own, generator, fillers=FILLERS)
        return [(h, smiles_of(m), m.region, m.host) for h, m in made], drawn, smiles_of(left)

    assert all_of(3) == all_of(3) and all_of(3) != all_of(4)
    assert len({host for host, *_ in all_of(3)[0]}) == len(all_of(3)[0])


def test_hosts_know_whom_they_can_take():
    """Those left out could not have taken it."""
    for own in ANATOMIES:
        for number in range(own.size):
            region, _ = graft_of(own, (number,))
            if region is not None:
                for other in set(range(len(ANATOMIES))) - {*HOSTS.fitting(region)}:
                    assert insert(region, ANATOMIES[other], seeded()) is None
