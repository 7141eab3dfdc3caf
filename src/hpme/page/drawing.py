"""A page as one HTML file, and how it draws graphs: places of nodes, letters and bonds."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from enum import IntEnum
from importlib import resources
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from hpme.data.molecules.chem import rdkit_module
from hpme.graphs import GraphStore
from hpme.progress import progress_bar
from hpme.viz.molecules import molecule_of
from hpme.viz.nodelink import Positions, positions_of

SCRIPTS = (
    *("data.js", "elements.js", "drawing.js", "chart.js", "saving.js", "proof.js", "evidence.js"),
    *("trust.js", "card.js", "rules.js", "beyond.js", "page.js"),
)
NOT_A_NUMBER = 65535
"""What stands for NaN in a column of shares; the others are 0 to 65534."""

Column = dict[str, Any]
"""Numbers as JSON: ``type``, ``data`` in base64, and ``low`` and ``high`` if they are shares."""
_TYPES: dict[str, Any] = {"u8": "<u1", "u16": "<u2", "u32": "<u4", "f32": "<f4"}


def render(data: dict[str, Any]) -> str:
    """The page. The browser runs its own script, whose digest it is told, and no other."""
    style = _read("page.css")
    script = "\n".join(_read(name) for name in SCRIPTS)
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    parts = {
        "title": html.escape(data["title"]),
        "policy": html.escape(policy, quote=True).replace("&#x27;", "'"),
        "style": style,
        "script": script,
        # May stand inside a script element whatever texts it holds; JSON escapes all but ASCII.
        "data": re.sub("[<>&]", lambda letter: f"\\u{ord(letter[0]):04x}", text),
    }
    # One pass, so that a title or name which looks like a placeholder stays what it is.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _read("page.html"))


def whole_numbers(values: Tensor) -> Column:
    """A column of numbers from 0 on, in as few bytes as they need."""
    largest = int(values.max()) if values.numel() else 0
    return _column(values, "u8" if largest < 2**8 else "u16" if largest < 2**16 else "u32")


def decimals(values: Tensor) -> Column:
    """A column of numbers in single precision, NaN among them."""
    return _column(values, "f32")


def shares(values: Tensor, low: float, high: float) -> Column:
    """A column of numbers between two bounds in steps of 1/65534 of their distance, or NaN."""
    span = high - low if high > low else 1.0
    level = ((values.double().clamp(low, high) - low) / span * (NOT_A_NUMBER - 1)).round()
    column = _column(level.nan_to_num(nan=NOT_A_NUMBER), "u16")
    return {**column, "low": low, "high": low + span}


def _column(values: Tensor, kind: Literal["u8", "u16", "u32", "f32"]) -> Column:
    array = values.detach().cpu().contiguous().to(torch.float64).numpy().astype(_TYPES[kind])
    return {"type": kind, "data": base64.b64encode(np.ascontiguousarray(array).data).decode()}


def _read(name: str) -> str:
    return (resources.files("hpme.page") / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


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
    """How the page draws all graphs, as their nodes and edges laid end to end."""
    positions: list[Positions] = []
    labels: dict[Label, int] = {NO_LABEL: 0}
    label, bond, molecules = [], [], []
    pairs = store.pairs.proper
    ends, last = pairs.index.t().tolist(), 0
    with progress_bar("drawing", len(graphs), enabled=progress) as advance:
        for graph, count in zip(graphs, pairs.counts.tolist(), strict=True):
            first, last = last, last + count
            molecule = molecule_of(graph)
            molecules.append(molecule is not None)
            if molecule is None:
                positions.append(positions_of(graph))
                label += [0] * graph.num_nodes
                bond += [Bond.LINK] * count
            else:
                # RDKit's y points upwards.
                positions.append(molecule.GetConformer().GetPositions()[:, :2] * (1, -1))
                texts, kinds = _written(molecule, *positions[-1].T.tolist())
                label += [labels.setdefault(text, len(labels)) for text in texts]
                # Pairs that are no bond of the molecule are plain links.
                bond += [kinds.get((a, b), Bond.LINK) for a, b in ends[first:last]]
            advance(1)
    everywhere, batch = torch.from_numpy(np.concatenate(positions)), store.node_graph
    owner, bound = batch.unsqueeze(1).expand_as(everywhere), everywhere.new_zeros(len(graphs), 2)
    low = bound.scatter_reduce(0, owner, everywhere, "amin", include_self=False)
    high = bound.scatter_reduce(0, owner, everywhere, "amax", include_self=False)
    span = (high - low).amax(1, keepdim=True).clamp(min=1e-9)
    return {
        "nodes": whole_numbers(store.sizes),
        "edges": whole_numbers(pairs.counts),
        "ends": whole_numbers(pairs.index.t().reshape(-1)),
        "type": None if types is None else whole_numbers(types),
        # As whole numbers, the longer side of every graph from 0 to 65534.
        "places": whole_numbers(((everywhere - low[batch]) / span[batch] * 65534).round().view(-1)),
        "label": whole_numbers(torch.tensor(label, dtype=torch.long)),
        "labels": list(labels),
        "bond": whole_numbers(torch.tensor(bond, dtype=torch.long)),
        "molecule": whole_numbers(torch.tensor(molecules)),
        "molecules": all(molecules),
    }


def _written(
    molecule: Any, x: list[float], y: list[float]
) -> tuple[list[Label], dict[tuple[int, int], Bond]]:
    """Letters of all atoms, and how bonds are drawn, those from lower to higher atoms."""
    # RDKit's iterators are slow, and so are arrays of a few numbers.
    bonds = [
        (b.GetBeginAtomIdx(), b.GetEndAtomIdx(), b.GetBondTypeAsDouble(), b.GetBondDir())
        for b in map(molecule.GetBondWithIdx, range(molecule.GetNumBonds()))
    ]
    beside: list[list[int]] = [[] for _ in x]
    for a, b, *_ in bonds:
        beside[a].append(b)
        beside[b].append(a)
    rings = sorted(molecule.GetRingInfo().AtomRings(), key=len)

    def double(a: int, b: int) -> Bond:
        """The second line lies inside a ring, else on the side of more neighbours."""
        around = next((ring for ring in rings if a in ring and b in ring), None)
        if around is None and min(len(beside[a]), len(beside[b])) == 1:
            return Bond.DOUBLE
        across, down = x[b] - x[a], y[b] - y[a]
        nodes = beside[a] + beside[b] if around is None else around
        side = sum(across * (y[n] - y[a]) - down * (x[n] - x[a]) for n in nodes)
        if abs(side) < 1e-6:
            return Bond.DOUBLE
        return Bond.DOUBLE_LEFT if side > 0 else Bond.DOUBLE_RIGHT

    chem, kinds = rdkit_module("Chem"), dict[tuple[int, int], Bond]()
    ways = {
        chem.BondDir.BEGINWEDGE: (Bond.WEDGE_BACK, Bond.WEDGE),
        chem.BondDir.BEGINDASH: (Bond.HASH_BACK, Bond.HASH),
    }
    for a, b, order, way in bonds:
        if way in ways:
            kind = ways[way][a < b]
        elif order == 2:
            kind = double(*sorted((a, b)))
        else:
            kind = Bond.TRIPLE if order == 3 else Bond.SINGLE
        kinds[min(a, b), max(a, b)] = kind
    texts = [
        _label(molecule.GetAtomWithIdx(i), [x[n] - x[i] for n in some])
        for i, some in enumerate(beside)
    ]
    return texts, kinds


def _label(atom: Any, bonds: list[float]) -> Label:
    """What a chemist would write at an atom whose bonds go so far to the right."""
    charge, isotope = atom.GetFormalCharge(), atom.GetIsotope()
    plain = atom.GetAtomicNum() == 6 and not (charge or isotope or atom.GetNumRadicalElectrons())
    if plain and bonds:
        return NO_LABEL
    symbol = (str(isotope).translate(SUPERSCRIPTS) if isotope else "") + atom.GetSymbol()
    hydrogens = atom.GetTotalNumHs()
    beside = "H" * (hydrogens > 0) + (str(hydrogens).translate(SUBSCRIPTS) * (hydrogens > 1))
    if charge:
        size = "" if abs(charge) == 1 else str(abs(charge))
        beside += (size + ("+" if charge > 0 else "-")).translate(SUPERSCRIPTS)
    # Hydrogens stand where no bond goes; a charge alone always stands on the right.
    left = hydrogens and not charge and bonds and sum(bonds) / len(bonds) > 0.2
    return symbol, beside, bool(left)
