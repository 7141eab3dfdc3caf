"""Counterfactuals of molecules: regions of real molecules change places, and RDKit says whether
the result is one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hpme.data.molecules.chem import read_molecule
from hpme.data.molecules.edits import (
    Edit,
    Fragment,
    Region,
    fingerprint,
    fragment_of,
    regions_of,
    similarity,
    transplanted,
    without_atom,
)
from hpme.data.molecules.smiles import from_smiles
from hpme.errors import InputError
from hpme.explainers.hpme.insight.counterfactual import Counterfactual, Flip
from hpme.explainers.shared.context import batches
from hpme.graphs import GraphStore

Featurise = Callable[[Sequence[str]], Sequence[Any]]
"""Graphs of SMILES, as the model was trained on them."""
DONORS, FRAGMENTS = 150, 250
"""Molecules that give fragments, and fragments kept of them."""
ROUNDS, PER_ROUND = 6, 60
"""Edits of a molecule that are tried at a time, the most promising first."""


@dataclass
class _Molecule:
    """A molecule that is to be changed, and what was found for it."""

    number: int
    molecule: Any
    answer: float
    queue: list[tuple[float, Region, Fragment, bool]] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    found: list[tuple[Region, Edit, float]] = field(default_factory=list)


def default_featurise(store: GraphStore) -> Featurise:
    """hpme's own features of molecules.

    Raises:
        InputError: If the graphs have other features.
    """
    for hydrogens in (False, True):

        def featurise(smiles: Sequence[str], hydrogens: bool = hydrogens) -> Sequence[Any]:
            labels = [0] * len(smiles)
            made = from_smiles(
                smiles, labels, hydrogens=hydrogens, progress=False, on_error="raise"
            )
            return list(made)

        made = GraphStore.from_graphs(featurise(store.text["smiles"][:1]))
        ours = store.subset(torch.tensor([0]))
        if made.x.shape == ours.x.shape and torch.equal(made.x, ours.x.to(made.x)):
            return featurise
    raise InputError(
        "the molecules have other features than hpme's own; pass featurise=, a function from a "
        "list of SMILES to graphs as the model was trained on them"
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
        one = _Molecule(i, molecules[i], float(answers[i]))
        weight = importance[starts[i] : starts[i] + molecules[i].GetNumAtoms()].tolist()
        one.queue = _queue(one, weight, libraries[_side(answers[i], flip)])
        open_.append(one)
    everyone = list(open_)
    for _ in range(ROUNDS):
        _round(open_, flip, featurise)
        left = [one for one in open_ if len(one.found) < n and one.queue]
        advance(len(open_) - len(left))
        open_ = left
    advance(len(open_))
    for one in everyone:
        one.found = _different(one, n)
    _prune(everyone, flip, featurise)
    return _made(everyone, flip, featurise)


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
    one: _Molecule, weight: Sequence[float], library: Sequence[tuple[float, Fragment]]
) -> list[tuple[float, Region, Fragment, bool]]:
    """Edits of a molecule: small changes of important regions by telling fragments first."""
    by_joints: dict[tuple[int, ...], list[tuple[float, Fragment]]] = {}
    for odds, fragment in library:
        by_joints.setdefault(tuple(kind for _, kind in fragment.joints), []).append(
            (odds, fragment)
        )
    queue = []
    for region in regions_of(one.molecule):
        ours = fragment_of(one.molecule, region).name
        inside = [weight[a] for a in region.atoms] or [0.5 * weight[region.bonds[0][1]]]
        matter = sum(inside) / len(inside)
        for odds, fragment in by_joints.get(region.joints, ()):
            if fragment.name == ours:
                continue
            cost = len(region.atoms) + len(fragment.atoms)
            priority = 0.5 * cost - odds - 3.0 * matter
            queue.append((priority, region, fragment, False))
            if len(region.bonds) > 1:
                queue.append((priority + 0.5, region, fragment, True))
    queue.sort(key=lambda item: item[0])
    return queue[: ROUNDS * PER_ROUND]


def _round(open_: Sequence[_Molecule], flip: Flip, featurise: Featurise) -> None:
    """Tries the next edits of all molecules, in batches."""
    tried: list[tuple[_Molecule, Region, Edit]] = []
    for one in open_:
        part, one.queue = one.queue[:PER_ROUND], one.queue[PER_ROUND:]
        for _, region, fragment, turned in part:
            edit = transplanted(one.molecule, region, fragment, turned=turned)
            if edit is not None and edit.smiles not in one.seen:
                one.seen.add(edit.smiles)
                tried.append((one, region, edit))
    answers = _answers([edit.smiles for *_, edit in tried], flip, featurise)
    for (one, region, edit), after in zip(tried, answers.tolist(), strict=True):
        if bool(flip.other(torch.tensor(one.answer), torch.tensor(after))):
            one.found.append((region, edit, after))


def _answers(smiles: Sequence[str], flip: Flip, featurise: Featurise) -> Tensor:
    """The model's answers for molecules, each asked once."""
    if not smiles:
        return torch.zeros(0)
    once = list(dict.fromkeys(smiles))
    assert flip.context.adapter.explained is not None
    store = flip.context.adapter.explained.read(list(featurise(once)))
    parts = [
        flip.answer(flip.context.task.values(flip.context.predict(store.batch(ids))))
        for ids in batches(torch.arange(len(store)), 2048)
    ]
    place = {text: i for i, text in enumerate(once)}
    return torch.cat(parts).cpu()[torch.tensor([place[text] for text in smiles])]


