"""Tables as people have them: missing labels in many spellings, stray blanks and quotes."""

import csv
import logging

import pytest

pytest.importorskip("rdkit", reason="molecules need RDKit: pip install 'hpme[chem]'")

from hpme.data import from_smiles, from_smiles_csv
from hpme.errors import InputError

SMILES = ["C", "CC", "CCC", "CCCC", "CCO"]


@pytest.mark.parametrize(
    "missing", ["nan", "NaN", "NA", "None", "inf", "-inf", "", " ", "null", "#N/A", None]
)
def test_missing_labels_are_no_class(missing):
    numbers = from_smiles(SMILES, ["1", "1.0", missing, "0", "0.0"])
    assert numbers._data.y.tolist() == [1, 1, 0, 0]
    assert numbers.rule == "given classes: 0 = 0, 1 = 1"
    words = from_smiles(SMILES, ["yes", "no", missing, "no", "yes"])
    assert words._data.y.tolist() == [1, 0, 0, 1] and words.num_classes == 2
    for dataset in (numbers, words):
        assert [(row.row, row.reason) for row in dataset.skipped] == [(2, "no label")]
    decimals = from_smiles(SMILES, ["1.5", "2", missing, "3", "4"])
    assert decimals.info.task == "regression" and len(decimals) == 4


def test_one_and_one_point_zero_are_one_class_among_words():
    dataset = from_smiles(SMILES, ["1", "1.0", "other", "1.00", 1])
    assert dataset.rule == "given classes: 0 = 1, 1 = other"
    assert dataset._data.y.tolist() == [0, 0, 1, 0, 0]
    signs = from_smiles(SMILES, ["+", "-", "-", "+", "+"])
    assert signs._data.y.tolist() == [0, 1, 1, 0, 0]


def test_a_blank_inside_a_smiles_is_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("smiles,y\nC,1\nCCO ethanol,0\n CC ,0\n")
    dataset = from_smiles_csv(path, label_column="y")
    assert [data.num_nodes for data in dataset] == [1, 2]  # blanks around it do no harm
    assert str(dataset.skipped[0]).startswith("row 3, 'CCO ethanol': a blank inside the SMILES")
    with pytest.raises(InputError, match=r"row 3, 'CCO ethanol': a blank inside"):
        from_smiles_csv(path, label_column="y", on_error="raise")


@pytest.mark.parametrize(
    "content",
    [
        'smiles,y\nC,1\n"CC,0\nCCC,1\nCCO,0\n',  # to the end of the file
        'smiles,y\nC,1\n"CC,0\nCCC,1\n"CCO,0\n',  # to the next quote, which then hides a row
        'smiles,y\nC,1\nCC,"0\nCCC,1\nCCO,"0\n',
        'smiles,y\nC,1\n"CC,0\n' + "CCCCCCCC,0\n" * 20_000,  # longer than a field may be
    ],
)
def test_an_open_quote_is_named_with_its_row(tmp_path, content):
    path = tmp_path / "a.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=r"a\.csv.*row 3: a quote that is opened is not closed"):
        from_smiles_csv(path, label_column="y")


def test_quotes_that_are_closed_are_fine(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('smiles,remark,name,y\nC,"two\nlines","say ""a""",1\n"C(=O),"\nCC,,b,0\n')
    dataset = from_smiles_csv(path, label_column="y", name_column="name")
    assert [data.name for data in dataset] == ['say "a"', "b"]
    assert [row.row for row in dataset.skipped] == [4]  # where it begins


def test_skipped_rows_are_counted_and_listed_in_a_file(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        dataset = from_smiles(["C", "C1CC", "CC", 'C"', "CCC"], ["1", "0", "NA", "1", "0"])
    assert "skipped 3 of 5 rows" in caplog.text
    dataset.write_skipped(tmp_path / "folder" / "skipped.csv")
    with (tmp_path / "folder" / "skipped.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["row"], row["smiles"], row["reason"]) for row in rows] == [
        ("1", "C1CC", "not valid SMILES"),
        ("2", "CC", "no label"),
        ("3", 'C"', "not valid SMILES"),
    ]
