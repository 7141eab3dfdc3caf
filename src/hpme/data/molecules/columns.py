"""Tables of SMILES: their columns, the rows that are left out, and what labels mean."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hpme.data.info import TaskKind
from hpme.errors import InputError
from hpme.storage import write_atomically
from hpme.text import one_line, write_csv

OPEN_QUOTE = "a quote that is opened is not closed on the same line; double it, or remove it"
SKIPPED = ("row", "smiles", "reason")
"""Columns of a list of rows that are left out."""


@dataclass(frozen=True)
class SkippedRow:
    """A row that is not in the dataset, and why."""

    row: int  # its position in the list, from 0, or its line in the file, from 1
    smiles: str
    reason: str

    def __str__(self) -> str:
        shown = self.smiles if len(self.smiles) <= 80 else self.smiles[:77] + "..."
        return one_line(f"row {self.row}, '{shown}': {self.reason}")


def write_skipped(path: str | Path, skipped: Sequence[SkippedRow]) -> None:
    """Lists rows that are left out in a CSV file: row, SMILES, reason."""
    text = io.StringIO(newline="")
    write_csv(text, SKIPPED, (astuple(row) for row in skipped))
    write_atomically(Path(path), text.getvalue().encode())


@dataclass(frozen=True)
class SmilesColumns:
    """What a table says about molecules."""

    smiles: list[str]  # one string per molecule
    rows: Sequence[int]  # what to call the rows in messages
    labels: list[Any] | None = None  # one label per molecule, if there are any
    names: list[str] | None = None  # one name per molecule, if there are any


def read_columns(
    path: Path,
    smiles_column: str = "smiles",
    label_column: str | None = None,
    name_column: str | None = None,
    *,
    size: int | None = None,
) -> SmilesColumns:
    """Columns of a CSV file, as :func:`from_smiles_csv` reads it."""
    columns = [smiles_column, *(c for c in (label_column, name_column) if c is not None)]
    values: list[list[str]] = [[] for _ in columns]
    lines: list[int] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = _rows(file, "\t" if path.suffix.lower() == ".tsv" else ",")
            places = positions(next(rows, (1, []))[1], columns, path)
            for line, row in itertools.islice((item for item in rows if item[1]), size):
                lines.append(line)
                for column, position in zip(values, places, strict=True):
                    column.append(row[position] if position < len(row) else "")
                    if "\n" in column[-1] or "\r" in column[-1]:
                        raise csv.Error(f"row {line}: {OPEN_QUOTE}")
    except FileNotFoundError as error:
        raise InputError(f"no file '{path}'; check the path") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"'{path}' cannot be read as CSV in UTF-8: {error}") from error
    found: dict[str | None, list[str]] = dict(zip(columns, values, strict=True))
    return SmilesColumns(
        found[smiles_column], lines, found.get(label_column), found.get(name_column)
    )


def _rows(file: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Rows of a table and the lines they begin on."""
    reader = csv.reader(file, delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise csv.Error(f"row {line}: {why(error, reader.line_num - line)}") from error
        if row is None:
            return
        yield line, row


def why(error: csv.Error, lines: int = 0) -> str:
    """What is wrong with a row that goes on for further ``lines``."""
    long = not lines and "field larger" in str(error)
    return f"a field has more than {csv.field_size_limit():,} letters" if long else OPEN_QUOTE


def positions(header: Sequence[str], columns: Sequence[str], path: Path) -> list[int]:
    """Where columns of a table stand; an :class:`InputError` names one it lacks or has twice."""
    names = [name.strip() for name in header]
    for column in columns:
        if column not in names:
            shown = one_line(", ".join(names)) or "none, the file is empty"
            raise InputError(
                f"'{path}' has no column '{column}'; its columns: {shown}; name another, such as "
                "with --smiles-column, or add a line with the names of the columns"
            )
        if names.count(column) > 1:
            raise InputError(f"'{path}' has two columns '{column}'; rename or remove one of them")
    return [names.index(column) for column in columns]


MAX_CLASSES = 100
"""More different labels than this are taken for numbers by mistake."""
MISSING = {"nan", "na", "n/a", "#n/a", "<na>", "none", "null", "inf", "infinity"}
"""What tables write where there is no label, in small letters and without sign."""


@dataclass(frozen=True)
class Labels:
    """Labels as numbers."""

    task: TaskKind
    values: list[float | int | None]  # a number or that of a class; None if there is none
    classes: list[str]

    @classmethod
    def read(cls, labels: Sequence[Any], task: TaskKind | None) -> Labels:
        """Labels as a table gives them; without a ``task``, decimals mean regression."""
        texts = [_text(label) for label in labels]
        numbers = [_number(text) for text in texts]
        if task is None:
            decimals = any(number is not None and number % 1 for number in numbers)
            task = "regression" if decimals else "classification"
        if task == "regression":
            return cls(task, [*numbers], [])
        names = [  # '1' and '1.0' are one class, also among words
            text if number is None else f"{number:.15g}"
            for text, number in zip(texts, numbers, strict=True)
        ]
        numeric = all(n is not None for n, t in zip(numbers, texts, strict=True) if t is not None)
        present = sorted(
            {name for name in names if name is not None}, key=float if numeric else str
        )
        if len(present) > MAX_CLASSES:
            raise InputError(
                f"{len(present):,} different labels are too many for classes; for numbers to be "
                "predicted, choose the task 'regression'"
            )
        code = {name: number for number, name in enumerate(present)}
        return cls(task, [None if name is None else code[name] for name in names], present)

    def problems(self) -> dict[int, str]:
        """What is wrong with the rows that have no usable label, by their positions."""
        why = "no label" if self.task == "classification" else "its label is no finite number"
        return {number: why for number, value in enumerate(self.values) if value is None}

    def tensor(self, ids: Sequence[int]) -> Tensor:
        """The labels of some rows, all of which have one."""
        kind = torch.long if self.task == "classification" else torch.float
        return torch.tensor([self.values[i] for i in ids], dtype=kind)


def _text(label: Any) -> str | None:
    """A label as text, ``None`` if it is missing; numbers of any type are read as Python's."""
    if label is None:
        return None
    if hasattr(label, "item"):  # of NumPy or PyTorch
        label = label.item()
    text = str(int(label) if isinstance(label, bool) else label).strip()
    return None if not text or text.lower().lstrip("+-") in MISSING else text


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None
