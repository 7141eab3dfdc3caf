"""Anybody's molecules as a dataset."""

import logging
import os
import sys

import pytest
import torch

pytest.importorskip("rdkit", reason="molecules need RDKit: pip install 'hpme[chem]'")

from hpme.data import from_smiles, from_smiles_csv
from hpme.data.molecules import chem
from hpme.data.molecules.chem import ATOMS, BONDS
from hpme.data.molecules.columns import SmilesColumns
from hpme.data.molecules.smiles import parse_smiles, read_smiles
from hpme.errors import HPMEError, InputError, MissingPackageError

CARBONYL = {"carbonyl": "[CX3]=O"}
ODD = ["[Na+].[Cl-]", "C", "[H][H]", "CC(=O)O", "CC(=O)O", "[Si](C)(C)C", "CC[NH3+].O=C[O-]"]
BAD = ["C[N+", "C(C)(C)(C)(C)C", "", "  "]


def test_features_labels_and_ground_truth():
    dataset = from_smiles(["CC(=O)N", "c1ccccc1", "CCO"], rules=CARBONYL)
    acetamide, benzene, _ = dataset
    assert acetamide.x.argmax(1).tolist() == [ATOMS.index(a) for a in ("C", "C", "O", "N")]
    assert acetamide.edge_index.tolist() == [[0, 1, 1, 2, 1, 3], [1, 0, 2, 1, 3, 1]]
    double = BONDS.index("DOUBLE")
    assert acetamide.edge_attr[:, double].tolist() == [0, 0, 1, 1, 0, 0]
    assert acetamide.edge_mask.tolist() == [False, False, True, True, False, False]
    assert acetamide.node_mask.tolist() == [False, True, True, False]
    assert benzene.edge_attr.argmax(1).tolist() == [BONDS.index("AROMATIC")] * 12
    assert dataset._data.y.tolist() == [1, 0, 0]
    assert dataset.explainable.tolist() == [0]
    assert dataset.companions(0).sort().values.tolist() == [1, 2]
    assert (dataset.rule, dataset.num_classes) == ("carbonyl", 2)


def test_molecules_without_labels_are_the_same_graphs():
    table = SmilesColumns(["CC(=O)N", *BAD, "CCO"], range(6), names=["a\nb", *"cdef", "g"])
    for hydrogens in (False, True):
        store, skipped = read_smiles(table, hydrogens=hydrogens, progress=False)
        dataset = from_smiles(["CC(=O)N", "CCO"], [0, 1], hydrogens=hydrogens)
        for ours, theirs in zip(store, dataset, strict=True):
            for name in ("x", "edge_index", "edge_attr"):
                assert torch.equal(ours[name], theirs[name])
            assert set(ours.keys()) == {"x", "edge_index", "edge_attr", "smiles", "name"}
        assert [graph.name for graph in store] == ["a b", "g"]
        assert [row.row for row in skipped] == [1, 2, 3, 4]
        parsed, same = parse_smiles(table, CARBONYL, hydrogens=hydrogens)
        truth = from_smiles(["CC(=O)N", "CCO"], rules=CARBONYL, hydrogens=hydrogens)
        for (_, known), graph in zip(parsed, truth, strict=True):
            assert all(torch.equal(known[name], graph[name]) for name in ("y", "node_mask"))
        assert same == skipped
    for read in (lambda table: read_smiles(table, progress=False), lambda t: parse_smiles(t, {})):
        with pytest.raises(InputError, match="none of the 4 rows can be used"):
            read(SmilesColumns(BAD, range(4)))
        with pytest.raises(InputError, match="the list is empty"):
            read(SmilesColumns([], []))


def test_all_rules_must_match():
    rules = {**CARBONYL, "fluoride": "[FX1]"}
    dataset = from_smiles(["O=CCF", "O=CC", "FCC", "O=CC(F)F"], rules=rules)
    assert dataset._data.y.tolist() == [1, 0, 0, 1]
    assert dataset[0].node_mask.tolist() == [True, True, False, True]
    assert not dataset[1].node_mask.any()
    assert [len(dataset.alternatives(i)) for i in range(4)] == [1, 0, 0, 2]
    assert len(dataset.alternatives(3, unions=True)) == 3
    assert dataset.rule == "carbonyl AND fluoride"


