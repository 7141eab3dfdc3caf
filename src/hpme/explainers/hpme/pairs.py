"""Why the model's outputs for two graphs differ: their differing parts, exchanged in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from hpme.data.molecules.exchanges import shared_atoms
from hpme.errors import InputError
from hpme.explainers.hpme.effects import Effect
from hpme.explainers.hpme.grafting import BATCH, Featuriser, Grafting
from hpme.explainers.hpme.quality import output_names
from hpme.explainers.hpme.search.criterion import outcome, value_of
from hpme.explainers.shared.context import Context, batches
from hpme.explainers.shared.explanation import Explanation, Explanations, table_of
from hpme.graphs import GraphStore
from hpme.graphs.edges import connected_parts

ROUNDS = 3
"""Times that nodes of other graphs are matched, and that neighbours are heard."""
NOTHING = 1e-9


@dataclass(frozen=True)
class PairPart:
    """A place at which two graphs differ.

    The ``change`` is the mean of that in the first graph as it is, and of what the second one
    misses.
    """

    first: Tensor  # its nodes in the first graph, boolean; there may be none
    second: Tensor  # in the second graph
    change: float  # how much the output rises if it becomes as in the second graph
    alone: float  # how much it rises in the first graph


@dataclass(frozen=True)
class PairDifference:
    """Why the output differs between two graphs.

    Args:
        before, after: Outputs of the first and the second graph: the value, or the probability of
            the explained class, which is by default that of the first graph.
        parts: Where they differ, the largest change first.
        graphs: Both, as they were given.
        output: What the output is called.
    """

    before: float
    after: float
    parts: list[PairPart]
    graphs: tuple[Any, Any] = field(repr=False)
    output: str = "the output"

    @property
    def difference(self) -> float:
        """How much higher the output of the second graph is."""
        return self.after - self.before

    @property
    def interaction(self) -> float:
        """What the parts do only together: the difference without what each does alone."""
        return self.difference - sum(part.alone for part in self.parts)

    def rows(self) -> list[dict[str, Any]]:
        """A row per part."""
        return [
            {
                "part": number,
                "first_nodes": part.first.nonzero().view(-1).tolist(),
                "second_nodes": part.second.nonzero().view(-1).tolist(),
                "change": part.change,
                "share": part.change / self.difference if self.difference else None,
                "alone": part.alone,
                "before": self.before,
                "after": self.after,
                "interaction": self.interaction,
            }
            for number, part in enumerate(self.parts)
        ]

    def __str__(self) -> str:
        parts = [
            f"{int(p.second.sum())} nodes in place of {int(p.first.sum())} {p.change:+.3g}"
            for p in self.parts
        ]
        together = f", only together {self.interaction:+.3g}" if len(parts) > 1 else ""
        names = f"{self.output} {self.before:.3g} -> {self.after:.3g} ({self.difference:+.3g})"
        return f"{names}: {', '.join(parts) or 'the graphs do not differ'}{together}"


class PairDifferences(list[PairDifference]):
    """Differences of many pairs."""

    def to_frame(self) -> Any:
        """A pandas table with a row per part of every pair."""
        return table_of([{"pair": n, **row} for n, one in enumerate(self) for row in one.rows()])

    def explanations(self) -> Explanations:
        """Both graphs of every pair, one after the other, with the parts and what they do."""
        found = []
        for one in self:
            for side, graph in enumerate(one.graphs):
                size, sign = int(graph.num_nodes), 2 * side - 1
                change = torch.zeros(size, dtype=torch.double)
                pooled = torch.zeros(size, dtype=torch.bool)
                for part in one.parts:
                    nodes = part.second if side else part.first
                    change[nodes] = sign * part.change / max(1, int(nodes.sum()))
                    pooled |= nodes
                weight = change.abs() / max(NOTHING, float(change.abs().max()))
                ends = weight[graph.edge_index].amin(0)
                made = Explanation(**graph.to_dict(), edge_mask=ends, node_mask=weight.view(-1, 1))
                made.pooled = pooled
                total = sign * one.difference
                made.effect = Effect(total, total, total, change.view(-1, 1).expand(-1, 3))
                found.append(made)
        return Explanations(found)


@dataclass(frozen=True)
class JoinedPair:
    """Two graphs as one, matched nodes once; what is in one alone falls into parts."""

    place: Tensor  # number of every node in the first and the second graph [2, U]; -1 if not there
    ends: Tensor  # of every edge [2, W]
    kind: Tensor  # of every edge; edges of other kinds are others [W]
    edge: Tensor  # number of every edge in either graph [2, W]; -1 if not there
    part: Tensor  # of every node [U]; -1 for nodes that touch nothing different

    @classmethod
    def of(
        cls, matched: Sequence[tuple[int, int]], graphs: Sequence[Any], kinds: Sequence[Tensor]
    ) -> JoinedPair:
        """Of matched nodes, and of the kinds of edges of both graphs."""
        pairs = torch.tensor(matched, dtype=torch.long).view(-1, 2)
        number = [torch.arange(graphs[0].num_nodes), torch.full((graphs[1].num_nodes,), -1)]
        number[1][pairs[:, 1]] = pairs[:, 0]
        alone = number[1] < 0
        number[1][alone] = len(number[0]) + torch.arange(int(alone.sum()))
        size = len(number[0]) + int(alone.sum())
        tables = [
            torch.cat([number[side][graphs[side].edge_index], kinds[side].view(1, -1)])
            for side in (0, 1)
        ]
        rows, inverse = torch.unique(torch.cat(tables, 1), dim=1, return_inverse=True)
        place, edge = torch.full((2, size), -1), torch.full((2, rows.shape[1]), -1)
        for side, where in enumerate((inverse[: len(kinds[0])], inverse[len(kinds[0]) :])):
            place[side, number[side]] = torch.arange(len(number[side]))
            edge[side, where] = torch.arange(len(where))
        apart = rows[:2, (edge < 0).any(0)]
        differs = (place < 0).any(0).index_fill(0, apart.flatten(), True)
        order = torch.unique(connected_parts(apart, size)[differs], return_inverse=True)[1]
        part = torch.full((size,), -1)
        part[differs] = order
        found = cls(place, rows[:2], rows[2], edge, part)
        return found if len(pairs) else found.merged()

    @property
    def count(self) -> int:
        """Number of parts."""
        return int(self.part.max()) + 1

    def merged(self) -> JoinedPair:
        """The same with all that differs as one part."""
        return replace(self, part=self.part.clamp(max=0))

    def nodes(self, part: int, side: int) -> Tensor:
        """Nodes of a part that are in the first graph alone, or in the second, boolean."""
        own, other = self.place[side], self.place[1 - side]
        nothing = torch.zeros(int(own.max()) + 1, dtype=torch.bool)
        return nothing.index_fill(0, own[(self.part == part) & (other < 0)], True)

    def hybrid(self, swapped: set[int]) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The first graph with some parts of the second.

        The graph and number that each node is taken from; ends of the edges, their numbers, and
        graphs.
        """
        side = torch.isin(self.part, torch.tensor(sorted(swapped), dtype=torch.long)).long()
        node = self.place.gather(0, side.unsqueeze(0))[0]
        own = side[self.ends[0]]  # both ends of an edge that differs are of one part
        there = (self.edge.gather(0, own.unsqueeze(0))[0] >= 0).nonzero().view(-1)
        number = (node >= 0).long().cumsum(0) - 1
        kept = node >= 0
        return side[kept], node[kept], number[self.ends[:, there]], there, own[there]


