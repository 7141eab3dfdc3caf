"""Counterfactuals of molecules: regions of real molecules change places, and RDKit says whether
the result is one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch_geometric.utils import from_smiles as pyg_from_smiles

from hpme.data.molecules.chem import read_molecule
from hpme.data.molecules.edits import (
    Edit,
    Fragment,
    Region,
    fingerprint,
    fragment_of,
    regions_of,
    similarity,
    smaller_edits,
    transplanted,
)
from hpme.data.molecules.smiles import from_smiles
from hpme.errors import InputError
from hpme.explainers.hpme.counterfactuals import Counterfactual, Flip
from hpme.explainers.shared.context import batches
from hpme.graphs import GraphStore

Featurise = Callable[[Sequence[str]], Sequence[Any]]
"""Graphs of SMILES, as the model was trained on them."""
DONORS, FRAGMENTS = 150, 250
"""Molecules that give fragments, and fragments kept of them."""
ROUNDS, PER_ROUND = 6, 60
"""Edits of a molecule that are tried at a time, the most promising first."""
STEPS, BEAM, PER_STEP = 5, 3, 60
"""Edits in a row where one is not enough, ways that are followed, and next edits tried of each."""
Planned = tuple[float, Any, Region, Fragment, bool]
"""An edit to try: its priority (the least first), the molecule, what goes, what comes, turned."""
Found = tuple[Edit, float]
"""An edit that changes the answer, and the new answer."""


@dataclass
class _Molecule:
    """A molecule that is to be changed, and what was found for it."""

    number: int
    molecule: Any
    answer: float
    weight: Sequence[float]
    queue: list[Planned] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    near: list[tuple[float, Edit]] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)

    def removed(self, edit: Edit) -> frozenset[int]:
        """Atoms that an edited molecule lacks."""
        return frozenset(range(self.molecule.GetNumAtoms())).difference(edit.origin)

    def cost(self, edit: Edit) -> int:
        """Atoms removed and inserted."""
        return len(self.removed(edit)) + len(edit.new)


def default_featurise(
    store: GraphStore, known: Featurise | None = None, *, hydrogens: bool = True
) -> Featurise:
    """What makes the first of the graphs again: hpme's own features, or PyG's ``from_smiles``.

    Args:
        store: Graphs with their SMILES.
        known: Asked in place of these.
        hydrogens: Whether hydrogens may be nodes.

    Raises:
        InputError: If the graphs have other features.
    """

    def ours(smiles: Sequence[str], whole: bool = False) -> Sequence[Any]:
        labels = [0] * len(smiles)
        return list(from_smiles(smiles, labels, hydrogens=whole, progress=False, on_error="raise"))

    def theirs(smiles: Sequence[str]) -> Sequence[Any]:
        return [pyg_from_smiles(text) for text in smiles]

    asked: list[Featurise] = [ours, theirs, *[partial(ours, whole=True)] * hydrogens]
    for featurise in [known] if known else asked:
        made = GraphStore.from_graphs(list(featurise(store.text["smiles"][:1])))
        given = store.subset(torch.tensor([0])).x
        if made.x.shape == given.shape and torch.equal(made.x.to(given), given):
            return featurise
    raise InputError(
        "the molecules have other features than hpme's own and those of PyG's from_smiles; pass "
        "featurise=, a function from a list of SMILES to graphs as the model was trained on them"
    )


def molecule_counterfactuals(
    store: GraphStore,
    count: int,
    importance: Tensor,
    flip: Flip,
    n: int,
    featurise: Featurise,
    advance: Callable[[int], None],
) -> list[list[Counterfactual]]:
    """At most ``n`` for each of the first ``count`` molecules of a store.

    Args:
        store: The molecules, then others that may give regions, too.
        count: Number of molecules that are changed.
        importance: Importance of all nodes.
        flip: What counts as another answer.
        n: How many are wanted.
        featurise: Graphs of SMILES.
        advance: Called with the number of molecules done.
    """
    answers = flip.answer(flip.context.values).cpu()[: len(store)]
    molecules = [read_molecule(smiles) for smiles in store.text["smiles"]]
    starts = store.node_start.tolist()
    libraries = _libraries(molecules, answers, flip)
    open_ = []
    for i in range(count):
        weight = importance[starts[i] : starts[i] + molecules[i].GetNumAtoms()].tolist()
        one = _Molecule(i, molecules[i], float(answers[i]), weight)
        own = range(molecules[i].GetNumAtoms())
        library = libraries[_side(answers[i], flip)]
        one.queue = _queue(one, one.molecule, own, library)[: ROUNDS * PER_ROUND]
        open_.append(one)
    everyone = list(open_)
    for _ in range(ROUNDS):
        _round(open_, PER_ROUND, flip, featurise)
        left = [one for one in open_ if len(one.found) < n and one.queue]
        advance(len(open_) - len(left))
        open_ = left
    advance(len(open_))
    for _ in range(STEPS - 1):
        left = [one for one in everyone if not one.found]
        for one in left:
            _follow(one, libraries[_side(answers[one.number], flip)])
        _round(left, BEAM * PER_STEP, flip, featurise)
    for one in everyone:
        one.found = _different(one, n)
    _prune(everyone, flip, featurise)
    return _made(everyone, store.sizes, featurise)


def _side(answer: Tensor, flip: Flip) -> float:
    return float(answer) if flip.threshold is None else float(answer > flip.threshold)


def _libraries(
    molecules: Sequence[Any], answers: Tensor, flip: Flip
) -> dict[float, list[tuple[float, Fragment]]]:
    """For every answer, fragments of molecules with other answers, the most telling first."""
    sides = [_side(answer, flip) for answer in answers]
    counts: dict[float, Counter[str]] = {side: Counter() for side in sides}
    size: Counter[float] = Counter()
    known: dict[str, Fragment] = {}
    for molecule, side in zip(molecules, sides, strict=True):
        if size[side] >= DONORS:
            continue
        size[side] += 1
        fragments = {f.name: f for f in (fragment_of(molecule, r) for r in regions_of(molecule))}
        known |= fragments
        counts[side].update(fragments.keys())
    result = {}
    for side in counts:
        others = sum(size[s] for s in counts if s != side)
        scored = []
        for name, fragment in known.items():
            theirs = sum(counts[s][name] for s in counts if s != side)
            if theirs:
                odds = (
                    (theirs + 0.5) / (others + 1) / ((counts[side][name] + 0.5) / (size[side] + 1))
                )
                scored.append((math.log(odds), fragment))
        scored.sort(key=lambda item: -(item[0] - 0.1 * len(item[1].atoms)))
        result[side] = scored[:FRAGMENTS]
    return result


def _queue(
    one: _Molecule, molecule: Any, origin: Sequence[int], library: Sequence[tuple[float, Fragment]]
) -> list[Planned]:
    """Edits of a molecule: small changes of important regions by telling fragments first.

    Args:
        one: What is asked about.
        molecule: It, or an edited form of it.
        origin: For each atom of the latter, the number in the former; -1 stays where it is.
        library: Fragments, and how telling they are.
    """
    by_joints: dict[tuple[int, ...], list[tuple[float, Fragment]]] = {}
    for odds, fragment in library:
        by_joints.setdefault(tuple(kind for _, kind in fragment.joints), []).append(
            (odds, fragment)
        )
    queue = []
    for region in regions_of(molecule):
        if any(origin[atom] < 0 for atom in region.atoms or (region.bonds[0][1],)):
            continue
        ours = fragment_of(molecule, region).name
        inside = [one.weight[origin[a]] for a in region.atoms] or [
            0.5 * one.weight[origin[region.bonds[0][1]]]
        ]
        matter = sum(inside) / len(inside)
        for odds, fragment in by_joints.get(region.joints, ()):
            if fragment.name == ours:
                continue
            cost = len(region.atoms) + len(fragment.atoms)
            priority = 0.5 * cost - odds - 3.0 * matter
            queue.append((priority, molecule, region, fragment, False))
            if len(region.bonds) > 1:
                queue.append((priority + 0.5, molecule, region, fragment, True))
    queue.sort(key=lambda item: item[0])
    return queue


def _follow(one: _Molecule, library: Sequence[tuple[float, Fragment]]) -> None:
    """Plans one more edit of the edited molecules that are nearest to another answer."""
    one.near.sort(key=lambda item: item[0])
    ways: dict[frozenset[int], Edit] = {}
    for _, edit in one.near:
        if len(ways) < BEAM:
            ways.setdefault(one.removed(edit), edit)
    one.near, one.queue = [], []
    for edit in ways.values():
        one.queue += _queue(one, edit.molecule, edit.origin, library)[:PER_STEP]


def _round(open_: Sequence[_Molecule], size: int, flip: Flip, featurise: Featurise) -> None:
    """Tries the next edits of all molecules, in batches."""
    tried: list[tuple[_Molecule, Edit]] = []
    for one in open_:
        part, one.queue = one.queue[:size], one.queue[size:]
        for _, molecule, region, fragment, turned in part:
            edit = transplanted(molecule, region, fragment, turned=turned)
            if edit is not None and edit.smiles not in one.seen:
                one.seen.add(edit.smiles)
                tried.append((one, edit))
    answers = _answers(tried, flip, featurise)
    for (one, edit), (after, other, distance) in zip(tried, answers, strict=True):
        if other:
            one.found.append((edit, after))
        else:
            one.near.append((distance, edit))


def _answers(
    tried: Sequence[tuple[_Molecule, Edit]], flip: Flip, featurise: Featurise
) -> list[tuple[float, bool, float]]:
    """Of edited molecules the answer, whether it is another, and how far from another it is."""
    if not tried:
        return []
    once = list(dict.fromkeys(edit.smiles for _, edit in tried))
    assert flip.context.adapter.explained is not None
    store = flip.context.adapter.explained.read(list(featurise(once)))
    output = torch.cat(
        [
            flip.context.predict(store.batch(ids)).cpu()
            for ids in batches(torch.arange(len(store)), 2048)
        ]
    )
    place = {text: i for i, text in enumerate(once)}
    output = output[torch.tensor([place[edit.smiles] for _, edit in tried])]
    before = torch.tensor([one.answer for one, _ in tried], dtype=torch.double)
    after = flip.answer(flip.context.task.values(output))
    other, distance = flip.other(before, after), flip.distance(before, output)
    return list(zip(after.tolist(), other.tolist(), distance.tolist(), strict=True))


def _different(one: _Molecule, n: int) -> list[Found]:
    """The smallest changes, of equal size the most similar molecules; places differ if possible."""
    own = fingerprint(one.molecule)
    smallest = sorted(one.found, key=lambda item: one.cost(item[0]))[: 10 * n]
    near = {
        edit.smiles: similarity(own, fingerprint(read_molecule(edit.smiles)))
        for edit, _ in smallest
    }
    ranked = sorted(smallest, key=lambda item: (one.cost(item[0]), -near[item[0].smiles]))
    first: dict[frozenset[int], Found] = {}
    for item in ranked:
        first.setdefault(one.removed(item[0]), item)
    chosen = list(first.values())
    return (chosen + [item for item in ranked if item not in chosen])[:n]


def _prune(molecules: Sequence[_Molecule], flip: Flip, featurise: Featurise) -> None:
    """Leaves out atoms as long as the answer stays changed: in the end, no single one can be."""
    open_ = [(one, place) for one in molecules for place in range(len(one.found))]
    while open_:
        trials: list[tuple[_Molecule, Edit]] = []
        owner: list[int] = []
        for number, (one, place) in enumerate(open_):
            less = list(smaller_edits(one.found[place][0], one.molecule))
            trials += [(one, edit) for edit in less]
            owner += [number] * len(less)
        first: dict[int, Found] = {}
        answers = _answers(trials, flip, featurise)
        for number, (_, edit), (after, other, _) in zip(owner, trials, answers, strict=True):
            if other:
                first.setdefault(number, (edit, after))
        for number, found in first.items():
            one, place = open_[number]
            one.found[place] = found
        open_ = [open_[number] for number in first]


def _made(
    molecules: Sequence[_Molecule], sizes: Tensor, featurise: Featurise
) -> list[list[Counterfactual]]:
    texts = [edit.smiles for one in molecules for edit, _ in one.found]
    graphs = iter(featurise(texts) if texts else [])
    result = []
    for one in molecules:
        made: dict[str, Counterfactual] = {}
        own = fingerprint(one.molecule)
        for edit, after in one.found:
            graph = next(graphs)
            changed = torch.zeros(graph.num_nodes, dtype=torch.bool)
            changed[list(edit.new)] = True
            removed = torch.zeros(int(sizes[one.number]), dtype=torch.bool)
            removed[list(one.removed(edit))] = True
            near = similarity(own, fingerprint(read_molecule(edit.smiles)))
            made[edit.smiles] = Counterfactual(
                graph, changed, removed, one.answer, after, edit.smiles, edit.marked, near
            )
        result.append(sorted(made.values(), key=lambda c: (c.size, -(c.similarity or 0.0))))
    return result
