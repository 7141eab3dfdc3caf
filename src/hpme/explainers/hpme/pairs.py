"""Why the model's outputs for two graphs differ: their differing parts, exchanged in place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from hpme.errors import InputError
from hpme.explainers.hpme.effects import Effect
from hpme.explainers.hpme.grafting import BATCH, Featuriser
from hpme.explainers.hpme.quality import output_names
from hpme.explainers.hpme.search.criterion import outcome
from hpme.explainers.shared.context import Context, batches
from hpme.explainers.shared.explanation import Explanation, Explanations, table_of
from hpme.graphs import GraphStore

SECONDS = 2
"""Time for the common core of two molecules; what is found until then counts."""
MATCHES = 16
"""Ways to lay the core on a molecule that are compared."""
ROUNDS = 3
"""Times that nodes of other graphs are matched, and that neighbours are heard."""
NOTHING = 1e-9


@dataclass(frozen=True)
class PairPart:
    """A place at which two graphs differ.

    Args:
        first, second: Its nodes in either graph, boolean; in one of them there may be none.
        change: How much the output rises if it becomes as in the second graph: the mean of the
            change in the first graph as it is, and of that which is missing in the second one.
        alone: How much it rises in the first graph.
    """

    first: Tensor
    second: Tensor
    change: float
    alone: float


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
        way = self.difference or math.nan
        return [
            {
                "part": number,
                "first_nodes": part.first.nonzero().view(-1).tolist(),
                "second_nodes": part.second.nonzero().view(-1).tolist(),
                "change": part.change,
                "share": part.change / way,
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
    """Two graphs as one, matched nodes once; what is in one alone falls into parts.

    Args:
        place: Number of every node in the first and the second graph, ``[2, U]``; -1 if not there.
        ends: Ends of every edge, ``[2, W]``.
        edge: Number of every edge in either graph, ``[2, W]``; -1 if not there.
        part: Number of the part of every node ``[U]``; -1 for nodes that touch nothing different.
    """

    place: Tensor
    ends: Tensor
    edge: Tensor
    part: Tensor

    @classmethod
    def of(
        cls,
        pairs: Sequence[tuple[int, int]],
        graphs: Sequence[Any],
        same: Callable[[int, int], bool],
    ) -> JoinedPair:
        """Of matched nodes; ``same`` says whether two edges, by number, are."""
        n, m = (int(graph.num_nodes) for graph in graphs)
        matched = torch.tensor(pairs, dtype=torch.long).view(-1, 2)
        number = [torch.arange(n), torch.full((m,), -1)]
        number[1][matched[:, 1]] = matched[:, 0]
        alone = (number[1] < 0).nonzero().view(-1)
        number[1][alone] = n + torch.arange(len(alone))
        place = torch.full((2, n + len(alone)), -1)
        for side in (0, 1):
            place[side, number[side]] = torch.arange(len(number[side]))
        edges: dict[tuple[int, int], list[int]] = {}
        for side, graph in enumerate(graphs):
            for row, (u, v) in enumerate(number[side][graph.edge_index].T.tolist()):
                edges.setdefault((u, v), [-1, -1])[side] = row
        rows = []
        for (u, v), (first, second) in edges.items():
            if first >= 0 and second >= 0 and not same(first, second):
                rows += [(u, v, first, -1), (u, v, -1, second)]
            else:
                rows.append((u, v, first, second))
        table = torch.tensor(rows, dtype=torch.long).view(-1, 4).T
        ends, edge = table[:2], table[2:]
        apart = ends[:, (edge < 0).any(0)].numpy()
        size = place.shape[1]
        sparse = import_module("scipy.sparse")
        links = sparse.coo_matrix((torch.ones(apart.shape[1]).numpy(), apart), shape=(size, size))
        label = import_module("scipy.sparse.csgraph").connected_components(links, False)[1]
        label = torch.from_numpy(label).long()
        differs = (place < 0).any(0)
        differs[torch.from_numpy(apart).flatten()] = True
        known = torch.unique(label[differs])
        part = torch.where(differs, torch.searchsorted(known, label), -1)
        found = cls(place, ends, edge, part)
        return found if len(matched) else found.merged()

    @property
    def count(self) -> int:
        """Number of parts."""
        return int(self.part.max()) + 1 if len(self.part) else 0

    def merged(self) -> JoinedPair:
        """The same with all that differs as one part."""
        return JoinedPair(self.place, self.ends, self.edge, self.part.clamp(max=0))

    def nodes(self, part: int) -> tuple[Tensor, Tensor]:
        """Nodes of a part that are in the first, and in the second graph alone, boolean."""
        masks = []
        for side in (0, 1):
            mask = torch.zeros(int(self.place[side].max()) + 1, dtype=torch.bool)
            alone = (self.part == part) & (self.place[1 - side] < 0)
            mask[self.place[side, alone]] = True
            masks.append(mask)
        return masks[0], masks[1]

    def hybrid(self, swapped: set[int]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The first graph with some parts of the second.

        Returns:
            The graph that each node is taken from, its number there, the edges that there are, and
            the graph that each is taken from.
        """
        second = torch.isin(self.part, torch.tensor(sorted(swapped), dtype=torch.long)).long()
        source = self.place.gather(0, second.unsqueeze(0))[0]
        own = second[self.ends[0]]  # both ends of an edge that differs are of one part
        edge = self.edge.gather(0, own.unsqueeze(0))[0]
        there = edge >= 0
        number = (source >= 0).long().cumsum(0) - 1
        kept = source >= 0
        ends = torch.stack([number[self.ends[:, there][i]] for i in (0, 1)])
        return (
            second[kept],
            source[kept],
            torch.cat([ends, edge[there].view(1, -1)]),
            own[there],
        )