Make = Callable[[set[int]], Any]
"""Makes the first graph with some parts of the second; ``None`` where that is no graph."""


def _molecules(graphs: Sequence[Any]) -> tuple[JoinedPair, Make]:
    """Two molecules as one, and what makes another of them."""
    chem = import_module("rdkit.Chem")
    molecules = [chem.MolFromSmiles(graph.smiles) for graph in graphs]
    kinds = [
        torch.tensor([int(mol.GetBondBetweenAtoms(u, v).GetBondType()) for u, v in ends])
        for mol, ends in zip(molecules, (g.edge_index.T.tolist() for g in graphs), strict=True)
    ]
    joined = JoinedPair.of(shared_atoms(*molecules), graphs, [kind.long() for kind in kinds])

    def make(swapped: set[int]) -> str | None:
        made = chem.RWMol()
        side, atoms, ends, edge, _ = joined.hybrid(swapped)
        for one, atom in zip(side.tolist(), atoms.tolist(), strict=True):
            made.AddAtom(molecules[one].GetAtomWithIdx(atom))
        for u, v, kind in zip(*ends.tolist(), joined.kind[edge].tolist(), strict=True):
            if u < v:
                made.AddBond(u, v, chem.BondType.values[kind])
        try:
            chem.SanitizeMol(made)
            text: str = chem.MolToSmiles(made, isomericSmiles=False)
        except ValueError:
            return None
        return text if chem.MolFromSmiles(text) is not None else None

    every = range(joined.count)
    plain = [chem.MolToSmiles(molecule, isomericSmiles=False) for molecule in molecules]
    if [make(set()), make({*every})] != plain or any(make({part}) is None for part in every):
        joined = joined.merged()
    return joined, make


