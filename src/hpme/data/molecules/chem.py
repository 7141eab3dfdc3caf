"""SMILES to flat arrays with RDKit, in this process or in several."""

from __future__ import annotations

import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, fields
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from hpme.errors import HPMEError, InputError, optional_module
from hpme.progress import progress_bar

ATOMS = ("C", "N", "O", "S", "F", "P", "Cl", "Br", "Na", "Ca", "I", "B", "H", "*")
"""Elements in the order of the node features; ``*`` is any other."""
BONDS = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC", "UNSPECIFIED")
"""Bond types in the order of the edge features; the last is any other."""
CHUNK = 1_000
PARALLEL_FROM = 10_000
"""Molecules from which on several processes pay for their start."""
MAX_MATCHES = 100_000
"""Matches of one pattern in one molecule; RDKit's own limit of 1,000 would cut polymers short."""

Array = npt.NDArray[Any]
TYPES: dict[str, Any] = {
    "atom": np.uint8,
    "bond_type": np.uint8,
    "bond": np.int32,
    "match": np.int32,
    "contribution": np.float64,
    "reasons": object,
}
"""Columns of :class:`MoleculeArrays` that are not of 64-bit integers."""


def rdkit_module(name: str) -> Any:
    """A module of RDKit, imported when it is first needed."""
    return optional_module(f"rdkit.{name}", "molecules need RDKit ({error})", "chem")


@dataclass(frozen=True)
class Reading:
    """How molecules are read; plain values, since it travels to other processes."""

    smarts: tuple[str, ...] = ()
    hydrogens: bool = False
    contributions: bool = False  # of every atom to logP, by Crippen


@dataclass(frozen=True)
class MoleculeArrays:
    """Molecules laid end to end; atoms and matches are numbered from each molecule's first."""

    number: Array  # positions in the input
    sizes: Array
    bond_counts: Array
    match_counts: Array
    atom: Array  # positions in ATOMS
    bond: Array
    bond_type: Array  # positions in BONDS
    match: Array  # a row of atom, match and pattern for every atom of a match
    contribution: Array
    failed: Array  # positions in the input of those that cannot be read
    reasons: Array

    @classmethod
    def join(cls, parts: Sequence[MoleculeArrays]) -> MoleculeArrays:
        """The molecules of several parts in a row."""
        columns = {f.name: [getattr(part, f.name) for part in parts] for f in fields(cls)}
        return cls(**{name: np.concatenate(values) for name, values in columns.items()})


def compile_smarts(smarts: Sequence[str]) -> list[Any]:
    """Patterns of SMARTS strings, or an :class:`InputError` that names the one that is none."""
    chem, base = rdkit_module("Chem"), rdkit_module("rdBase")
    with base.BlockLogs():
        patterns = [chem.MolFromSmarts(text) if text.strip() else None for text in smarts]
    for text, pattern in zip(smarts, patterns, strict=True):
        if pattern is None or pattern.GetNumAtoms() == 0:
            raise InputError(f"'{text}' is no SMARTS pattern; an example of one is '[CX3]=O'")
    return patterns


def check_rules(rules: Mapping[str, str]) -> None:
    """Raises :class:`InputError` naming the first rule that is no SMARTS pattern."""
    for name, smarts in rules.items():
        try:
            compile_smarts([smarts])
        except InputError as error:
            raise InputError(f"rule '{name}': {error}") from error


def written(molecule: Any) -> tuple[str, list[int]]:
    """SMILES of a molecule, and its atoms in the order in which they are written."""
    smiles = rdkit_module("Chem").MolToSmiles(molecule)
    known = molecule.GetPropsAsDict(includePrivate=True, includeComputed=True)
    return smiles, list(known["_smilesAtomOutputOrder"])


def read_molecule(smiles: str, *, hydrogens: bool = False) -> Any:
    """RDKit's molecule of a SMILES string; its atoms are numbered like the nodes of the graph."""
    with rdkit_module("rdBase").BlockLogs():  # a failure is reported by the caller, with its row
        return parse(rdkit_module("Chem"), smiles, hydrogens)


def parse(chem: Any, smiles: str, hydrogens: bool) -> Any:
    """RDKit's molecule of a SMILES string; RDKit's own messages are not kept back."""
    smiles = smiles.strip()
    if len(smiles.split(None, 1)) > 1:
        # RDKit would read what comes before it, and take the rest for a name
        raise InputError("a blank inside the SMILES; names belong into a column of their own")
    molecule = chem.MolFromSmiles(smiles)
    if molecule is None:
        raw = chem.MolFromSmiles(smiles, sanitize=False)
        problems = [] if raw is None else chem.DetectChemistryProblems(raw)
        raise InputError(problems[0].Message() if problems else "not valid SMILES")
    if molecule.GetNumAtoms() == 0:
        raise InputError("no atoms")
    return chem.AddHs(molecule) if hydrogens else molecule


