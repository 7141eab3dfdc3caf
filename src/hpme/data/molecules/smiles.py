"""Anybody's molecules as a dataset: SMILES, labels, and ground truth by SMARTS rules."""

from __future__ import annotations

import csv
import io
import itertools
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from hpme.data.dataset import GraphDataset
from hpme.data.info import DatasetInfo, GraphStats, TaskKind
from hpme.data.molecules.chem import Reading, check_rules, read_molecules
from hpme.data.molecules.labels import Labels
from hpme.data.molecules.molgraph import flatten_molecules
from hpme.errors import InputError
from hpme.graphs import GraphStore
from hpme.storage import write_atomically
from hpme.text import one_line

OnError = Literal["skip", "raise"]
VARIANT = "smiles"
SHOWN = 5
"""Skipped rows that the warning names; the dataset lists all."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SkippedRow:
    """A row that is not in the dataset.

    Args:
        row: Its position in the list, from 0, or its line in the file, from 1.
        smiles: The SMILES it gave.
        reason: What is wrong with it.
    """

    row: int
    smiles: str
    reason: str

    def __str__(self) -> str:
        shown = self.smiles if len(self.smiles) <= 80 else self.smiles[:77] + "..."
        return f"row {self.row}, '{shown}': {self.reason}"


class SmilesDataset(GraphDataset):
    """Molecules of :func:`from_smiles`; graphs carry ``smiles`` and, if given, ``name``.

    Args:
        store: The graphs.
        info: What the dataset is.
        skipped: Rows that are not in it.
    """

    def __init__(self, store: GraphStore, info: DatasetInfo, skipped: Sequence[SkippedRow]) -> None:
        super().__init__(store, info, VARIANT, 0)
        self.skipped = tuple(skipped)

    def write_skipped(self, path: str | Path) -> None:
        """Lists the rows that are not in the dataset in a CSV file: row, SMILES, reason."""
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(["row", "smiles", "reason"])
        writer.writerows([row.row, row.smiles, row.reason] for row in self.skipped)
        write_atomically(Path(path), text.getvalue().encode())


def from_smiles(
    smiles: Iterable[str],
    labels: Iterable[Any] | None = None,
    rules: Mapping[str, str] | None = None,
    *,
    names: Iterable[str] | None = None,
    task: TaskKind | None = None,
    on_error: OnError = "skip",
    hydrogens: bool = False,
    workers: int | None = None,
    progress: bool = True,
    title: str = "molecules",
    rows: Sequence[int] | None = None,
) -> SmilesDataset:
    """Makes a dataset of molecules, with the features of the built-in ones.

    The ground truth of a molecule in which every rule matches is all atoms of all matches; other
    molecules have none. Without labels the label is whether every rule matches. Molecules with
    ground truth are explained; if there are none, all are, and AUC is undefined.

    Args:
        smiles: One string per molecule. Salts and single atoms are fine. Hydrogens, even those the
            string spells out, become nodes only with ``hydrogens``.
        labels: One label per molecule: numbers, or names of classes.
        rules: SMARTS patterns by name, such as ``{"carbonyl": "[CX3]=O"}``.
        names: One name per molecule, for captions.
        task: ``"classification"`` or ``"regression"``; by default regression if some label is a
            number with decimals.
        on_error: ``"skip"`` leaves out molecules that cannot be read and those without a label,
            says so, and lists them in ``skipped``; ``"raise"`` stops at the first.
        hydrogens: Whether hydrogens become nodes.
        workers: Number of processes; by default one for few molecules, else one per processor.
            Outside Linux, a script that uses several must guard its main part with
            ``if __name__ == "__main__"``.
        progress: Whether to draw a progress bar (on terminals only).
        title: Name of the dataset.
        rows: What to call the rows in messages; by default their positions from 0.

    Raises:
        InputError: If lengths differ, a rule is no SMARTS pattern, or nothing is left.
        MissingPackageError: If RDKit is not installed.
    """
    smiles, rules = list(smiles), dict(rules or {})
    rows = range(len(smiles)) if rows is None else rows
    given = {
        "labels": None if labels is None else list(labels),
        "names": None if names is None else list(names),
        "rows": rows,
    }
    _check(smiles, given, rules, task, on_error)
    label = None if given["labels"] is None else Labels.read(given["labels"], task)
    bad: dict[int, str] = {}
    if label is not None:
        bad = {i: label.problem for i, value in enumerate(label.values) if value is None}
    arrays = read_molecules(
        smiles,
        Reading(tuple(rules.values()), hydrogens),
        workers=workers,
        stop_on_failure=on_error == "raise",
        progress=progress,
    )
    bad.update(zip(arrays.failed.tolist(), arrays.reasons.tolist(), strict=True))
    skipped = [SkippedRow(rows[i], smiles[i], bad[i]) for i in sorted(bad)]
    if skipped and on_error == "raise":
        raise InputError(str(skipped[0]))
    read = arrays.number.tolist()
    text = {"smiles": [smiles[i] for i in read]}
    if given["names"] is not None:
        text["name"] = [one_line(str(given["names"][i])) for i in read]
    store = flatten_molecules(arrays, len(rules), text)
    if label is not None:
        kept = torch.tensor([k for k, i in enumerate(read) if i not in bad], dtype=torch.long)
        store = store.subset(kept) if len(kept) < len(read) else store
        y = label.tensor([i for i in read if i not in bad])
        store = store.with_attributes(graph={"y": y})
    if not len(store):
        raise InputError(f"none of the {len(smiles):,} rows can be used; {skipped[0]}")
    if skipped:
        _warn(skipped, len(smiles))
    return SmilesDataset(store, _info(title, len(store), rules, label), skipped)


def from_smiles_csv(
    path: str | Path,
    *,
    smiles_column: str = "smiles",
    label_column: str | None = None,
    name_column: str | None = None,
    size: int | None = None,
    task: TaskKind = "classification",
    **options: Any,
) -> SmilesDataset:
    """:func:`from_smiles` of a CSV file with a header (``.tsv``: separated by tabs).

    Args:
        path: The file, in UTF-8.
        smiles_column: Column of the SMILES.
        label_column: Column of the labels.
        name_column: Column of the names.
        size: Number of rows to read; by default all.
        task: ``"classification"`` or ``"regression"``.
        options: Other arguments of :func:`from_smiles`. Rows are named by their line in the file.

    Raises:
        InputError: If the file cannot be read or lacks a column.
    """
    path = Path(path)
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
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"'{path}' cannot be read as CSV in UTF-8: {error}") from error
    found = dict(zip(columns, values, strict=True))
    return from_smiles(
        found[smiles_column],
        None if label_column is None else found[label_column],
        names=None if name_column is None else found[name_column],
        task=task,
        title=path.stem,
        rows=lines,
        **options,
    )


OPEN_QUOTE = "a quote that is opened is not closed on the same line; double it, or remove it"


def _rows(file: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Rows of a table and the lines they begin on.

    Raises:
        csv.Error: If a quote is not closed; the message names the row.
    """
    reader = csv.reader(file, delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise csv.Error(f"row {line}: {OPEN_QUOTE} ({error})") from error
        if row is None:
            return
        yield line, row


def positions(header: Sequence[str], columns: Sequence[str], path: Path) -> list[int]:
    """Where the columns of a table stand; an :class:`InputError` names one that it lacks."""
    names = [name.strip() for name in header]
    for column in columns:
        if column not in names:
            raise InputError(
                f"'{path}' has no column '{column}'; its columns: {', '.join(names) or 'none'}"
            )
    return [names.index(column) for column in columns]


def _check(
    smiles: Sequence[str],
    given: Mapping[str, Any],
    rules: Mapping[str, str],
    task: TaskKind | None,
    on_error: OnError,
) -> None:
    for name, values in given.items():
        if values is not None and len(values) != len(smiles):
            raise InputError(f"{len(smiles)} molecules need as many {name}, got {len(values)}")
    if on_error not in get_args(OnError):
        raise InputError(f"on_error must be 'skip' or 'raise', got {on_error!r}")
    if task is not None and task not in get_args(TaskKind):
        raise InputError(f"task must be 'classification' or 'regression', got {task!r}")
    if given["labels"] is None and not rules:
        raise InputError("labels, or rules to label by, are needed")
    if given["labels"] is None and task == "regression":
        raise InputError("regression needs labels; rules give classes")
    for i, text in enumerate(smiles):
        if not isinstance(text, str):
            raise InputError(f"row {given['rows'][i]} is no text but {type(text).__name__}")
    check_rules(rules)


def _explainable(stats: GraphStats) -> Tensor:
    """Molecules with ground truth; if none has any, all of them."""
    truth = stats.truth_edges > 0
    return truth if bool(truth.any()) else torch.ones_like(truth)


def _no_builder(*_: Any) -> GraphStore:
    raise InputError("a dataset of your own molecules is made by from_smiles, not by its name")


def _info(title: str, count: int, rules: Mapping[str, str], label: Labels | None) -> DatasetInfo:
    task: TaskKind = "classification" if label is None else label.task
    if label is None:
        rule = " AND ".join(rules)
    elif label.task == "regression":
        rule = "given numbers"
    else:
        rule = "given classes: " + ", ".join(
            f"{i} = {name}" for i, name in enumerate(label.classes)
        )
    return DatasetInfo(
        name=re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "molecules",
        title=title,
        task=task,
        num_classes=None if task == "regression" else max(2, len(label.classes) if label else 2),
        num_graphs=count,
        description=f"{count:,} molecules; {rule}",
        build=_no_builder,
        variants=(VARIANT,),
        explainable=_explainable,
        rules={VARIANT: rule},
    )


def _warn(skipped: Sequence[SkippedRow], count: int) -> None:
    shown = "; ".join(str(row) for row in skipped[:SHOWN])
    more = f"; and {len(skipped) - SHOWN:,} more" if len(skipped) > SHOWN else ""
    logger.warning("skipped %s of %s rows: %s%s", f"{len(skipped):,}", f"{count:,}", shown, more)
