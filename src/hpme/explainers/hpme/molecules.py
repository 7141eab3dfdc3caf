"""Counterfactuals of molecules: groups of real molecules change places, as chemists would do it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from hpme.data.molecules import exchanges
from hpme.data.molecules.anatomy import Anatomy, Graft
from hpme.data.molecules.chem import rdkit_module, read_molecule
from hpme.data.molecules.exchanges import Edit, exchanged, group_name
from hpme.explainers.hpme.counterfactuals import Counterfactual, Flip
from hpme.explainers.hpme.grafting import Featurise, anatomy_of
from hpme.explainers.shared.context import batches
from hpme.graphs import GraphStore

LARGEST = 8
"""Heavy atoms of a group that is exchanged."""
DONORS, GROUPS = 150, 300
"""Molecules that give groups, and groups kept of them."""
ROUNDS, PER_ROUND = 6, 60
"""Edits of a molecule that are tried at a time, the most promising first."""
STEPS, BEAM, PER_STEP = 4, 3, 60
"""Edits in a row where one is not enough, ways that are followed, and next edits tried of each."""
TWIN, FARTHEST, NEAREST = 0.5, 16, 4
"""Similarity from which on a molecule of the library is a near twin, atoms that may differ, and so
few that it is one in any case."""
Planned = tuple[float, Edit, Callable[[], Any]]
"""An edit to try: its priority (the least first), what is edited, and how."""
Library = Sequence[tuple[float, str, Graft]]
"""Groups that may come: how telling each is, and its name."""
Found = tuple[Edit, float, float, bool]
"""An edit, its answer and output, and whether it is a molecule of the library."""


@dataclass
class _Molecule:
    """A molecule that is to be changed, and what was found for it."""

    number: int
    anatomy: Anatomy
    answer: float
    output: float
    weight: Sequence[float]
    library: Library
    queue: list[Planned] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    near: list[tuple[float, Edit]] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)

    def removed(self, edit: Edit) -> frozenset[int]:
        """Atoms that an edited molecule lacks."""
        return frozenset(range(self.anatomy.size)).difference(edit.origin)

    def cost(self, edit: Edit) -> int:
        """Atoms removed and inserted."""
        return len(self.removed(edit)) + len(edit.new)

    def similarity(self, edit: Edit) -> float:
        """Tanimoto similarity to an edited form."""
        other = exchanges.fingerprint(read_molecule(edit.smiles))
        return exchanges.similarities(self.anatomy.molecule, [other])[0]

    def plan(self, edit: Edit, anatomy: Anatomy) -> list[Planned]:
        """Edits of an edited form: small changes of important groups by telling ones first."""
        queue: list[Planned] = []

        def matter(*atoms: int) -> float:
            return 3.0 * sum(self.weight[edit.origin[a]] for a in atoms) / len(atoms)

        sites = [(k, x, frozenset[int]()) for k, some in anatomy.places.items() for x in some]
        sites += [(k, x, side) for k, some in anatomy.stumps.items() for x, side in some]
        for kind, end, gone in sites:
            if len(gone) > LARGEST or any(edit.origin[atom] < 0 for atom in gone or (end,)):
                continue
            own = group_name(anatomy, gone)
            worth = matter(*gone) if gone else matter(end) / 2
            if gone:
                make = partial(exchanged, anatomy, end, gone, None)
                queue.append((0.5 * len(gone) - worth, edit, make))
            for odds, name, group in self.library:
                if name != own and group.pieces[0].surroundings[0].kinds[0] == kind:
                    cost = 0.5 * (len(gone) + len(group.atoms)) - odds - worth
                    queue.append((cost, edit, partial(exchanged, anatomy, end, gone, group)))
        for number in (n for n in range(anatomy.size) if edit.origin[n] >= 0):
            for made in exchanges.swapped(anatomy, number):
                queue.append((1 - matter(number), edit, partial(itemgetter(0), (made,))))
        return sorted(queue, key=itemgetter(0))

    def follow(self) -> None:
        """Plans one more edit of the edited forms that are nearest to another answer."""
        ways: dict[frozenset[int], Edit] = {}
        for _, edit in sorted(self.near, key=itemgetter(0)):
            ways.setdefault(self.removed(edit), edit)
        self.near, self.queue = [], []
        for edit in list(ways.values())[:BEAM]:
            self.queue += self.plan(edit, Anatomy(read_molecule(edit.smiles)))[:PER_STEP]

    def best(self, n: int) -> list[Found]:
        """The smallest changes, of equal size the most similar; places differ if possible."""
        smallest = sorted(self.found, key=lambda item: self.cost(item[0]))[: 10 * n]
        ranked = sorted(smallest, key=lambda item: (self.cost(item[0]), -self.similarity(item[0])))
        first: dict[frozenset[int], Found] = {}
        for item in ranked:
            first.setdefault(self.removed(item[0]), item)
        chosen = list(first.values())
        return (chosen + [item for item in ranked if item not in chosen])[:n]


def molecule_counterfactuals(
    store: GraphStore,
    count: int,
    importance: Tensor,
    flip: Flip,
    n: int,
    featurise: Featurise,
    advance: Callable[[int], None],
) -> list[list[Counterfactual]]:
    """At most ``n`` for each of the first ``count`` molecules; the whole store gives groups."""
    values = flip.context.values[: len(store)].cpu()
    answers = flip.answer(values)
    outputs, sides = flip.output(values, answers).tolist(), flip.side(answers).tolist()
    texts, starts = store.text["smiles"], store.node_start.tolist()
    anatomies = [anatomy_of(text) for text in texts]
    libraries = _libraries(texts, sides)
    everyone = []
    for i, own in enumerate(anatomies[:count]):
        weight = importance[starts[i] : starts[i] + own.size].tolist()
        one = _Molecule(i, own, float(answers[i]), outputs[i], weight, libraries[sides[i]])
        one.queue = one.plan(Edit(texts[i], tuple(range(own.size))), own)[: ROUNDS * PER_ROUND]
        everyone.append(one)
    open_ = everyone
    for _ in range(ROUNDS):
        _round(open_, PER_ROUND, flip, featurise)
        before = len(open_)
        open_ = [one for one in open_ if len(one.found) < n and one.queue]
        advance(before - len(open_))
    advance(len(open_))
    for _ in range(STEPS - 1):
        open_ = [one for one in everyone if not one.found]
        for one in open_:
            one.follow()
        _round(open_, BEAM * PER_STEP, flip, featurise)
    prints, written = zip(*(_donor(text)[1:] for text in texts), strict=True)
    for one in everyone:
        other = [i for i, side in enumerate(sides) if side != sides[one.number]]
        near = exchanges.similarities(one.anatomy.molecule, [prints[i] for i in other])
        twins: list[Found] = []
        for similarity, i in sorted(zip(near, other, strict=True), reverse=True)[: 2 * n]:
            both = one.anatomy.molecule, anatomies[i].molecule
            origin = {b: a for a, b in exchanges.shared_atoms(*both, unlike=False, seconds=1)}
            edit = Edit(texts[i], tuple(origin.get(n, -1) for n in range(anatomies[i].size)))
            if one.cost(edit) <= (FARTHEST if similarity >= TWIN else NEAREST):
                output = flip.output(values[i : i + 1], answers[one.number : one.number + 1])
                twins.append((edit, float(answers[i]), float(output), True))
        twins = sorted(twins, key=lambda item: one.cost(item[0]))[: (n + 1) // 2]
        # What the library has is not to be made.
        one.found = [item for item in one.found if item[0].smiles not in written] or one.found
        one.found = twins + one.best(n - len(twins))
    return _made(everyone, store.sizes, flip, featurise)


@lru_cache(maxsize=512)
def _donor(smiles: str) -> tuple[dict[str, tuple[str, Graft]], Any, str]:
    """Groups a molecule may give, its fingerprint, and its SMILES as RDKit writes it; kept."""
    anatomy, found = anatomy_of(smiles), {}
    for graft in anatomy.substituents:
        if len(graft.atoms) <= LARGEST and len(graft.pieces[0].joints) == 1:
            name = group_name(anatomy, graft.atoms)
            found[f"{name} {graft.pieces[0].surroundings[0].kinds[0]}"] = name, graft
    write = rdkit_module("Chem").MolToSmiles
    return found, exchanges.fingerprint(anatomy.molecule), write(anatomy.molecule)


def _libraries(texts: Sequence[str], sides: Sequence[float]) -> dict[float, Library]:
    """For every answer, groups of molecules with other answers, the most telling first."""
    counts: dict[float, Counter[str]] = {side: Counter() for side in sides}
    size: Counter[float] = Counter()
    known: dict[str, tuple[str, Graft]] = {}
    for text, side in zip(texts, sides, strict=True):
        if size[side] < DONORS:
            size[side] += 1
            own = _donor(text)[0]
            known |= own
            counts[side].update(own.keys())
    result: dict[float, Library] = {}
    for side, ours in counts.items():
        ratio = (size[side] + 1) / (sum(size.values()) - size[side] + 1)
        scored = []
        for key, (name, graft) in known.items():
            theirs = sum(some[key] for other, some in counts.items() if other != side)
            if theirs:
                odds = math.log((theirs + 0.5) * ratio / (ours[key] + 0.5))
                scored.append((odds, name, graft))
        scored.sort(key=lambda item: 0.1 * len(item[2].atoms) - item[0])
        result[side] = scored[:GROUPS]
    return result


def _round(open_: Sequence[_Molecule], size: int, flip: Flip, featurise: Featurise) -> None:
    """Tries the next edits of all molecules that a chemist would keep, in batches."""
    tried: list[tuple[_Molecule, Edit]] = []
    for one in open_:
        part, one.queue = one.queue[:size], one.queue[size:]
        for _, form, make in part:
            edit = form.then(make())
            if edit is not None and edit.smiles not in one.seen:
                one.seen.add(edit.smiles)
                if exchanges.objection(one.anatomy.molecule, read_molecule(edit.smiles)) is None:
                    tried.append((one, edit))
    if not tried:
        return
    once = {text: place for place, text in enumerate(dict.fromkeys(e.smiles for _, e in tried))}
    context = flip.context
    store = context.adapter.explained.read(list(featurise(list(once))))
    ids = batches(torch.arange(len(store)), 2048)
    output = torch.cat([context.predict(store.batch(some)).cpu() for some in ids])
    output = output[torch.tensor([once[edit.smiles] for _, edit in tried])]
    before = torch.tensor([one.answer for one, _ in tried], dtype=torch.double)
    values = context.task.values(output)
    after, distances = flip.answer(values), flip.distance(before, output)
    columns = flip.other(before, after), after, flip.output(values, before), distances
    rows = zip(tried, *(column.tolist() for column in columns), strict=True)
    for (one, edit), flipped, answer, number, distance in rows:
        if flipped:
            one.found.append((edit, answer, number, False))
        else:
            one.near.append((distance, edit))


def _made(
    molecules: Sequence[_Molecule], sizes: Tensor, flip: Flip, featurise: Featurise
) -> list[list[Counterfactual]]:
    texts = [item[0].smiles for one in molecules for item in one.found]
    graphs = iter(featurise(texts) if texts else [])
    result: list[list[Counterfactual]] = []
    for one in molecules:
        result.append([])
        for edit, answer, output, known in one.found:
            graph, after = next(graphs), Anatomy(read_molecule(edit.smiles))
            changed = torch.zeros(graph.num_nodes, dtype=torch.bool)
            changed[edit.new] = True
            removed = torch.zeros(int(sizes[one.number]), dtype=torch.bool)
            removed[list(one.removed(edit))] = True
            gone, come = (
                group_name(one.anatomy, one.removed(edit)),
                group_name(after, edit.new),
            )
            row = graph, changed, removed, one.answer, answer, (one.output, output), edit.smiles
            words = edit.marked, one.similarity(edit), f"{gone} -> {come}"
            hard, names = exchanges.accessibility(after.molecule), flip.words(one.answer, answer)
            result[-1].append(Counterfactual(*row, *words, hard, known, names))
    return result