def test_salts_atoms_hydrogens_and_duplicates():
    names = [f"Stoff {i} ü 水" for i in range(len(ODD))]
    dataset = from_smiles(ODD, rules=CARBONYL, names=names)
    assert [data.num_nodes for data in dataset] == [2, 1, 2, 4, 4, 4, 6]
    assert [data.num_edges for data in dataset] == [0, 0, 2, 6, 6, 6, 8]
    assert [data.name for data in dataset] == names
    assert [data.smiles for data in dataset] == ODD
    assert dataset[0].x.argmax(1).tolist() == [ATOMS.index("Na"), ATOMS.index("Cl")]
    assert dataset[5].x.argmax(1).tolist()[0] == ATOMS.index("*")
    assert dataset.skipped == ()
    assert sum(len(ids) for ids in dataset.split.values()) == len(ODD)


def test_a_single_molecule():
    (data,) = from_smiles(["CC=O"], rules=CARBONYL, names=["Äthanal"])
    assert (data.smiles, data.name) == ("CC=O", "Äthanal")
    dataset = from_smiles(["CC=O", "C", "CC"], rules=CARBONYL)
    assert dataset.copy([0])[0].smiles == "CC=O"
    assert dataset[1:].alternatives(0) == []


def test_hydrogens_become_nodes_on_demand():
    water = ["[H]O[H]", "O"]
    assert [data.num_nodes for data in from_smiles(water, [0, 1])] == [1, 1]
    assert [data.num_nodes for data in from_smiles(water, [0, 1], hydrogens=True)] == [3, 3]


def test_bad_rows_are_skipped_and_named(caplog):
    smiles = ["CCO", BAD[0], "CC=O", *BAD[1:], "C"]
    with caplog.at_level(logging.WARNING):
        dataset = from_smiles(smiles, [1.5, 2, 3, 4, 5, 6, float("nan")], names="abcdefg")
    assert dataset._data.y.tolist() == [1.5, 3.0]
    assert [data.name for data in dataset] == ["a", "c"]
    assert [row.row for row in dataset.skipped] == [1, 3, 4, 5, 6]
    reasons = [row.reason for row in dataset.skipped]
    assert reasons[0] == "not valid SMILES" and "valence" in reasons[1]
    assert reasons[2:4] == ["no atoms"] * 2 and "label" in reasons[4]
    assert "skipped 5 of 7 rows" in caplog.text and "row 1, 'C[N+'" in caplog.text


@pytest.mark.parametrize("bad", BAD)
def test_bad_rows_are_fatal_on_demand(bad):
    with pytest.raises(InputError, match="row 1, "):
        from_smiles(["CCO", bad, "C1C"], rules=CARBONYL, on_error="raise")
    with pytest.raises(InputError, match=r"row 0, 'C'.*label"):
        from_smiles(["C", bad], ["", "a"], on_error="raise")


def test_classes_are_numbered_in_order():
    smiles = ["C", "CC", "CCC", "CCCC"]
    words = from_smiles(smiles, ["no", "yes", " no", "maybe"])
    assert words._data.y.tolist() == [1, 2, 1, 0]
    assert (words.num_classes, words.info.task) == (3, "classification")
    assert words.rule == "given classes: 0 = maybe, 1 = no, 2 = yes"
    numbers = from_smiles(smiles, ["10", "9.0", "9", "10.0"])
    assert numbers._data.y.tolist() == [1, 0, 0, 1]
    assert from_smiles(smiles, [True, False, True, True])._data.y.tolist() == [1, 0, 1, 1]
    assert from_smiles(smiles, [1, 1, 1, 1]).num_classes == 2


def test_regression_is_recognised_or_asked_for():
    smiles = ["C", "CC", "CCC"]
    assert from_smiles(smiles, [0.5, 1, 2]).info.task == "regression"
    assert from_smiles(smiles, [0.0, 1.0, 2.0]).info.task == "classification"
    asked = from_smiles(smiles, [0, 1, 2], task="regression")
    assert asked._data.y.dtype == torch.float and asked.num_classes == 1


def test_without_ground_truth_everything_is_explained():
    for rules in (None, {"gold": "[Au]"}):
        dataset = from_smiles(["CC", "CCO", "C"], [0, 1, 1], rules)
        assert dataset.explainable.tolist() == [0, 1, 2]
        assert not dataset.has_ground_truth
        assert dataset.pool_ratio == 0.2


