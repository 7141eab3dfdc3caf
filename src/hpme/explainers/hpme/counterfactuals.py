"""The smallest regions whose exchange for one of another real graph changes the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.explainers.hpme.method.mixup import Mix
from hpme.explainers.hpme.method.pool import by_boundary, top_nodes
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.hpme.transplants import Transplants
from hpme.explainers.shared.context import Context, batches
from hpme.graphs import GraphStore
from hpme.graphs.segment import concatenated_ranges, exclusive_cumsum

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
        before: The prediction for the given graph: a class, or a value.
        after: The prediction for the changed one.
        outputs: What changed, before and after: the probability of the class that was predicted
            for the given graph, or the value.
        smiles: The changed molecule; ``None`` for other graphs.
        marked: The same with ``:1`` at atoms that come from elsewhere.
        similarity: Tanimoto similarity of Morgan fingerprints; ``None`` if it is no molecule.
        exchanged: Which groups of a molecule give way to which, in words or as SMILES.
        accessibility: How hard the molecule is to make, from 1 to 10 (RDKit's
            synthetic-accessibility score).
        known: Whether it is a molecule of the given ones or of the donors.
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

    @property
    def size(self) -> int:
        """Size of the change: nodes removed and nodes that come from elsewhere."""
        return int(self.changed.sum()) + int(self.removed.sum())

    def __str__(self) -> str:
        what = self.marked or f"{self.graph.num_nodes} nodes"
        change = f"{self.before:.4g} -> {self.after:.4g}"
        if (self.before, self.after) != self.outputs:
            change += " (p {:.2f} -> {:.2f})".format(*self.outputs)
        words = [f"{change} by {self.size} changed nodes"]
        words += [self.exchanged] if self.exchanged else []
        words += [f"similarity {self.similarity:.2f}"] if self.similarity is not None else []
        hard = self.accessibility
        words += [f"accessibility {hard:.1f}"] if hard is not None else []
        words += ["you have this one already"] if self.known else []
        return f"{', '.join(words)}: {what}"


@dataclass(frozen=True)
class Flip:
    """What counts as another answer.

    Args:
        context: The frozen model on the graphs.
        threshold: For values: the answer is on which side of it they are.
    """

    context: Context
    threshold: float | None

    def __post_init__(self) -> None:
        if self.context.task.classification and self.threshold is not None:
            raise InputError("classes need no threshold")
        if not self.context.task.classification and self.threshold is None:
            raise InputError("the model returns values; pass threshold=, the value to get past")

    def answer(self, values: Tensor) -> Tensor:
        """Classes, or values in their own unit, from :meth:`~hpme.models.task.Task.values`."""
        if self.context.task.classification:
            return values.argmax(1).double()
        return values[:, 0].double() * self.context.task.scale

    def output(self, values: Tensor, before: Tensor) -> Tensor:
        """The probability of the classes ``before``, or the value."""
        if not self.context.task.classification:
            return self.answer(values)
        return values.double().gather(1, before.long().view(-1, 1)).squeeze(1)

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


@dataclass(frozen=True)
class Swaps:
    """Regions of graphs of a mix that change places, one row for each.

    Args:
        graph: Number of the graph that is changed.
        donor: Number of the graph the new region comes from.
        removed: Boolean ``[nodes of all graphs in a row]``.
        chosen: Boolean ``[nodes of all donors in a row]``.
    """

    graph: Tensor
    donor: Tensor
    removed: Tensor
    chosen: Tensor

    def rows(self, which: Tensor, store: GraphStore) -> Swaps:
        """Some of them."""
        nodes = _nodes(store, self.graph, which)
        others = _nodes(store, self.donor, which)
        return Swaps(self.graph[which], self.donor[which], self.removed[nodes], self.chosen[others])

    def mixed(self, mix: HardMix) -> Mix:
        """The changed graphs."""
        store = mix.context.store
        host = store.batch(self.graph, with_pairs=True)
        source = store.batch(self.donor, with_pairs=True)
        gone = by_boundary(self.removed.unsqueeze(0), host, None)[0]
        come = by_boundary(self.chosen.unsqueeze(0), source, None)[0]
        return mix.mixed(source, come, host, gone, None)

    def size(self, store: GraphStore) -> Tensor:
        """Nodes removed and inserted by each."""
        count = len(self.graph)
        gone = torch.repeat_interleave(store.sizes[self.graph])[self.removed]
        come = torch.repeat_interleave(store.sizes[self.donor])[self.chosen]
        return torch.bincount(gone, minlength=count) + torch.bincount(come, minlength=count)


def _nodes(store: GraphStore, graphs: Tensor, which: Tensor) -> Tensor:
    """Places of the nodes of some rows, where the nodes of all rows are laid end to end."""
    sizes = store.sizes[graphs]
    return concatenated_ranges(exclusive_cumsum(sizes)[which], sizes[which])[0]


def flips(swaps: Swaps, transplants: Transplants, flip: Flip) -> tuple[Tensor, Tensor]:
    """Whether each swap changes the answer, and the new answer."""
    context = transplants.context
    before = flip.answer(context.values)
    answers = []
    for rows in batches(torch.arange(len(swaps.graph)), AT_ONCE):
        part = swaps.rows(rows, context.store)
        output = context.predict(part.mixed(transplants.mix).graphs)
        answers.append(flip.answer(context.task.values(output)))
    after = torch.cat(answers) if answers else before[:0]
    return flip.other(before[swaps.graph], after), after


def graph_counterfactuals(
    transplants: Transplants, flip: Flip, count: int
) -> list[list[Counterfactual]]:
    """At most ``count`` for every graph, from the kept hosts, the smallest change first.

    Regions are the first nodes of the pool's ranking; the smallest pair of sizes that changes the
    answer is pruned until no single node of either region can be left out.
    """
    mix, store = transplants.mix, transplants.context.store
    order = top_nodes(transplants.score, mix.graphs, mix.graphs.sizes).order[0]
    m = mix.m
    ids = torch.arange(transplants.count)
    found: list[list[Counterfactual]] = [[] for _ in ids]
    steps = torch.linspace(0, 1, SIZES)
    for donors in transplants.hosts:
        best, size = None, torch.full((transplants.count,), torch.inf)
        for gone in steps:
            for come in steps:
                swaps = Swaps(
                    ids,
                    donors,
                    _first(order, m, store, ids, gone),
                    _first(order, m, store, donors, come),
                )
                changed, _ = flips(swaps, transplants, flip)
                total = swaps.size(store).float().masked_fill(~changed, torch.inf)
                best = swaps if best is None else _better(best, swaps, total < size, store)
                size = torch.minimum(size, total)
        hit = size.isfinite().nonzero().view(-1)
        if best is not None and len(hit):
            for made in _made(_pruned(best.rows(hit, store), transplants, flip), transplants, flip):
                found[made[0]].append(made[1])
    for number, some in enumerate(found):
        some.sort(key=lambda one: one.size)
        found[number] = some[:count]
    return found


def _first(order: Tensor, m: Tensor, store: GraphStore, graphs: Tensor, share: Tensor) -> Tensor:
    """The first nodes of the ranking of some graphs, from one to the whole pool, end to end."""
    nodes, owner = concatenated_ranges(store.node_start[graphs], store.sizes[graphs])
    size = (1 + share * (m[graphs] - 1)).round()
    return order[nodes] < size[owner]


def _better(one: Swaps, other: Swaps, wins: Tensor, store: GraphStore) -> Swaps:
    """Row by row the other where it wins; both are about the same graphs and donors."""
    nodes = torch.repeat_interleave(wins, store.sizes[one.graph])
    others = torch.repeat_interleave(wins, store.sizes[one.donor])
    return Swaps(
        one.graph,
        one.donor,
        torch.where(nodes, other.removed, one.removed),
        torch.where(others, other.chosen, one.chosen),
    )


def _pruned(swaps: Swaps, transplants: Transplants, flip: Flip) -> Swaps:
    """Leaves out nodes as long as the answer stays changed: in the end, none can be."""
    store = transplants.context.store
    while True:
        trial_of, trial = _one_less(swaps, store)
        changed, _ = flips(trial, transplants, flip)
        first = torch.full((len(swaps.graph),), len(trial_of))
        good = changed.nonzero().view(-1)
        first = first.scatter_reduce(0, trial_of[good], good, "amin")
        better = first < len(trial_of)
        if not bool(better.any()):
            return swaps
        taken = trial.rows(first[better], store)
        row = better.nonzero().view(-1)
        removed, chosen = swaps.removed.clone(), swaps.chosen.clone()
        removed[_nodes(store, swaps.graph, row)] = taken.removed
        chosen[_nodes(store, swaps.donor, row)] = taken.chosen
        swaps = Swaps(swaps.graph, swaps.donor, removed, chosen)


def _one_less(swaps: Swaps, store: GraphStore) -> tuple[Tensor, Swaps]:
    """All swaps with one node less, and the row each comes from."""
    parts = []
    for side, graphs in ((swaps.removed, swaps.graph), (swaps.chosen, swaps.donor)):
        place = side.nonzero().view(-1)
        parts.append((torch.repeat_interleave(store.sizes[graphs])[place], place))
    rows = torch.cat([parts[0][0], parts[1][0]])
    again = swaps.rows(rows, store)
    gone, come = again.removed.clone(), again.chosen.clone()
    half = len(parts[0][0])
    for side, graphs, (owner, place), offset in (
        (gone, swaps.graph, parts[0], 0),
        (come, swaps.donor, parts[1], half),
    ):
        start = exclusive_cumsum(store.sizes[graphs])
        copies = exclusive_cumsum(store.sizes[graphs][rows])
        number = offset + torch.arange(len(owner))
        side[copies[number] + place - start[owner]] = False
    # A donor that gives nothing, or a graph that loses nothing, is allowed: both are smaller.
    return rows, Swaps(again.graph, again.donor, gone, come)


def _made(swaps: Swaps, transplants: Transplants, flip: Flip) -> list[tuple[int, Counterfactual]]:
    context = transplants.context
    store = context.store
    mix = swaps.mixed(transplants.mix)
    output = context.predict(mix.graphs)
    after = flip.answer(context.task.values(output))
    own = context.values[swaps.graph]
    before = flip.answer(own)
    outputs = torch.stack(
        [flip.output(values, before) for values in (own, context.task.values(output))], 1
    ).tolist()
    new = mix.origin >= int(store.sizes[swaps.graph].sum())
    graphs = GraphStore.from_graphs(mix.graphs.grouped().to(torch.device("cpu"))).to_data_list()
    changed = torch.split(new.cpu(), mix.graphs.sizes.tolist())
    removed = torch.split(swaps.removed.cpu(), store.sizes[swaps.graph].tolist())
    return [
        (
            int(swaps.graph[i]),
            Counterfactual(
                graphs[i],
                changed[i],
                removed[i],
                float(before[i]),
                float(after[i]),
                (outputs[i][0], outputs[i][1]),
            ),
        )
        for i in range(len(graphs))
    ]
