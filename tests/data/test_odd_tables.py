"""Odd tables: every row is read or listed, alike by all commands, or the table is refused."""

import csv
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("rdkit", reason="molecules need RDKit: pip install 'hpme[chem]'")

from hpme.apply import open_rows
from hpme.data.molecules.columns import SkippedRow, read_columns, write_skipped
from hpme.errors import InputError
from odd import odd_tables, rows_of

ENDS = pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])


@ENDS
def test_lines_may_end_in_any_way(tmp_path, end):
    path = tmp_path / "a.csv"
    path.write_bytes(end.join(["smiles,name", "C,a", "CC,b", "", "CCC,c"]).encode())
    whole, rows = read_columns(path, name_column="name"), open_rows(path, name_column="name")
    (part,) = rows.parts(10)
    assert whole.smiles == part.smiles == ["C", "CC", "CCC"]
    assert whole.names == part.names == ["a", "b", "c"]
    assert list(whole.rows) == part.ids == [2, 3, 5]
    assert rows.total == 4


def test_a_column_that_is_there_twice_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("smiles,name,smiles ,name\nC,a,CC,b\n")
    for read in (read_columns, open_rows):
        with pytest.raises(InputError, match="has two columns 'smiles'; rename or remove one"):
            read(path)
    path.write_text("smiles,name,name\nC,a,b\n")  # others do not matter
    assert read_columns(path).smiles == ["C"]


def test_a_long_field_is_called_a_long_field(tmp_path):
    path, long = tmp_path / "a.csv", "C" * (csv.field_size_limit() + 1)
    path.write_text(f'smiles,remark\n"{long}",a\n"CC",b\n')
    (part,) = open_rows(path).parts(10)
    assert part.smiles == ["CC"] and "a field has more than 131,072" in part.skipped[0].reason
    with pytest.raises(InputError, match="row 2: a field has more than 131,072 letters"):
        read_columns(path)


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1+cmd|' /C calc'!A0", "@sum", "\tC", "C"])
def test_no_cell_is_computed_by_a_spreadsheet(tmp_path, cell):
    write_skipped(tmp_path / "skipped.csv", [SkippedRow(-2, cell, cell)])
    with (tmp_path / "skipped.csv").open(newline="") as file:
        _, row = csv.reader(file)
    shown = cell if cell == "C" else f"'{cell}"
    assert row == ["-2", shown, shown]


def test_escapes_of_data_are_not_in_messages(tmp_path):
    assert "\x1b" not in str(SkippedRow(1, "\x1b[31mC", "not \x9b valid"))
    path = tmp_path / "a.csv"
    path.write_text("\x1b[2Jsmile\nC\n")
    with pytest.raises(InputError, match=r"its columns:  \[2Jsmile"):
        read_columns(path)


@given(content=odd_tables(), suffix=st.sampled_from([".csv", ".tsv"]))
def test_every_row_of_an_odd_table_is_read_or_listed(content, suffix):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"odd{suffix}")
        path.write_bytes(content)
        whole, parts = None, None
        with suppress(InputError):
            whole = read_columns(path)
        with suppress(InputError):
            parts = list(open_rows(path).parts(3))
    if parts is None:
        return
    there = rows_of(content)
    found = [number for part in parts for number in [*part.ids, *(r.row for r in part.skipped)]]
    assert sorted(found) == there
    assert all(len(part) == 3 for part in parts[:-1])
    assert all(row.reason for part in parts for row in part.skipped)
    if whole is not None:  # what both can read they read alike
        ours = dict(zip(whole.rows, whole.smiles, strict=True))
        for part in parts:
            assert all(
                ours[n] == s for n, s in zip(part.ids, part.smiles, strict=True) if n in ours
            )