def read_chunk(smiles: Sequence[str], first: int, how: Reading) -> MoleculeArrays:
    """Reads some molecules, the first of which has the given position in the input."""
    chem = rdkit_module("Chem")
    patterns = compile_smarts(how.smarts)
    kinds = {getattr(chem.BondType, name): code for code, name in enumerate(BONDS)}
    elements = np.full(256, len(ATOMS) - 1, dtype=np.uint8)
    for code, symbol in enumerate(ATOMS[:-1]):
        elements[chem.GetPeriodicTable().GetAtomicNumber(symbol)] = code
    rows: dict[str, list[Any]] = {column.name: [] for column in fields(MoleculeArrays)}
    with rdkit_module("rdBase").BlockLogs():  # failures are listed
        for position, text in enumerate(smiles, first):
            try:
                molecule = parse(chem, text, how.hydrogens)
            except InputError as error:
                rows["failed"].append(position)
                rows["reasons"].append(str(error))
                continue
            # RDKit's own iterators are slow.
            atoms = list(map(molecule.GetAtomWithIdx, range(molecule.GetNumAtoms())))
            bonds = list(map(molecule.GetBondWithIdx, range(molecule.GetNumBonds())))
            rows["number"].append(position)
            rows["sizes"].append(len(atoms))
            rows["bond_counts"].append(len(bonds))
            rows["atom"] += [atom.GetAtomicNum() for atom in atoms]
            rows["bond"] += [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in bonds]
            rows["bond_type"] += [kinds.get(bond.GetBondType(), len(BONDS) - 1) for bond in bonds]
            table = matches(molecule, patterns)
            rows["match"] += table
            rows["match_counts"].append(len(table))
            if how.contributions:
                found = rdkit_module("Chem.rdMolDescriptors")._CalcCrippenContribs(molecule)
                rows["contribution"] += [pair[0] for pair in found]
    arrays = {name: np.array(rows[name], TYPES.get(name, np.int64)) for name in rows}
    arrays["atom"] = elements[arrays["atom"]]
    arrays |= {name: arrays[name].reshape(-1, width) for name, width in (("bond", 2), ("match", 3))}
    return MoleculeArrays(**arrays)


def matches(molecule: Any, patterns: Sequence[Any]) -> list[tuple[int, int, int]]:
    """Rows ``(atom, match, pattern)`` of the match table."""
    found = [
        (number, match)
        for number, pattern in enumerate(patterns)
        for match in molecule.GetSubstructMatches(pattern, maxMatches=MAX_MATCHES)
    ]
    return [(atom, i, number) for i, (number, match) in enumerate(found) for atom in match]


def read_molecules(
    smiles: Sequence[str],
    how: Reading,
    *,
    workers: int | None = None,
    stop_on_failure: bool = False,
    progress: bool = True,
) -> MoleculeArrays:
    """Reads molecules in chunks; by default many are read in one process per processor."""
    compile_smarts(how.smarts)
    if not smiles:
        raise InputError("no molecules: the list is empty, or the file has no row below its header")
    if workers is not None and workers < 1:
        raise InputError(f"workers must be at least 1, got {workers}")
    if workers is None:
        workers = _processors() if len(smiles) >= PARALLEL_FROM else 1
    workers = min(workers, -(-len(smiles) // CHUNK))
    first = range(0, len(smiles), CHUNK)
    chunks = [smiles[i : i + CHUNK] for i in first]
    spread = map if workers == 1 else partial(_in_processes, workers)
    parts: list[MoleculeArrays] = []
    with progress_bar("reading molecules", len(smiles), enabled=progress) as advance:
        for part in spread(read_chunk, chunks, first, repeat(how)):
            parts.append(part)
            advance(len(part.number) + len(part.failed))
            if stop_on_failure and len(part.failed):
                break
    return MoleculeArrays.join(parts)


def _in_processes(
    workers: int, read: Callable[..., MoleculeArrays], *chunks: Iterable[Any]
) -> Iterator[MoleculeArrays]:
    """As ``map``, in several processes."""
    # As in PyTorch's loaders: where fork is safe, a script needs no guard around its main part and
    # the children need not import everything again. They run RDKit alone, no threads of ours.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This process .* is multi-threaded")
            results = pool.map(read, *chunks)
        yield from results
    except BrokenProcessPool as error:
        raise HPMEError(
            "a process that read molecules died, perhaps for lack of memory; try workers=1"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):  # what this process may use, not what the machine has
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
