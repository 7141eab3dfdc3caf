"""How a page draws graphs: where nodes lie, and for molecules their letters and bonds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hpme.data.molecules.chem import rdkit_module
from hpme.errors import HPMEError
from hpme.progress import progress_bar
from hpme.viz.layout import Positions, node_positions
from hpme.viz.molecules import placed_molecule

SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
SUPERSCRIPTS = str.maketrans("0123456789+-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻")

Label = tuple[str, str, bool]
"""Letters on the node, letters beside them, and whether those stand on the left."""
NO_LABEL: Label = ("", "", False)


class Bond(IntEnum):
    """How an edge is drawn; sides and wedges are seen from its first to its second node."""

    LINK = 0
    SINGLE = 1
    DOUBLE = 2
    TRIPLE = 3
    DOUBLE_LEFT = 4
    DOUBLE_RIGHT = 5
    WEDGE = 6
    WEDGE_BACK = 7
    HASH = 8
    HASH_BACK = 9


@dataclass(frozen=True)
class Drawings:
    """All graphs, nodes and edges laid end to end."""

    positions: Tensor  # [N, 2], y downwards; units differ from graph to graph
    label: Tensor  # number of every node's label in labels
    labels: list[Label]
    bond: Tensor
    molecule: Tensor


def draw_graphs(
    graphs: Sequence[Any], edges: Sequence[npt.NDArray[np.int64]], *, progress: bool = False
) -> Drawings:
    """Places all graphs; those with ``smiles`` as molecules, if RDKit is there and reads them."""
    positions: list[Positions] = []
    labels: dict[Label, int] = {NO_LABEL: 0}
    label, bond, molecules = [], [], []
    with progress_bar("drawing", len(graphs), enabled=progress) as advance:
        for graph, pairs in zip(graphs, edges, strict=True):
            molecule = _molecule_of(graph)
            molecules.append(molecule is not None)
            if molecule is None:
                positions.append(node_positions(graph.edge_index, graph.num_nodes))
                label += [0] * graph.num_nodes
                bond += [Bond.LINK] * len(pairs)
            else:
                places = _places(molecule)
                positions.append(places)
                label += [labels.setdefault(text, len(labels)) for text in _labels(molecule)]
                bond += _bonds(molecule, places, pairs)
            advance(1)
    return Drawings(
        positions=torch.from_numpy(np.concatenate(positions)),
        label=torch.tensor(label, dtype=torch.long),
        labels=list(labels),
        bond=torch.tensor([int(kind) for kind in bond], dtype=torch.long),
        molecule=torch.tensor(molecules),
    )


def _molecule_of(graph: Any) -> Any:
    smiles = graph.get("smiles")
    if not isinstance(smiles, str):
        return None
    try:
        return placed_molecule(smiles, graph.num_nodes)
    except HPMEError:  # no RDKit, or a text that is no SMILES
        return None


def _places(molecule: Any) -> Positions:
    places: Positions = np.array(molecule.GetConformer().GetPositions()[:, :2])
    return places * (1, -1)  # RDKit's y points upwards


def _labels(molecule: Any) -> list[Label]:
    places = _places(molecule)
    return [_label(atom, places) for atom in molecule.GetAtoms()]


def _label(atom: Any, places: Positions) -> Label:
    """What a chemist would write: no letter for a plain carbon, hydrogens beside other atoms."""
    neighbours = [other.GetIdx() for other in atom.GetNeighbors()]
    charge, isotope = atom.GetFormalCharge(), atom.GetIsotope()
    plain = atom.GetAtomicNum() == 6 and not (charge or isotope or atom.GetNumRadicalElectrons())
    if plain and neighbours:
        return NO_LABEL
    symbol = (str(isotope).translate(SUPERSCRIPTS) if isotope else "") + atom.GetSymbol()
    hydrogens = atom.GetTotalNumHs()
    beside = "H" * (hydrogens > 0) + (str(hydrogens).translate(SUBSCRIPTS) * (hydrogens > 1))
    if charge:
        size = "" if abs(charge) == 1 else str(abs(charge))
        beside += (size + ("+" if charge > 0 else "-")).translate(SUPERSCRIPTS)
    # Hydrogens stand where no bond goes; a charge alone always stands on the right.
    bonds = places[neighbours, 0] - places[atom.GetIdx(), 0]
    left = hydrogens and not charge and bonds.size and bonds.mean() > 0.2
    return symbol, beside, bool(left)


def _bonds(molecule: Any, places: Positions, pairs: npt.NDArray[np.int64]) -> list[Bond]:
    """How the pairs are drawn; those that are no bond of the molecule as plain links."""
    kinds = {
        frozenset((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())): _bond(molecule, bond, places)
        for bond in molecule.GetBonds()
    }
    return [kinds.get(frozenset(pair), Bond.LINK) for pair in pairs.tolist()]


def _bond(molecule: Any, bond: Any, places: Positions) -> Bond:
    chem = rdkit_module("Chem")
    kind, direction = bond.GetBondType(), bond.GetBondDir()
    forward = bond.GetBeginAtomIdx() < bond.GetEndAtomIdx()
    if direction == chem.BondDir.BEGINWEDGE:
        return Bond.WEDGE if forward else Bond.WEDGE_BACK
    if direction == chem.BondDir.BEGINDASH:
        return Bond.HASH if forward else Bond.HASH_BACK
    if kind == chem.BondType.DOUBLE:
        return _double(molecule, bond, places)
    return Bond.TRIPLE if kind == chem.BondType.TRIPLE else Bond.SINGLE


def _double(molecule: Any, bond: Any, places: Positions) -> Bond:
    """The second line lies inside a ring, else on the side of more neighbours."""
    first, second = sorted((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))
    rings = [
        list(ring)
        for ring in molecule.GetRingInfo().AtomRings()
        if first in ring and second in ring
    ]
    ends = (molecule.GetAtomWithIdx(first), molecule.GetAtomWithIdx(second))
    if rings:
        around = min(rings, key=len)
    elif min(atom.GetDegree() for atom in ends) == 1:
        return Bond.DOUBLE
    else:
        around = [other.GetIdx() for atom in ends for other in atom.GetNeighbors()]
    along, towards = places[second] - places[first], places[around] - places[first]
    side = float((along[0] * towards[:, 1] - along[1] * towards[:, 0]).sum())
    return Bond.DOUBLE if abs(side) < 1e-6 else Bond.DOUBLE_LEFT if side > 0 else Bond.DOUBLE_RIGHT