# Molecules ########################################################################################


def atom_pairs(first: Any, second: Any) -> list[tuple[int, int]]:
    """Atoms of the common core of two molecules that are the same, by RDKit's search for it.

    Both a core of equal atoms and one of any atoms are tried: the latter spans what was exchanged
    in the middle. That with most equal atoms counts.
    """
    mcs, chem = import_module("rdkit.Chem.rdFMCS"), import_module("rdkit.Chem")
    best: list[tuple[int, int]] = []
    for compare in (mcs.AtomCompare.CompareElements, mcs.AtomCompare.CompareAny):
        found = mcs.FindMCS(
            [first, second],
            atomCompare=compare,
            ringMatchesRingOnly=True,
            completeRingsOnly=True,
            timeout=SECONDS,
        )
        query = chem.MolFromSmarts(found.smartsString) if found.smartsString else None
        if query is None:
            continue
        one = first.GetSubstructMatch(query)
        for other in second.GetSubstructMatches(query, uniquify=False, maxMatches=MATCHES):
            same = [
                (i, j)
                for i, j in zip(one, other, strict=True)
                if _atom(first.GetAtomWithIdx(i)) == _atom(second.GetAtomWithIdx(j))
            ]
            best = same if len(same) > len(best) else best
    return best


def _atom(atom: Any) -> tuple[Any, ...]:
    return (
        atom.GetAtomicNum(),
        atom.GetFormalCharge(),
        atom.GetIsAromatic(),
        atom.GetIsotope(),
        atom.IsInRing(),
    )