def _graphs(graphs: Sequence[Any]) -> tuple[JoinedPair, Make]:
    """Two graphs as one, and what makes another of them."""
    counts = [graph.edge_index.shape[1] for graph in graphs]
    kinds = torch.zeros(sum(counts), dtype=torch.long)
    if graphs[0].get("edge_attr") is not None:
        features = torch.cat([graph.edge_attr for graph in graphs])
        kinds = torch.unique(features, dim=0, return_inverse=True)[1]
    two = kinds[: counts[0]], kinds[counts[0] :]
    joined = JoinedPair.of(node_pairs(*graphs), graphs, two)

    def make(swapped: set[int]) -> Data:
        side, nodes, ends, edge, own = joined.hybrid(swapped)
        edges = joined.edge[own, edge]
        made = Data(edge_index=ends, num_nodes=len(nodes))
        for name, rows, place in (("x", nodes, side), ("edge_attr", edges, own)):
            values = [graph.get(name) for graph in graphs]
            if values[0] is not None:
                made[name] = torch.cat(values)[rows + place * len(values[0])]
        return made

    return joined, make


def node_pairs(first: Any, second: Any) -> list[tuple[int, int]]:
    """Nodes of two graphs of the same features that are matched, by what is around them."""
    kind = torch.unique(torch.cat([first.x, second.x]), dim=0, return_inverse=True)[1]
    n = first.num_nodes
    heard = torch.nn.functional.one_hot(kind).double()
    links = torch.cat([first.edge_index, second.edge_index + n], dim=1)
    near = torch.zeros(len(kind), len(kind), dtype=torch.double)
    near[links[1], links[0]] = 1
    like = 1e-6 * torch.eye(n, len(kind) - n, dtype=torch.double)  # copies are numbered alike
    for _ in range(ROUNDS + 1):
        unit = torch.nn.functional.normalize(heard, dim=1)
        like += unit[:n] @ unit[n:].T
        heard = heard + near @ heard
    fits = kind[:n].unsqueeze(1) == kind[n:].unsqueeze(0)
    assign = import_module("scipy.optimize").linear_sum_assignment
    bonus = torch.zeros_like(like)
    for _ in range(ROUNDS):
        rows, columns = assign((~fits * 1e6 - like - bonus).numpy())
        chosen = torch.zeros_like(like)
        chosen[rows, columns] = 1
        bonus = near[:n, :n] @ (chosen * fits) @ near[n:, n:].T
    return [(i, j) for i, j in zip(rows.tolist(), columns.tolist(), strict=True) if fits[i, j]]


@torch.no_grad()
def differences(
    context: Context, store: GraphStore, featuriser: Featuriser | None
) -> PairDifferences:
    """Why outputs differ between the graphs of even number and those that follow them."""
    graphs, join = store.to_data_list(), _molecules if featuriser else _graphs
    joined: list[JoinedPair] = []
    made: dict[tuple[int, str, int], Any] = {}
    for number in range(0, len(graphs), 2):
        pair, make = join(graphs[number : number + 2])
        joined.append(pair)
        every = set(range(pair.count))
        for part in every if len(every) > 1 else ():
            made[number, "alone", part] = make({part})
            made[number, "last", part] = make(every - {part})
    asked = [key for key, graph in made.items() if graph is not None]
    ids, hybrids = [key[0] for key in asked], [made[key] for key in asked]
    values = dict(zip(asked, _values(context, featuriser, ids, hybrids), strict=True))
    pairs = torch.arange(len(graphs), device=context.device) // 2 * 2
    own = value_of(context, context.values.unsqueeze(0), pairs)[0].tolist()
    names, found = output_names(context, len(graphs)), PairDifferences()
    for number, pair in zip(range(0, len(graphs), 2), joined, strict=True):
        before, after = own[number : number + 2]
        parts = []
        for part in range(pair.count):
            alone = values.get((number, "alone", part), after) - before
            last = after - values.get((number, "last", part), before)
            parts.append(
                PairPart(pair.nodes(part, 0), pair.nodes(part, 1), (alone + last) / 2, alone)
            )
        parts.sort(key=lambda one: -abs(one.change))
        both = (graphs[number], graphs[number + 1])
        found.append(PairDifference(before, after, parts, both, names[number]))
    return found


def _values(
    context: Context, featuriser: Featuriser | None, ids: list[int], made: list[Any]
) -> list[float]:
    """The explained number of graphs that were made, as of the graphs of some numbers."""
    if featuriser is not None or not made:
        return Grafting(context, featuriser, (), 0).values(ids, made) if featuriser else []
    store = GraphStore.from_graphs(made)
    parts = batches(torch.arange(len(store)), BATCH)
    output = torch.cat([context.predict(store.batch(b).to(context.device)) for b in parts])
    pair = torch.tensor(ids, device=context.device)
    found: list[float] = outcome(context, output.unsqueeze(0), pair)[0].tolist()
    return found


def check_pairs(first: GraphStore, second: GraphStore) -> None:
    """Refuses what are no pairs."""
    if len(first) != len(second) or not len(first):
        raise InputError(
            f"{len(first)} first and {len(second)} second graphs make no pairs; give as many of "
            "each, and at least one"
        )
    if first.schema is not None or first.anchors is not None:
        raise InputError("pairs are graphs without types that are not about single nodes")
