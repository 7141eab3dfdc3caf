"""Anybody's molecules: SMILES as graphs, or as a dataset with labels and ground truth by rules."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch_geometric.utils import index_to_mask

from hpme.data.dataset import GraphDataset
from hpme.data.info import DatasetInfo, TaskKind, entry, ground_truth_or_all, made_by
from hpme.data.molecules.chem import (
    Reading,
    check_rules,
    compile_smarts,
    matches,
    parse,
    rdkit_module,
    read_molecules,
)
from hpme.data.molecules.columns import (
    Labels,
    SkippedRow,
    SmilesColumns,
    read_columns,
    write_skipped,
)
from hpme.data.molecules.molgraph import flatten_molecules, molecule_graphs
from hpme.errors import InputError
from hpme.graphs import GraphStore
from hpme.text import one_line

OnError = Literal["skip", "raise"]
VARIANT = "smiles"
SHOWN = 5
"""Skipped rows that the warning names; the dataset lists all."""

logger = logging.getLogger(__name__)


class SmilesDataset(GraphDataset):
    """Molecules of :func:`from_smiles`; graphs carry ``smiles``, perhaps ``name``."""

    def __init__(self, store: GraphStore, info: DatasetInfo, skipped: Sequence[SkippedRow]) -> None:
        super().__init__(store, info, VARIANT, 0)
        self.skipped = tuple(skipped)

    def write_skipped(self, path: str | Path) -> None:
        """Lists the rows that are not in the dataset in a CSV file: row, SMILES, reason."""
        write_skipped(path, self.skipped)


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
        title: Name of the dataset.
        rows: What to call the rows in messages; by default their positions from 0.

    Raises:
        InputError: If lengths differ, a rule is no SMARTS pattern, or nothing is left.
        MissingPackageError: If RDKit is not installed.
    """
    smiles, rules = list(smiles), dict(rules or {})
    labels, names = (None if some is None else list(some) for some in (labels, names))
    table = SmilesColumns(smiles, range(len(smiles)) if rows is None else rows, labels, names)
    _check(table, rules, task, on_error)
    label = None if table.labels is None else Labels.read(table.labels, task)
    arrays = read_molecules(
        smiles,
        Reading(tuple(rules.values()), hydrogens),
        workers=workers,
        stop_on_failure=on_error == "raise",
        progress=progress,
    )
    bad = {} if label is None else label.problems()
    bad.update(zip(arrays.failed.tolist(), arrays.reasons.tolist(), strict=True))
    skipped = _skipped(table, bad, on_error)
    read = arrays.number.tolist()
    store = flatten_molecules(arrays, len(rules), _texts(table, read))
    if label is not None:
        kept = torch.tensor([k for k, i in enumerate(read) if i not in bad], dtype=torch.long)
        store = store.subset(kept) if len(kept) < len(read) else store
        y = label.tensor([i for i in read if i not in bad])
        store = store.with_attributes(graph={"y": y})
    return SmilesDataset(store, _info(title, len(store), rules, label), skipped)


def read_smiles(
    table: SmilesColumns, *, hydrogens: bool = False, progress: bool = True
) -> tuple[GraphStore, list[SkippedRow]]:
    """:func:`from_smiles` without labels and ground truth, and the rows that are no molecules."""
    arrays = read_molecules(table.smiles, Reading(hydrogens=hydrogens), progress=progress)
    bad = dict(zip(arrays.failed.tolist(), arrays.reasons.tolist(), strict=True))
    skipped = _skipped(table, bad)
    return molecule_graphs(arrays, _texts(table, arrays.number.tolist())), skipped


def parse_smiles(
    table: SmilesColumns,
    rules: Mapping[str, str],
    *,
    task: TaskKind = "classification",
    hydrogens: bool = False,
) -> tuple[list[tuple[Any, dict[str, Any]]], list[SkippedRow]]:
    """RDKit's molecules, each with its ``smiles``, ``name``, ``y`` and ``node_mask`` as far as they
    are given, and the rows that are none."""
    chem, patterns = rdkit_module("Chem"), compile_smarts(list(rules.values()))
    label = None if table.labels is None else Labels.read(table.labels, task)
    bad = {} if label is None else label.problems()
    found: dict[int, Any] = {}
    with rdkit_module("rdBase").BlockLogs():  # failures are listed
        for number, text in enumerate(table.smiles):
            try:
                found[number] = parse(chem, text, hydrogens)
            except InputError as error:
                bad[number] = str(error)
    skipped, made = _skipped(table, bad), []
    for number in sorted(found.keys() - bad):
        known: dict[str, Any] = {k: v[0] for k, v in _texts(table, [number]).items()}
        if patterns:
            matched = matches(found[number], patterns)
            every = len({rule for _, _, rule in matched}) == len(patterns)
            inside = torch.tensor([a for a, _, _ in matched if every], dtype=torch.long)
            mask = index_to_mask(inside, found[number].GetNumAtoms())
            known |= {"y": torch.tensor([int(every)]), "node_mask": mask}
        if label is not None:
            known["y"] = label.tensor([number])
        made.append((found[number], known))
    return made, skipped


