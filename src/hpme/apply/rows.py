"""Rows to explain, a part at a time: SMILES of a table, or graphs of a file."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy.typing as npt
import torch

from hpme.data.graph_file import GraphSlices
from hpme.data.molecules.columns import SkippedRow, positions, why
from hpme.errors import InputError
from hpme.graphs import GraphStore
from hpme.graphs.transforms import from_tensors
from hpme.text import one_line

LONGEST_LINE = 1 << 20
"""Letters; what is longer is no row of SMILES, and is skipped without being read at once."""
TABLES = (".csv", ".tsv")


@dataclass(frozen=True)
class Part:
    """Rows that become one shard; plain values, since it travels to other processes.

    Args:
        number: Number of the shard.
        ids: What the rows are called: their lines in a table, their numbers in a file of graphs.
        names: Their names, if the table has any.
        smiles: Molecules, or ``None`` for graphs.
        tensors: Graphs, or ``None`` for molecules.
        skipped: Further rows that are no rows of a table at all.
    """

    number: int
    ids: list[int]
    names: list[str] | None = None
    smiles: list[str] | None = None
    tensors: dict[str, npt.NDArray[Any]] | None = None
    skipped: list[SkippedRow] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids) + len(self.skipped)

    @property
    def store(self) -> GraphStore:
        """The graphs, as they were read: not checked yet."""
        assert self.tensors is not None
        return from_tensors({name: torch.from_numpy(v) for name, v in self.tensors.items()})


def open_rows(
    path: Path, *, smiles_column: str | None = None, name_column: str | None = None
) -> SmilesTable | GraphFile:
    """The rows of a table of SMILES (``.csv``, ``.tsv``) or of a file of graphs.

    Raises:
        InputError: If it is neither, or lacks a column.
        StorageError: If it is no file of graphs.
    """
    if path.suffix.lower() in TABLES:
        return SmilesTable(path, smiles_column or "smiles", name_column)
    if path.suffix.lower() != ".safetensors":
        raise InputError(
            f"'{path}' is neither a .csv or .tsv file of SMILES nor a .safetensors file of "
            "hpme.data.save_graphs()"
        )
    if smiles_column is not None or name_column is not None:
        raise InputError(f"columns belong to a table of SMILES, not to '{path}'")
    return GraphFile(path)


class SmilesTable:
    """A table with a header and a molecule per line; it is never in memory as a whole.

    Args:
        path: The file, in UTF-8.
        smiles_column: Column of the SMILES.
        name_column: Column of names.
    """

    def __init__(self, path: Path, smiles_column: str, name_column: str | None) -> None:
        self.path, self.delimiter = path, "\t" if path.suffix.lower() == ".tsv" else ","
        self.columns = [smiles_column, *([] if name_column is None else [name_column])]
        try:
            header = self._fields(next(_lines(path), ""))
            self.digest, lines = _scanned(path)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"'{path}' cannot be read as a table in UTF-8: {error}") from error
        self.places = positions(header, self.columns, path)
        self.total = max(0, lines - 1)

    def _fields(self, line: str) -> list[str]:
        text = line.rstrip("\r\n")
        if not text.isascii():  # a stray byte was let through
            text.encode("utf-8", "surrogateescape").decode()
        if '"' not in text:
            return text.split(self.delimiter)
        return next(csv.reader([text], delimiter=self.delimiter, strict=True), [])

    def parts(self, size: int) -> Iterator[Part]:
        """All rows in order, ``size`` at a time."""
        part = self._empty(0)
        lines = enumerate(_lines(self.path), 1)
        next(lines, None)
        for number, line in lines:
            if not line.strip():
                continue
            self._add(part, number, line)
            if len(part) == size:
                yield part
                part = self._empty(part.number + 1)
        if len(part):
            yield part

    def _empty(self, number: int) -> Part:
        return Part(number, [], [] if len(self.columns) > 1 else None, smiles=[])

    def _add(self, part: Part, number: int, line: str) -> None:
        try:
            if len(line) > LONGEST_LINE:
                raise InputError("the line is too long")
            row = self._fields(line)
        except (InputError, UnicodeDecodeError, csv.Error) as error:
            reason = why(error) if isinstance(error, csv.Error) else str(error)
            part.skipped.append(SkippedRow(number, one_line(line[:200].rstrip("\r\n")), reason))
            return
        smiles, *name = (row[place] if place < len(row) else "" for place in self.places)
        assert part.smiles is not None
        part.ids.append(number)
        part.smiles.append(smiles)
        if part.names is not None:
            part.names.append(one_line(name[0]))


class GraphFile:
    """Graphs of :func:`~hpme.data.save_graphs`; it is never in memory as a whole.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._slices = GraphSlices(path)
        self.digest, self.total = self._slices.digest or _scanned(path)[0], len(self._slices)
        self.columns: list[str] = []

    def parts(self, size: int) -> Iterator[Part]:
        """All graphs in order, ``size`` at a time."""
        for number, first in enumerate(range(0, self.total, size)):
            last = min(first + size, self.total)
            tensors = self._slices.read(first, last)
            yield Part(
                number,
                list(range(first, last)),
                tensors={name: value.numpy() for name, value in tensors.items()},
            )


def _scanned(path: Path) -> tuple[str, int]:
    """SHA-256 of a file, and the number of its lines."""
    digest, lines, returns, last = hashlib.sha256(), 0, 0, b"\n"
    with path.open("rb") as file:
        while block := file.read(LONGEST_LINE):
            digest.update(block)
            lines += block.count(b"\n")
            returns += block.count(b"\r")
            last = block
    return digest.hexdigest(), (lines or returns) + (not last.endswith((b"\n", b"\r")))


def _lines(path: Path) -> Iterator[str]:
    """Lines of a file, however they end; of those that are too long the first part."""
    with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
        while line := file.readline(LONGEST_LINE + 1):
            rest = line
            while len(rest) > LONGEST_LINE and not rest.endswith(("\n", "\r")):
                rest = file.readline(LONGEST_LINE + 1)
            yield line