def test_own_labels_with_rules():
    dataset = from_smiles(["CC=O", "CC", "CCC=O"], ["a", "b", "b"], CARBONYL)
    assert dataset._data.y.tolist() == [0, 1, 1]
    assert dataset.explainable.tolist() == [0, 2]
    assert dataset.has_ground_truth


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rules": {"mine": "[C"}}, r"rule 'mine': '\[C' is no SMARTS"),
        ({"rules": {"mine": " "}}, "rule 'mine'"),
        ({}, "labels, or rules"),
        ({"labels": [1]}, "2 molecules need as many labels, got 1"),
        ({"labels": [1, 2], "names": ["a"]}, "as many names"),
        ({"rules": CARBONYL, "on_error": "ignore"}, "on_error"),
        ({"rules": CARBONYL, "task": "ranking"}, "task"),
        ({"rules": CARBONYL, "task": "regression"}, "needs labels"),
        ({"rules": CARBONYL, "workers": 0}, "workers"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        from_smiles(["CCO", "CC"], **arguments)


def test_nothing_to_use():
    with pytest.raises(InputError, match="empty"):
        from_smiles([], rules=CARBONYL)
    with pytest.raises(InputError, match=r"none of the 2 rows.*row 0, 'X'"):
        from_smiles(["X", "Y?"], rules=CARBONYL)
    with pytest.raises(InputError, match="row 1 is no text but float"):
        from_smiles(["C", float("nan")], rules=CARBONYL)
    with pytest.raises(InputError, match="regression"):
        from_smiles(["C"] * 200, range(200))


def test_without_rdkit(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit.Chem", None)
    with pytest.raises(MissingPackageError, match=r"hpme\[chem\]"):
        from_smiles(["C"], [1])


def test_processes_give_the_same_in_the_same_order(monkeypatch):
    monkeypatch.setattr(chem, "CHUNK", 7)
    smiles = [f"C{'C' * (i % 9)}{'=O' * (i % 2)}" if i % 13 else "?" for i in range(150)]
    one = from_smiles(smiles, rules=CARBONYL, workers=1)
    two = from_smiles(smiles, rules=CARBONYL, workers=2)
    assert one.skipped == two.skipped and len(one.skipped) == 12
    for key, value in one._data.to_dict().items():
        other = two._data[key]
        assert torch.equal(value, other) if torch.is_tensor(value) else value == other


def test_processes_only_where_they_pay(monkeypatch):
    monkeypatch.setattr(chem, "_in_processes", None)  # would fail if called
    from_smiles(["C"] * 2000, [0] * 2000)
    monkeypatch.setattr(chem, "PARALLEL_FROM", 1500)
    monkeypatch.setattr(chem, "_processors", lambda: 2)
    with pytest.raises(TypeError):
        from_smiles(["C"] * 2000, [0] * 2000)


def die(*_):
    os._exit(1)


# Only a forked worker has the patched read_chunk of its parent; a spawned one would import its own.
@pytest.mark.skipif(sys.platform != "linux", reason="relies on fork")
def test_a_dead_process_is_reported(monkeypatch):
    monkeypatch.setattr(chem, "CHUNK", 2)
    monkeypatch.setattr(chem, "read_chunk", die)
    with pytest.raises(HPMEError, match="workers=1"):
        from_smiles(["C"] * 10, [0] * 10, workers=2)


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def test_csv(tmp_path):
    text = '\ufeffName,SMILES ,y\nWasser,O,1\n\n"a,b",C1CC,0\nÄthanol,CCO,0\nshort\n'
    dataset = from_smiles_csv(
        write(tmp_path / "Meine Stoffe.csv", text),
        smiles_column="SMILES",
        label_column="y",
        name_column="Name",
    )
    assert [data.name for data in dataset] == ["Wasser", "Äthanol"]
    assert dataset._data.y.tolist() == [1, 0]
    assert [(row.row, row.smiles) for row in dataset.skipped] == [(4, "C1CC"), (6, "")]
    assert (dataset.info.name, dataset.info.title) == ("meine-stoffe", "Meine Stoffe")


def test_tsv_size_and_options(tmp_path):
    path = write(tmp_path / "a.tsv", "smiles\tlogp\nC\t1.5\nCC=O\t2\nCCC\t3\n")
    dataset = from_smiles_csv(
        path, label_column="logp", size=2, task="regression", rules=CARBONYL, hydrogens=True
    )
    assert dataset._data.y.tolist() == [1.5, 2.0]
    assert [data.num_nodes for data in dataset] == [5, 7]
    assert dataset.explainable.tolist() == [1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no column 'smiles'; its columns: none, the file is empty"),
        (b"a,b\n1,2\n", "no column 'smiles'; its columns: a, b; name another.*--smiles-column"),
        (b"smiles,y\nC,\xff\n", "UTF-8"),
        (b"smiles,y\n", "no row below its header"),
    ],
)
def test_unusable_csv(tmp_path, content, message):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        from_smiles_csv(path, label_column=None, rules=CARBONYL)
    with pytest.raises(InputError, match=r"no file .*; check the path"):
        from_smiles_csv(tmp_path / "none.csv", rules=CARBONYL)
