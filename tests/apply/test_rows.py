"""Rows of tables and of files of graphs, a part at a time."""

import pytest
import torch
from torch_geometric.data import Data

from hpme.apply import open_rows
from hpme.apply.rows import LONGEST_LINE
from hpme.data import load_graphs, save_graphs
from hpme.errors import InputError, StorageError


def test_rows_are_lines_and_bad_ones_are_listed(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(
        b'\xef\xbb\xbfname,smiles\r\n"a, b",CCO\r\n\r\nx,"C\n\xff,C\nlong,' + b"C" * LONGEST_LINE
        + b"CC\nshort\nlast,CC"
    )  # fmt: skip
    (part,) = open_rows(path, name_column="name").parts(100)
    assert part.ids == [2, 7, 8]
    assert part.smiles == ["CCO", "", "CC"]
    assert part.names == ["a, b", "short", "last"]
    assert [row.row for row in part.skipped] == [4, 5, 6]
    reasons = [row.reason for row in part.skipped]
    assert "quote" in reasons[0] and "decode" in reasons[1] and "too long" in reasons[2]
    assert all(len(row.smiles) <= 200 for row in part.skipped)


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_parts_hold_every_row_once(tmp_path, size):
    path = tmp_path / "rows.tsv"
    path.write_text("id\tsmiles\n" + "".join(f"{i}\tC\n" for i in range(7)))
    rows = open_rows(path)
    parts = list(rows.parts(size))
    assert [part.number for part in parts] == list(range(len(parts)))
    assert [i for part in parts for i in part.ids] == list(range(2, 9))
    assert all(len(part) == size for part in parts[:-1])
    assert rows.total == 7


def test_graphs_come_in_parts_as_they_were_saved(tmp_path):
    generator = torch.Generator().manual_seed(0)
    graphs = [
        Data(
            x=torch.rand(size, 3, generator=generator),
            edge_index=torch.randint(size, (2, 2 * size), generator=generator),
            edge_attr=torch.rand(2 * size, 2, generator=generator),
            y=torch.tensor([size]),
            name="g" * size,
        )
        for size in (3, 1, 4, 1, 5)
    ]
    path = tmp_path / "graphs.safetensors"
    save_graphs(path, graphs)
    parts = list(open_rows(path).parts(2))
    assert [part.ids for part in parts] == [[0, 1], [2, 3], [4]]
    found = [graph for part in parts for graph in part.store.to_data_list()]
    for ours, theirs in zip(found, load_graphs(path), strict=True):
        assert ours.keys() == theirs.keys()
        for name in theirs.keys():  # noqa: SIM118
            value = theirs[name]
            same = torch.equal(ours[name], value) if torch.is_tensor(value) else ours[name] == value
            assert same, name


def test_what_is_no_table_is_refused(tmp_path, saved):
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(
        InputError, match="has no column 'smiles'; its columns: none, the file is empty"
    ):
        open_rows(tmp_path / "empty.csv")
    with pytest.raises(InputError, match="cannot be read"):
        open_rows(tmp_path / "missing.csv")
    with pytest.raises(InputError, match=r"neither a \.csv"):
        open_rows(tmp_path / "rows.txt")
    with pytest.raises(InputError, match="columns belong to a table"):
        open_rows(saved, smiles_column="smiles")
    with pytest.raises(StorageError, match="holds no graphs"):
        open_rows(saved)
