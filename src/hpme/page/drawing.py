"""How a page draws graphs: where nodes lie, and for molecules their letters and bonds."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hpme.data.molecules.chem import rdkit_module
from hpme.graphs import GraphStore
from hpme.page.template import Column, whole_numbers
from hpme.progress import progress_bar
from hpme.viz.layout import Positions, positions_of
from hpme.viz.molecules import molecule_of

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


def draw_graphs(
    graphs: Sequence[Any], store: GraphStore, types: Tensor | None, *, progress: bool = False
) -> dict[str, Any]:
    """How the page draws all graphs, as their nodes and edges laid end to end.

    Graphs with ``smiles`` are molecules, if RDKit is there and reads them. The number of every
    node's ``label`` is one in ``labels``.
    """
    positions: list[Positions] = []
    labels: dict[Label, int] = {NO_LABEL: 0}
    label, bond, molecules = [], [], []
    pairs = store.pairs.proper
    parts = pairs.index.t().split(pairs.counts.tolist())  # type: ignore[no-untyped-call]
    with progress_bar("drawing", len(graphs), enabled=progress) as advance:
        for graph, ends in zip(graphs, parts, strict=True):
            molecule = molecule_of(graph)
            molecules.append(molecule is not None)
            if molecule is None:
                positions.append(positions_of(graph))
                label += [0] * graph.num_nodes
                bond += [Bond.LINK] * len(ends)
            else:
                # RDKit's y points upwards.
                places = np.array(molecule.GetConformer().GetPositions()[:, :2]) * (1, -1)
                positions.append(places)
                texts = [_label(atom, places) for atom in molecule.GetAtoms()]
                label += [labels.setdefault(text, len(labels)) for text in texts]
                bond += _bonds(molecule, places, ends)
            advance(1)
    everywhere = torch.from_numpy(np.concatenate(positions))
    return {
        "nodes": whole_numbers(store.sizes),
        "edges": whole_numbers(pairs.counts),
        "ends": whole_numbers(pairs.index.t().reshape(-1)),
        "type": None if types is None else whole_numbers(types),
        "places": _places(everywhere, store.node_graph, len(graphs)),
        "label": whole_numbers(torch.tensor(label, dtype=torch.long)),
        "labels": list(labels),
        "bond": whole_numbers(torch.tensor(bond, dtype=torch.long)),
        "molecule": whole_numbers(torch.tensor(molecules)),
    }


def _places(positions: Tensor, batch: Tensor, count: int) -> Column:
    """Positions as whole numbers, the longer side of every graph from 0 to 65534."""
    owner = batch.unsqueeze(1).expand_as(positions)
    bound = positions.new_zeros(count, 2)
    low = bound.scatter_reduce(0, owner, positions, "amin", include_self=False)
    high = bound.scatter_reduce(0, owner, positions, "amax", include_self=False)
    span = (high - low).amax(1, keepdim=True).clamp(min=1e-9)
    return whole_numbers(((positions - low[batch]) / span[batch] * 65534).round().reshape(-1))


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


def _bonds(molecule: Any, places: Positions, ends: Tensor) -> list[Bond]:
    """How the pairs are drawn; those that are no bond of the molecule as plain links."""
    chem, kinds = rdkit_module("Chem"), dict[tuple[int, ...], Bond]()
    ways = {
        chem.BondDir.BEGINWEDGE: (Bond.WEDGE_BACK, Bond.WEDGE),
        chem.BondDir.BEGINDASH: (Bond.HASH_BACK, Bond.HASH),
    }
    for bond in molecule.GetBonds():
        pair, kind = (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()), bond.GetBondType()
        if bond.GetBondDir() in ways:
            found = ways[bond.GetBondDir()][pair[0] < pair[1]]
        elif kind == chem.BondType.DOUBLE:
            found = _double(molecule, min(pair), max(pair), places)
        else:
            found = Bond.TRIPLE if kind == chem.BondType.TRIPLE else Bond.SINGLE
        kinds[tuple(sorted(pair))] = found
    return [kinds.get(tuple(sorted(pair)), Bond.LINK) for pair in ends.tolist()]


def _double(molecule: Any, first: int, second: int, places: Positions) -> Bond:
    """The second line lies inside a ring, else on the side of more neighbours."""
    every: list[Any] = molecule.GetRingInfo().AtomRings()
    rings = [list(ring) for ring in every if first in ring and second in ring]
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