def _cost(item: tuple[Region, Edit, float]) -> int:
    return len(item[0].atoms) + len(item[1].new)


def _different(one: _Molecule, n: int) -> list[tuple[Region, Edit, float]]:
    """The smallest changes, of equal size the most similar molecules; places differ if possible."""
    chem = fingerprint(one.molecule)
    ranked = sorted(
        sorted(one.found, key=_cost)[: 10 * n],
        key=lambda item: (
            _cost(item),
            -similarity(chem, fingerprint(read_molecule(item[1].smiles))),
        ),
    )
    first: list[tuple[Region, Edit, float]] = []
    places: set[tuple[int, ...]] = set()
    for item in ranked:
        if item[0].atoms not in places:
            places.add(item[0].atoms)
            first.append(item)
    return (first + [item for item in ranked if item not in first])[:n]


def _prune(molecules: Sequence[_Molecule], flip: Flip, featurise: Featurise) -> None:
    """Takes inserted atoms out again as long as the answer stays changed."""
    active = True
    while active:
        active = False
        trials: list[tuple[_Molecule, int, Edit]] = []
        for one in molecules:
            for place, (_, edit, _) in enumerate(one.found):
                for atom in edit.new:
                    less = without_atom(edit, atom)
                    if less is not None:
                        trials.append((one, place, less))
        answers = _answers([edit.smiles for *_, edit in trials], flip, featurise)
        done: set[tuple[int, int]] = set()
        for (one, place, edit), after in zip(trials, answers.tolist(), strict=True):
            other = bool(flip.other(torch.tensor(one.answer), torch.tensor(after)))
            if other and (one.number, place) not in done:
                done.add((one.number, place))
                one.found[place] = (one.found[place][0], edit, after)
                active = True


def _made(
    molecules: Sequence[_Molecule], flip: Flip, featurise: Featurise
) -> list[list[Counterfactual]]:
    texts = [edit.smiles for one in molecules for _, edit, _ in one.found]
    graphs = iter(featurise(texts) if texts else [])
    result = []
    for one in molecules:
        made: dict[str, Counterfactual] = {}
        own = fingerprint(one.molecule)
        for region, edit, after in one.found:
            graph = next(graphs)
            changed = torch.zeros(graph.num_nodes, dtype=torch.bool)
            changed[list(edit.new)] = True
            removed = torch.zeros(one.molecule.GetNumAtoms(), dtype=torch.bool)
            removed[list(region.atoms)] = True
            near = similarity(own, fingerprint(read_molecule(edit.smiles)))
            made[edit.smiles] = Counterfactual(
                graph, changed, removed, one.answer, after, edit.smiles, edit.marked, near
            )
        result.append(sorted(made.values(), key=lambda c: (c.size, -(c.similarity or 0.0))))
    return result