def _skipped(
    table: SmilesColumns, bad: Mapping[int, str], on_error: OnError = "skip"
) -> list[SkippedRow]:
    """Rows to leave out, which is said; an error if they are all, or none may be left out."""
    if not table.smiles:
        raise InputError("no molecules: the list is empty, or the file has no row below its header")
    skipped = [SkippedRow(table.rows[i], table.smiles[i], bad[i]) for i in sorted(bad)]
    if skipped and on_error == "raise":
        raise InputError(str(skipped[0]))
    if len(skipped) == len(table.smiles):
        raise InputError(f"none of the {len(table.smiles):,} rows can be used; {skipped[0]}")
    if skipped:
        count, rest = len(table.smiles), len(skipped) - SHOWN
        shown = "; ".join(map(str, skipped[:SHOWN])) + (f"; and {rest:,} more" * (rest > 0))
        logger.warning("skipped %s of %s rows: %s", f"{len(skipped):,}", f"{count:,}", shown)
    return skipped


def _texts(table: SmilesColumns, numbers: Sequence[int]) -> dict[str, list[str]]:
    """Texts that some molecules carry."""
    text = {"smiles": [table.smiles[i] for i in numbers]}
    if table.names is not None:
        text["name"] = [one_line(str(table.names[i])) for i in numbers]
    return text


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
        smiles_column, label_column, name_column: What stands where.
        size: Number of rows to read; by default all.
        task: ``"classification"`` or ``"regression"``.
        options: Other arguments of :func:`from_smiles`. Rows are named by their line in the file.

    Raises:
        InputError: If the file cannot be read or lacks a column.
    """
    path = Path(path)
    table = read_columns(path, smiles_column, label_column, name_column, size=size)
    known: dict[str, Any] = {"names": table.names, "title": path.stem, "rows": table.rows}
    return from_smiles(table.smiles, table.labels, task=task, **known, **options)


def _check(
    table: SmilesColumns, rules: Mapping[str, str], task: TaskKind | None, on_error: OnError
) -> None:
    count = len(table.smiles)
    for name in ("labels", "names", "rows"):
        values = getattr(table, name)
        if values is not None and len(values) != count:
            raise InputError(f"{count} molecules need as many {name}, got {len(values)}")
    if on_error not in get_args(OnError):
        raise InputError(f"on_error must be 'skip' or 'raise', got {on_error!r}")
    if task is not None and task not in get_args(TaskKind):
        raise InputError(f"task must be 'classification' or 'regression', got {task!r}")
    if table.labels is None and not rules:
        raise InputError("labels, or rules to label by, are needed")
    if table.labels is None and task == "regression":
        raise InputError("regression needs labels; rules give classes")
    for row, text in zip(table.rows, table.smiles, strict=True):
        if not isinstance(text, str):
            raise InputError(f"row {row} is no text but {type(text).__name__}")
    check_rules(rules)


def _info(title: str, count: int, rules: Mapping[str, str], label: Labels | None) -> DatasetInfo:
    classes: int | None = 2
    if label is None:
        rule = " AND ".join(rules)
    elif label.task == "regression":
        rule, classes = "given numbers", None
    else:
        named = (f"{i} = {name}" for i, name in enumerate(label.classes))
        rule, classes = "given classes: " + ", ".join(named), max(2, len(label.classes))
    info = entry(
        title,
        f"{count:,} molecules; {rule}",
        partial(made_by, "from_smiles"),
        num_classes=classes,
        num_graphs=count,
        variants=(VARIANT,),
        explainable=ground_truth_or_all,
        rules={VARIANT: rule},
    )
    return info if info.name != "graphs" else replace(info, name="molecules")
