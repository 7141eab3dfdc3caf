"""Benzene, Alkane-Carbonyl, Fluoride-Carbonyl and Crippen, rebuilt from their SMILES files."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from hpme.data.info import PAPER, PUBLISHED, DatasetInfo
from hpme.data.molecules.chem import Reading, read_molecules
from hpme.data.molecules.molgraph import flatten_molecules, with_contributions
from hpme.data.sources import DataFile
from hpme.errors import InputError, StorageError
from hpme.graphs import GraphStore

NAMED, DOWNSAMPLED = "named", "downsampled"
FOLDER = "molecules"
REPOSITORY = (
    "https://raw.githubusercontent.com/google-research/graph-attribution/"
    "03e7495379df26a21395b25c6a14d92dc27fc3b0"
)
SMARTS = {
    "benzene": "c1ccccc1",
    "carbonyl": "[CX3]=O",
    "fluoride": "[FX1]",
    "alkane": "[R0;D2,D1][R0;D2][R0;D2,D1]",
}
"""Fragments of the labels; an alkane is three atoms of an unbranched chain."""
NEGATIVES_PER_POSITIVE = 2
CONTRIBUTION_SHARE = 0.7


def _file(name: str, sha256: str, size: int) -> DataFile:
    file = f"{name}_smiles.csv"
    return DataFile(file, FOLDER, REPOSITORY, f"data/{name}/{file}", sha256, size)


BENZENE = _file(
    "benzene", "aa52389639d0989dc5bb726c364fbc38ed520468d6606d67679d24b7e6720a28", 1_292_715
)
LOGIC7 = _file(
    "logic7", "7915107a397240cec3daf027d713db2bed107d19d9d941b6d36a4a334a5dfae8", 242_784
)
LOGIC8 = _file(
    "logic8", "7c4d1863a2f6a026ef3dafc4c7f54519cdd75aa15ea1f298b08e64fa3b75d11d", 509_759
)
CRIPPEN = _file(
    "crippen", "fb48ad52d320d2b39977c76073a788d172955d0e0ade44bc10087a08b724ddf0", 51_258
)


def build_by_fragments(
    fragments: Callable[[str], Sequence[str]], variant: str, seed: int, size: int, path: Path
) -> GraphStore:
    """Molecules labelled 1 if all fragments of the variant's rule occur, which are the truth.

    ``"downsampled"`` keeps all positives and twice as many negatives, drawn with the seed; all
    other variants are fixed and the seed changes nothing.

    Args:
        fragments: Names of the fragments of a variant's rule.
        variant: The variant.
        seed: Seed of the negatives that are kept.
        size: Number of molecules, from the top of the file.
        path: The SMILES file.
    """
    patterns = [SMARTS[name] for name in fragments(variant)]
    names, smiles = _read(path, "mol_id", size)
    molecules = read_molecules(smiles, Reading(tuple(patterns)), workers=1, progress=False)
    store = flatten_molecules(molecules, len(patterns), {"smiles": smiles, "name": names})
    return store.subset(_downsampled(store.graph["y"], seed)) if variant == DOWNSAMPLED else store


def build_crippen(variant: str, seed: int, size: int, path: Path) -> GraphStore:
    """Molecules with their hydrogens, labelled with Crippen's logP; the seed changes nothing.

    ``"published"`` ranks directed edges, which splits the two directions of a bond in half of the
    molecules; ``"paper"`` ranks bonds.
    """
    names, smiles = _read(path, "Compound ID", size)
    how = Reading(hydrogens=True, contributions=True)
    molecules = read_molecules(smiles, how, workers=1, progress=False)
    store = flatten_molecules(molecules, 0, {"smiles": smiles, "name": names})
    return with_contributions(
        store,
        torch.from_numpy(molecules.contribution),
        share=CONTRIBUTION_SHARE,
        directed=variant == PUBLISHED,
    )


def _read(path: Path, name_column: str, size: int) -> tuple[list[str], list[str]]:
    """Names and SMILES of the first molecules of a published file."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [(row[name_column], row["smiles"]) for row in csv.DictReader(file)]
    except (OSError, KeyError, csv.Error) as error:
        raise StorageError(f"'{path}' cannot be read: {error}; remove it and try again") from error
    if size > len(rows):
        raise InputError(f"'{path.name}' has {len(rows):,} molecules, fewer than {size:,}")
    return [name for name, _ in rows[:size]], [smiles for _, smiles in rows[:size]]


def _downsampled(y: Tensor, seed: int) -> Tensor:
    positive, negative = y.nonzero().view(-1), (y == 0).nonzero().view(-1)
    order = torch.randperm(len(negative), generator=torch.Generator().manual_seed(seed))
    kept = negative[order[: NEGATIVES_PER_POSITIVE * len(positive)]]
    return torch.cat([positive, kept]).sort().values


def _benzene(_: str) -> Sequence[str]:
    return ("benzene",)


def _alkane_carbonyl(variant: str) -> Sequence[str]:
    return ("alkane" if variant == NAMED else "fluoride", "carbonyl")


def _fluoride_carbonyl(variant: str) -> Sequence[str]:
    return ("fluoride" if variant == NAMED else "alkane", "carbonyl")


ALKANE_RULE, FLUORIDE_RULE = "alkane AND carbonyl", "fluoride AND carbonyl"

INFOS = (
    DatasetInfo(
        name="benzene",
        title="Benzene",
        task="classification",
        num_classes=2,
        num_graphs=12_000,
        description="molecule; has a benzene ring (1) or not (0)",
        build=partial(build_by_fragments, _benzene),
        files=(BENZENE,),
        rules=dict.fromkeys((PAPER, PUBLISHED), "a benzene ring"),
    ),
    DatasetInfo(
        name="alkane-carbonyl",
        title="Alkane-Carbonyl",
        task="classification",
        num_classes=2,
        num_graphs=4_326,
        description="molecule; published labels: fluoride AND carbonyl; named: alkane AND carbonyl",
        build=partial(build_by_fragments, _alkane_carbonyl),
        variants=(PUBLISHED, NAMED, DOWNSAMPLED),
        files=(LOGIC7,),
        rules={PUBLISHED: FLUORIDE_RULE, NAMED: ALKANE_RULE, DOWNSAMPLED: FLUORIDE_RULE},
    ),
    DatasetInfo(
        name="fluoride-carbonyl",
        title="Fluoride-Carbonyl",
        task="classification",
        num_classes=2,
        num_graphs=8_671,
        description="molecule; published labels: alkane AND carbonyl; named: fluoride AND carbonyl",
        build=partial(build_by_fragments, _fluoride_carbonyl),
        variants=(PUBLISHED, NAMED),
        files=(LOGIC8,),
        rules={PUBLISHED: ALKANE_RULE, NAMED: FLUORIDE_RULE},
    ),
    DatasetInfo(
        name="crippen",
        title="Crippen",
        task="regression",
        num_classes=None,
        num_graphs=1_127,
        description="molecule with its hydrogens; logP by Crippen's atom contributions",
        build=build_crippen,
        files=(CRIPPEN,),
        rules=dict.fromkeys((PAPER, PUBLISHED), "sum of Crippen's atom contributions (logP)"),
    ),
)
