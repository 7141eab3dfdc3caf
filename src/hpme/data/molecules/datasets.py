"""Benzene, Alkane-Carbonyl, Fluoride-Carbonyl and Crippen, rebuilt from their SMILES files."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import torch

from hpme.data.dataset import draw
from hpme.data.info import PAPER, PUBLISHED, DataFile, entry
from hpme.data.molecules.chem import MoleculeArrays, Reading, read_molecules
from hpme.data.molecules.molgraph import flatten_molecules, with_contributions
from hpme.errors import InputError, StorageError
from hpme.graphs import GraphStore

NAMED, DOWNSAMPLED = "named", "downsampled"
FOLDER = "molecules"
REPOSITORY = (
    "https://raw.githubusercontent.com/google-research/graph-attribution/"
    "03e7495379df26a21395b25c6a14d92dc27fc3b0"
)
RING, ALKANE, FLUORIDE = "a benzene ring", "alkane AND carbonyl", "fluoride AND carbonyl"
CARBONYL_SMARTS = "[CX3]=O"
FRAGMENTS = {
    RING: ("c1ccccc1",),
    ALKANE: ("[R0;D2,D1][R0;D2][R0;D2,D1]", CARBONYL_SMARTS),
    FLUORIDE: ("[FX1]", CARBONYL_SMARTS),
}
"""SMARTS of the fragments of every rule; an alkane is three atoms of an unbranched chain."""
NEGATIVES_PER_POSITIVE = 2
CONTRIBUTION_SHARE = 0.7


def _files(name: str, sha256: str) -> tuple[DataFile]:
    file = f"{name}_smiles.csv"
    return (DataFile(file, FOLDER, REPOSITORY, f"data/{name}/{file}", sha256),)


def build_by_rule(
    rules: Mapping[str, str], variant: str, seed: int, size: int, path: Path
) -> GraphStore:
    """Molecules labelled 1 if all fragments of the variant's rule occur, which are the truth.

    ``"downsampled"`` keeps all positives and twice as many negatives, drawn with the seed.
    """
    store, _ = _read(path, "mol_id", size, Reading(FRAGMENTS[rules[variant]]))
    if variant != DOWNSAMPLED:
        return store
    y = store.graph["y"]
    positive, negative = y.nonzero().view(-1), (y == 0).nonzero().view(-1)
    kept = draw(negative, seed, NEGATIVES_PER_POSITIVE * len(positive))
    return store.subset(torch.cat([positive, kept]).sort().values)


def build_crippen(variant: str, seed: int, size: int, path: Path) -> GraphStore:
    """Molecules with their hydrogens, labelled with Crippen's logP; ``"paper"`` ranks bonds."""
    how = Reading(hydrogens=True, contributions=True)
    store, molecules = _read(path, "Compound ID", size, how)
    contribution, directed = torch.from_numpy(molecules.contribution), variant == PUBLISHED
    return with_contributions(store, contribution, share=CONTRIBUTION_SHARE, directed=directed)


def _read(
    path: Path, name_column: str, size: int, how: Reading
) -> tuple[GraphStore, MoleculeArrays]:
    """The first molecules of a published file."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [(row[name_column], row["smiles"]) for row in csv.DictReader(file)]
    except (OSError, KeyError, csv.Error) as error:
        raise StorageError(f"'{path}' cannot be read: {error}; remove it and try again") from error
    if size > len(rows):
        raise InputError(f"'{path.name}' has {len(rows):,} molecules, fewer than {size:,}")
    names, smiles = map(list, zip(*rows[:size], strict=True))
    molecules = read_molecules(smiles, how, workers=1, progress=False)
    text = {"smiles": smiles, "name": names}
    return flatten_molecules(molecules, len(how.smarts), text), molecules


BENZENE_RULES = dict.fromkeys((PAPER, PUBLISHED), RING)
ALKANE_RULES = {PUBLISHED: FLUORIDE, NAMED: ALKANE, DOWNSAMPLED: FLUORIDE}
FLUORIDE_RULES = {PUBLISHED: ALKANE, NAMED: FLUORIDE}

INFOS = (
    entry(
        "Benzene",
        "molecule; has a benzene ring (1) or not (0)",
        partial(build_by_rule, BENZENE_RULES),
        num_classes=2,
        num_graphs=12_000,
        files=_files("benzene", "aa52389639d0989dc5bb726c364fbc38ed520468d6606d67679d24b7e6720a28"),
        rules=BENZENE_RULES,
    ),
    entry(
        "Alkane-Carbonyl",
        "molecule; published labels: fluoride AND carbonyl; named: alkane AND carbonyl",
        partial(build_by_rule, ALKANE_RULES),
        num_classes=2,
        num_graphs=4_326,
        variants=tuple(ALKANE_RULES),
        files=_files("logic7", "7915107a397240cec3daf027d713db2bed107d19d9d941b6d36a4a334a5dfae8"),
        rules=ALKANE_RULES,
    ),
    entry(
        "Fluoride-Carbonyl",
        "molecule; published labels: alkane AND carbonyl; named: fluoride AND carbonyl",
        partial(build_by_rule, FLUORIDE_RULES),
        num_classes=2,
        num_graphs=8_671,
        variants=tuple(FLUORIDE_RULES),
        files=_files("logic8", "7c4d1863a2f6a026ef3dafc4c7f54519cdd75aa15ea1f298b08e64fa3b75d11d"),
        rules=FLUORIDE_RULES,
    ),
    entry(
        "Crippen",
        "molecule with its hydrogens; logP by Crippen's atom contributions",
        build_crippen,
        num_graphs=1_127,
        files=_files("crippen", "fb48ad52d320d2b39977c76073a788d172955d0e0ade44bc10087a08b724ddf0"),
        rules=dict.fromkeys((PAPER, PUBLISHED), "sum of Crippen's atom contributions (logP)"),
    ),
)
