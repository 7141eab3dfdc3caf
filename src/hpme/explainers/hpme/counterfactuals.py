"""The smallest regions whose exchange for one of another real graph changes the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.explainers.hpme.method.mixup import Mix
from hpme.explainers.hpme.method.pool import by_boundary, top_nodes
from hpme.explainers.hpme.quality import class_name
from hpme.explainers.hpme.transplants import Transplants
from hpme.explainers.shared.context import Context, batches
from hpme.graphs import GraphStore

SIZES = 8
"""Numbers of nodes that are tried for a region, from one to the whole pool."""
AT_ONCE = 512
"""Mixes per forward pass."""


@dataclass(frozen=True)
class Counterfactual:
    """A graph that differs from a given one in a region, and gets another prediction.

    Args:
        graph: The changed graph, a ``Data``; of molecules as the featuriser made it.
        changed: Boolean mask of its nodes that come from elsewhere.
        removed: Boolean mask of the given graph's nodes that it lacks.
        before, after: Predictions for the given graph and for the changed one: classes, or values.
        outputs: The probability of the class ``before``, or the value, before and after.
        smiles: The changed molecule; ``None`` for other graphs.
        marked: The same with ``:1`` at atoms that come from elsewhere.
        similarity: Tanimoto similarity of Morgan fingerprints; ``None`` if it is no molecule.
        exchanged: Which groups of a molecule give way to which, in words or as SMILES.
        accessibility: How hard the molecule is to make, from 1 to 10 (RDKit's
            synthetic-accessibility score).
        known: Whether it is a molecule of the given ones or of the donors.
        classes: Names of the two predictions; ``None`` for values.
    """

    graph: Any
    changed: Tensor
    removed: Tensor
    before: float
    after: float
    outputs: tuple[float, float]
    smiles: str | None = None
    marked: str | None = None
    similarity: float | None = None
    exchanged: str | None = None
    accessibility: float | None = None
    known: bool = False
    classes: tuple[str, str] | None = None

    @property
    def size(self) -> int:
        """Size of the change: nodes removed and nodes that come from elsewhere."""
        return int(self.changed.sum()) + int(self.removed.sum())

    def __str__(self) -> str:
        change = "{:.4g} -> {:.4g}".format(*self.outputs)
        if self.classes is not None:
            ours, other = self.classes
            change = f"{ours} -> {other} (p({ours}) {'{:.2f} -> {:.2f}'.format(*self.outputs)})"
        words = [f"{self.exchanged}"] if self.exchanged else []
        kind = "nodes" if self.smiles is None else "atoms"
        words.append(f"{self.size} {kind if self.size > 1 else kind[:-1]} changed")
        words += [f"similarity {self.similarity:.2f}"] if self.similarity is not None else []
        hard = self.accessibility
        words += [f"accessibility {hard:.1f}"] if hard is not None else []
        words += ["you have this one already"] if self.known else []
        return f"{change} by {', '.join(words)}: {self.smiles or f'{self.graph.num_nodes} nodes'}"


@dataclass(frozen=True)
class Flip:
    """What counts as another answer: for values, one on the other side of a threshold."""

    context: Context
    threshold: float | None

    def __post_init__(self) -> None:
        if self.context.task.classification and self.threshold is not None:
            raise InputError("classes need no threshold")
        if not self.context.task.classification and self.threshold is None:
            raise InputError("the model returns values; pass threshold=, the value to get past")

    def answer(self, values: Tensor) -> Tensor:
        """Classes, or values in their own unit, from :meth:`~hpme.models.output.Task.values`."""
        if self.context.task.classification:
            return values.argmax(1).double()
        return values[:, 0].double() * self.context.task.scale

    def output(self, values: Tensor, before: Tensor) -> Tensor:
        """The probability of the classes ``before``, or the value."""
        if not self.context.task.classification:
            return self.answer(values)
        return values.double().gather(1, before.long().view(-1, 1)).squeeze(1)

    def words(self, *answers: float) -> Any:
        """Names of classes; ``None`` for values."""
        if not self.context.task.classification:
            return None
        return tuple(class_name(self.context, int(answer)) for answer in answers)

    def side(self, answers: Tensor) -> Tensor:
        """The same number for all answers that do not count as different."""
        return answers if self.threshold is None else (answers > self.threshold).double()

    def other(self, before: Tensor, after: Tensor) -> Tensor:
        """Whether two answers differ."""
        return self.side(before) != self.side(after)

    def differ(self, count: int | None = None) -> bool:
        """Whether the first graphs, or all with the hosts, get more than one answer."""
        answers = self.answer(self.context.values)[:count]
        return bool(self.other(answers[:1].expand_as(answers), answers).any())

    def distance(self, before: Tensor, output: Tensor) -> Tensor:
        """How far outputs are from another answer than ``before``; the less, the nearer."""
        if self.context.task.classification:
            # Logarithms, since probabilities of a sure model are all one.
            log_prob = self.context.task.log_prob(output)
            return -log_prob.scatter(1, before.long().view(-1, 1), -torch.inf).amax(1)
        assert self.threshold is not None
        return (self.answer(self.context.task.values(output)) - self.threshold).abs()


def graph_counterfactuals(
    transplants: Transplants, flip: Flip, count: int
) -> list[list[Counterfactual]]:
    """At most ``count`` for every graph, from the kept hosts, the smallest change first.

    Regions are the first nodes of the pool's ranking; the smallest pair of sizes that changes the
    answer is pruned until no single node of either region can be left out.
    """
    mix, store = transplants.mix, transplants.context.store
    order = top_nodes(transplants.score, mix.graphs, mix.graphs.sizes).order[0]
    # One row per graph, where nodes beyond its own come last.
    rank = order.new_full((len(store), int(store.sizes.max())), len(order))
    rank[_inside(store, torch.arange(len(store)))] = order
    ids = torch.arange(transplants.count, device=order.device)
    found: list[list[Counterfactual]] = [[] for _ in ids]
    steps = torch.cartesian_prod(*[torch.linspace(0, 1, SIZES, device=order.device)] * 2)
    for donors in transplants.hosts:
        graphs = torch.stack([ids, donors], 1)
        size = torch.full((len(ids),), torch.inf, device=order.device)
        best = rank[graphs] < 0
        for share in steps:
            limit = (1 + share * (mix.m[graphs] - 1)).round()
            nodes = rank[graphs] < limit.unsqueeze(2)
            total = nodes.sum((1, 2)).float()
            total[~_flips(graphs, nodes, transplants, flip)] = torch.inf
            best[total < size] = nodes[total < size]
            size = torch.minimum(size, total)
        hit = size.isfinite()
        if bool(hit.any()):
            nodes = _pruned(graphs[hit], best[hit], transplants, flip)
            for number, one in _made(graphs[hit], nodes, transplants, flip):
                found[number].append(one)
    return [sorted(some, key=lambda one: one.size)[:count] for some in found]


def _inside(store: GraphStore, graphs: Tensor) -> Tensor:
    """Which places of rows ``[..., W]`` are nodes of graphs ``[...]``."""
    places = torch.arange(int(store.sizes.max()), device=graphs.device)
    return places < store.sizes.to(graphs.device)[graphs].unsqueeze(-1)


def _mixed(graphs: Tensor, nodes: Tensor, transplants: Transplants) -> Mix:
    """Graphs ``[R, 2]`` with regions exchanged: of the first nodes go, those of a donor come."""
    mix, inside = transplants.mix, _inside(transplants.context.store, graphs)
    sides = []
    for side in range(2):
        batch = mix.context.store.batch(graphs[:, side], with_pairs=True)
        keep = nodes[:, side][inside[:, side]]
        sides.append((batch, by_boundary(keep.unsqueeze(0), batch, None)[0]))
    (host, gone), (source, come) = sides
    return mix.mixed(source, come, host, gone, None)


def _flips(graphs: Tensor, nodes: Tensor, transplants: Transplants, flip: Flip) -> Tensor:
    """Whether each exchange changes the answer."""
    context = transplants.context
    before = flip.answer(context.values)[graphs[:, 0]]
    answers = [before[:0]]
    for rows in batches(torch.arange(len(graphs), device=graphs.device), AT_ONCE):
        output = context.predict(_mixed(graphs[rows], nodes[rows], transplants).graphs)
        answers.append(flip.answer(context.task.values(output)))
    return flip.other(before, torch.cat(answers))


def _pruned(graphs: Tensor, nodes: Tensor, transplants: Transplants, flip: Flip) -> Tensor:
    """Leaves out nodes of either side as long as the answer stays changed: in the end, none."""
    while True:
        row, place = nodes.flatten(1).nonzero(as_tuple=True)
        number = torch.arange(len(row), device=row.device)
        less = nodes.flatten(1)[row]
        less[number, place] = False
        less = less.view(-1, *nodes.shape[1:])
        good = number[_flips(graphs[row], less, transplants, flip)]
        first = torch.full_like(graphs[:, 0], len(row))
        first = first.scatter_reduce(0, row[good], good, "amin")
        better = first < len(row)
        if not bool(better.any()):
            return nodes
        nodes[better] = less[first[better]]


def _made(
    graphs: Tensor, nodes: Tensor, transplants: Transplants, flip: Flip
) -> list[tuple[int, Counterfactual]]:
    """Numbers of graphs, and what became of them."""
    context, store = transplants.context, transplants.context.store
    mix = _mixed(graphs, nodes, transplants)
    own, new = context.values[graphs[:, 0]], context.task.values(context.predict(mix.graphs))
    before, after = flip.answer(own), flip.answer(new)
    outputs = zip(*(flip.output(some, before).tolist() for some in (own, new)), strict=True)
    sizes = store.sizes[graphs[:, 0].cpu()]
    made = GraphStore.from_graphs(mix.graphs.grouped().to(torch.device("cpu"))).to_data_list()
    changed = torch.split((mix.origin >= int(sizes.sum())).cpu(), mix.graphs.sizes.tolist())
    removed = [row[:size] for row, size in zip(nodes[:, 0].cpu(), sizes.tolist(), strict=True)]
    found = list[tuple[int, Counterfactual]]()
    for i, number in enumerate(graphs[:, 0].tolist()):
        answers = float(before[i]), float(after[i])
        row = made[i], changed[i], removed[i], *answers, next(outputs)
        found.append((number, Counterfactual(*row, classes=flip.words(*answers))))
    return found