def _molecule(union: JoinedPair, swapped: set[int], molecules: Sequence[Any]) -> str | None:
    """SMILES of the first molecule with some parts of the second; ``None`` if there is none."""
    chem = import_module("rdkit.Chem")
    made = chem.RWMol()
    source, atoms, table, own = union.hybrid(swapped)
    for side, atom in zip(source.tolist(), atoms.tolist(), strict=True):
        made.AddAtom(molecules[side].GetAtomWithIdx(atom))
    for u, v, bond, side in zip(*table.tolist(), own.tolist(), strict=True):
        if u < v:
            kind = molecules[side].GetBondWithIdx(bond // 2).GetBondType()
            made.AddBond(u, v, kind)
    try:
        chem.SanitizeMol(made)
        text: str = chem.MolToSmiles(made, isomericSmiles=False)
    except ValueError:
        return None
    return text if chem.MolFromSmiles(text) is not None else None


def _bonds(molecule: Any) -> Data:
    """A molecule as edges, of which those of a bond follow each other."""
    ends = [(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in molecule.GetBonds()]
    both = [pair for u, v in ends for pair in ((u, v), (v, u))]
    edge_index = torch.tensor(both, dtype=torch.long).view(-1, 2).T
    return Data(edge_index=edge_index, num_nodes=molecule.GetNumAtoms())


def _of_molecules(texts: Sequence[str]) -> tuple[JoinedPair, Any]:
    """Two molecules as one, and what makes another of them."""
    chem = import_module("rdkit.Chem")
    molecules = [chem.MolFromSmiles(text) for text in texts]
    graphs = [_bonds(molecule) for molecule in molecules]

    def same(one: int, other: int) -> bool:
        first, second = molecules
        kind = first.GetBondWithIdx(one // 2).GetBondType()
        return bool(kind == second.GetBondWithIdx(other // 2).GetBondType())

    union = JoinedPair.of(atom_pairs(*molecules), graphs, same)
    plain = [chem.MolToSmiles(molecule, isomericSmiles=False) for molecule in molecules]
    ends = [_molecule(union, some, molecules) for some in (set(), set(range(union.count)))]
    alone = [_molecule(union, {i}, molecules) for i in range(union.count)]
    if ends != plain or None in alone:
        union = union.merged()
    return union, lambda swapped: _molecule(union, swapped, molecules)


# Other graphs #####################################################################################


def node_pairs(first: Any, second: Any) -> list[tuple[int, int]]:
    """Nodes of two graphs of the same features that are matched, by what is around them."""
    kind = torch.unique(torch.cat([first.x, second.x]), dim=0, return_inverse=True)[1]
    n = first.num_nodes
    heard = torch.nn.functional.one_hot(kind).double()
    links = torch.cat([first.edge_index, second.edge_index + n], dim=1)
    near = torch.zeros(len(kind), len(kind), dtype=torch.double)
    near[links[1], links[0]] = 1
    like = torch.zeros(n, len(kind) - n, dtype=torch.double)
    for _ in range(ROUNDS + 1):
        unit = torch.nn.functional.normalize(heard, dim=1)
        like += unit[:n] @ unit[n:].T
        heard = heard + near @ heard
    fits = kind[:n].unsqueeze(1) == kind[n:].unsqueeze(0)
    like = like + 1e-6 * torch.eye(*like.shape)  # copies are numbered alike
    assign = import_module("scipy.optimize").linear_sum_assignment
    bonus = torch.zeros_like(like)
    for _ in range(ROUNDS):
        rows, columns = assign((~fits * 1e6 - like - bonus).numpy())
        chosen = torch.zeros_like(like)
        chosen[rows, columns] = 1
        bonus = near[:n, :n] @ (chosen * fits) @ near[n:, n:].T
    return [(i, j) for i, j in zip(rows.tolist(), columns.tolist(), strict=True) if fits[i, j]]


def _of_graphs(graphs: Sequence[Any]) -> tuple[JoinedPair, Any]:
    """Two graphs as one, and what makes another of them."""
    attributes = [g.get("edge_attr") for g in graphs]

    def same(one: int, other: int) -> bool:
        if attributes[0] is None:
            return True
        return bool(torch.equal(attributes[0][one], attributes[1][other]))

    union = JoinedPair.of(node_pairs(*graphs), graphs, same)

    def make(swapped: set[int]) -> Data:
        side, nodes, table, own = union.hybrid(swapped)
        made = Data(edge_index=table[:2], num_nodes=len(nodes))
        for name, rows, place in (("x", nodes, side), ("edge_attr", table[2], own)):
            values = [graph.get(name) for graph in graphs]
            if values[0] is not None:
                stacked = torch.cat(values)
                made[name] = stacked[rows + place * len(values[0])]
        return made

    return union, make


# Both #############################################################################################


@torch.no_grad()
def differences(
    context: Context, store: GraphStore, featuriser: Featuriser | None
) -> PairDifferences:
    """Why outputs differ between the graphs of even number and those that follow them.

    Args:
        context: The frozen model on the graphs.
        store: The graphs, pair after pair.
        featuriser: Makes graphs of molecules, if they are such.
    """
    graphs = store.to_data_list()
    made: list[Any] = []
    asked: list[tuple[int, str, int]] = []
    unions = []
    for number in range(0, len(graphs), 2):
        two = graphs[number : number + 2]
        union, make = _of_molecules([g.smiles for g in two]) if featuriser else _of_graphs(two)
        every = set(range(union.count))
        unions.append(union)
        for part in every if len(every) > 1 else ():
            for word, swapped in (("alone", {part}), ("last", every - {part})):
                one = make(swapped)
                if one is not None:
                    asked.append((number, word, part))
                    made.append(one)
    pair = torch.arange(len(graphs), device=context.device) // 2 * 2
    own = outcome(context, _own(context), pair)[0].tolist()
    values = dict(zip(asked, _ask(context, featuriser, made, asked), strict=True))
    names = output_names(context, len(graphs))
    found = PairDifferences()
    for number, union in zip(range(0, len(graphs), 2), unions, strict=True):
        before, after = own[number : number + 2]
        parts = []
        for part in range(union.count):
            alone = values.get((number, "alone", part), after) - before
            last = after - values.get((number, "last", part), before)
            parts.append(PairPart(*union.nodes(part), (alone + last) / 2, alone))
        parts.sort(key=lambda one: -abs(one.change))
        both = (graphs[number], graphs[number + 1])
        found.append(PairDifference(before, after, parts, both, names[number]))
    return found


def _own(context: Context) -> Tensor:
    parts = batches(torch.arange(len(context.store)), BATCH)
    return torch.cat([context.predict(context.store.batch(ids)) for ids in parts]).unsqueeze(0)


def _ask(
    context: Context, featuriser: Featuriser | None, made: list[Any], asked: list[Any]
) -> list[float]:
    """The explained number of graphs that were made, for the class of their pair."""
    if not made:
        return []
    store = featuriser(made) if featuriser else GraphStore.from_graphs(made)
    found = []
    for ids in batches(torch.arange(len(store)), BATCH):
        found.append(context.predict(store.batch(ids).to(context.device)))
    pair = torch.tensor([one[0] for one in asked], device=context.device)
    values: list[float] = outcome(context, torch.cat(found).unsqueeze(0), pair)[0].tolist()
    return values


def check_pairs(first: GraphStore, second: GraphStore) -> None:
    """Refuses what are no pairs."""
    if len(first) != len(second) or not len(first):
        raise InputError(
            f"{len(first)} first and {len(second)} second graphs make no pairs; give as many of "
            "each, and at least one"
        )
    if first.schema is not None or first.anchors is not None:
        raise InputError("pairs are graphs without types that are not about single nodes")
