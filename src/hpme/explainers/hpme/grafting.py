"""Evidence about molecules by transplants that chemistry allows, with the model's own features."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from importlib import import_module
from typing import Any, cast

import torch
from torch import Tensor
from torch_geometric.utils import from_smiles as pyg_from_smiles

from hpme.data.molecules.anatomy import Anatomy, Graft, graft_of, pick, random_region
from hpme.data.molecules.grafts import Hosts, Transplant, fillers_of, insert, insert_many, remove
from hpme.data.molecules.smiles import from_smiles
from hpme.errors import HPMEError, InputError
from hpme.explainers.hpme.evidence import Trials, far
from hpme.explainers.hpme.search.criterion import outcome, value_of
from hpme.explainers.shared.context import Context
from hpme.graphs import GraphStore
from hpme.graphs.segment import exclusive_cumsum
from hpme.models.explained import ExplainedModel, HeldModel

DRAWS = 16
"""Hosts per graph: enough for intervals. Of molecules also random regions, and fillers."""
FEWEST = 4
"""Pairs of transplants, with a region and a random one, below which grafts say too little."""
BATCH = 512
TRIALS = ("inserted", "random", "removed", "spared")
Featurise = Callable[[Sequence[str]], Sequence[Any]]
"""Graphs of SMILES, as the model was trained on them."""


def default_featurise(
    store: GraphStore, known: Featurise | None = None, *, hydrogens: bool = True
) -> Featurise:
    """What makes the first of the graphs again: ``known``, or hpme's own features, or PyG's."""

    def ours(smiles: Sequence[str], whole: bool = False) -> Sequence[Any]:
        labels = [0] * len(smiles)
        return list(from_smiles(smiles, labels, hydrogens=whole, progress=False, on_error="raise"))

    def theirs(smiles: Sequence[str]) -> Sequence[Any]:
        return [pyg_from_smiles(text) for text in smiles]

    given = store.subset(torch.tensor([0]))
    asked: list[Featurise] = [ours, theirs, *[partial(ours, whole=True)] * hydrogens]
    for featurise in [known] if known else asked:
        made = GraphStore.from_graphs(list(featurise(given.text["smiles"]))).x
        if made.shape == given.x.shape and torch.equal(made.to(given.x), given.x):
            return featurise
    raise InputError(
        "the molecules have other features than hpme's own and those of PyG's from_smiles; pass "
        "featurise=, a function from a list of SMILES to graphs as the model was trained on them"
    )


@dataclass(frozen=True)
class Featuriser:
    """Graphs of SMILES as a model was trained on them; what is made has the types of those like."""

    like: GraphStore
    featurise: Featurise

    @classmethod
    def of(cls, model: ExplainedModel, store: GraphStore) -> Featuriser | None:
        """The one that makes the first of the graphs again; ``None`` if none does."""
        if not all(store.text.get("smiles", ("",))) or store.anchors is not None:
            return None
        try:
            return cls(store, default_featurise(store, model.featurise, hydrogens=False))
        except (HPMEError, ValueError, RuntimeError):
            return None

    def __call__(self, smiles: Sequence[str]) -> GraphStore:
        """The graphs of molecules."""
        store = GraphStore.from_graphs(list(self.featurise(smiles)))
        node, edge = (
            {k: v.to(known[k]) for k, v in group.items() if k in known}
            for group, known in ((store.node, self.like.node), (store.edge, self.like.edge))
        )
        return replace(store, node=node, edge=edge, graph={})

    def fits(self, store: GraphStore) -> Tensor:
        """Whether each graph is that of its SMILES, node by node."""
        try:
            made = self(store.text["smiles"])
        except (HPMEError, ValueError, RuntimeError):
            return torch.zeros(len(store), dtype=torch.bool)
        same = (made.sizes == store.sizes.cpu()) & (made.edge_counts == store.edge_counts.cpu())
        one, other = (s.x.cpu()[same[s.node_graph.cpu()]] for s in (made, store))
        if one.shape != other.shape:
            return torch.zeros_like(same)
        graph = made.node_graph[same[made.node_graph]]
        same[graph[(one != other).flatten(1).any(1)]] = False
        return same


class Grafting:
    """Kept molecules as hosts, and what the model says about them; all is drawn by the seed."""

    def __init__(
        self, context: Context, featuriser: Featuriser, smiles: Sequence[str], seed: int
    ) -> None:
        self.context, self.featuriser, self.seed = context, featuriser, seed
        self.smiles = list(smiles)
        self.anatomies = [anatomy_of(text) for text in self.smiles]
        known = context.adapter.explained
        self.found: dict[str, Any] = known.found if isinstance(known, HeldModel) else {}

    @cached_property
    def fits(self) -> Tensor:
        """Whether each of the graphs is that of its SMILES."""
        return self.featuriser.fits(self.featuriser.like)

    @cached_property
    def fillers(self) -> dict[int, list[Graft]]:
        """Alkyl and phenyl groups of the kept molecules."""
        return fillers_of(self.anatomies)

    @property
    def outputs(self) -> Tensor:
        """Outputs of the kept molecules ``[H, C]``, asked for once while a model is held."""
        if "outputs of molecules" not in self.found:
            self.found["outputs of molecules"] = self.ask(self.smiles)
        return cast(Tensor, self.found["outputs of molecules"])

    def ask(self, smiles: Sequence[str]) -> Tensor:
        """Outputs of the model on molecules."""
        parts = (smiles[start : start + BATCH] for start in range(0, len(smiles), BATCH))
        graphs = (self.featuriser(part).batch().to(self.context.device) for part in parts)
        return torch.cat([self.context.predict(some) for some in graphs])

    def trials(self, store: GraphStore, pooled: Tensor) -> Trials:
        """Transplants of pooled nodes, boolean, of a store, the first graphs of the context."""
        count, smiles, context = len(store), store.text["smiles"], self.context
        ids, chosen = torch.arange(count, device=context.device), self.featuriser.fits(store)
        spread = self.outputs.view(len(self.smiles), 1, -1).expand(-1, count, -1)
        hosts = outcome(context, spread, ids).double()
        own = value_of(context, context.values[None, :count], ids)[0].double()
        parts = pooled.cpu().split(store.sizes.tolist())  # type: ignore[no-untyped-call]
        texts: dict[tuple[int, ...], str] = {}
        made: dict[tuple[int, int], tuple[Any, Any, Any]] = {}
        numbers, there = torch.zeros(DRAWS, count, dtype=torch.long), far(own - hosts).cpu()
        for graph in chosen.nonzero().view(-1).tolist():
            some = there[:, graph].nonzero().view(-1)
            numbers[:, graph] = some.repeat(DRAWS)[:DRAWS]
            for name, draw, one, host in self._made(smiles[graph], parts[graph], some.tolist()):
                texts[TRIALS.index(name), draw, graph] = text_of(one)
                if name == "inserted":
                    numbers[draw, graph] = host
                    before = one
                elif name == "random":  # it follows the region in the same host
                    bare = self.anatomies[host]
                    as_it_is = (-1,) * bare.size, tuple(range(bare.size))
                    made[graph, draw] = Transplant(bare.molecule, *as_it_is), before, one
        tables = self.table((len(TRIALS), DRAWS, count), texts, [graph for *_, graph in texts])
        hosts = hosts.gather(0, numbers.to(ids.device))
        inserted, random, removed, spared = tables
        enough = (tables[::2] + tables[1::2]).isfinite().sum(1) >= FEWEST
        share = tables.isfinite().double().mean((0, 1)) * enough.any(0)
        tables[:2, :, ~enough[0]] = torch.nan
        share = torch.where(chosen.to(ids.device), share, torch.nan)
        bounded = context.task.classification
        return Trials(own, hosts, inserted, random, removed, spared, bounded, share, made)

    def table(
        self, shape: Sequence[int], made: Mapping[tuple[int, ...], str], graphs: Sequence[int]
    ) -> Tensor:
        """The explained number of molecules by their places, and NaN, as :meth:`values`."""
        table = torch.full(tuple(shape), torch.nan, dtype=torch.double, device=self.context.device)
        if made:
            values = torch.tensor(self.values(graphs, list(made.values())), dtype=torch.double)
            table[torch.tensor(list(made)).unbind(1)] = values.to(table)
        return table

    def values(self, graphs: Sequence[int], made: Sequence[str]) -> list[float]:
        """The explained number of molecules made of graphs; each of them is asked about once."""
        if not made:
            return []
        once = {text: place for place, text in enumerate(dict.fromkeys(made))}
        output = self.ask(list(once))[torch.tensor([once[text] for text in made])]
        ids = torch.tensor(graphs, device=output.device)
        values: list[float] = outcome(self.context, output.view(1, len(made), -1), ids)[0].tolist()
        return values

    def without(
        self, store: GraphStore, pooled: Tensor, draws: int, *, nodes: bool
    ) -> tuple[Tensor, Tensor]:
        """Outputs without pooled atoms ``[draws, B]``, and without each atom ``[draws, N]``.

        Different neutral groups take their place, as far as there are any; else it is NaN. A single
        atom goes with what it cannot be cut off from.
        """
        parts = pooled.cpu().split(store.sizes.tolist())  # type: ignore[no-untyped-call]
        first = (len(store) + exclusive_cumsum(store.sizes)).tolist()
        made: dict[tuple[int, ...], str] = {}
        graphs: list[int] = []
        for graph in self.featuriser.fits(store).nonzero().view(-1).tolist():
            own, generator = self.drawn_for(store.text["smiles"][graph])
            regions = [([graph], parts[graph].nonzero().view(-1).tolist())]
            for group, atoms in _groups(own).items() if nodes else ():
                regions.append(([first[graph] + atom for atom in atoms], list(group)))
            for columns, region in regions:
                graft, _ = graft_of(own, region)
                if graft is None:
                    continue
                some = [remove(graft, own)]
                for _ in range(draws - 1):
                    some.append(remove(graft, own, generator, fillers=self.fillers))
                different = dict.fromkeys(text_of(one) for one in some if one is not None)
                for draw, text in enumerate(different):
                    made |= {(draw, column): text for column in columns}
                    graphs += [graph] * len(columns)
        tables = self.table((draws, len(store) + len(store.x)), made, graphs).cpu()
        return tables[:, : len(store)], tables[:, len(store) :]

    def drawn_for(self, smiles: str) -> tuple[Anatomy, torch.Generator]:
        """A molecule, and what draws for it, whatever else is asked about."""
        seed = zlib.crc32(smiles.encode()) + self.seed
        return anatomy_of(smiles), torch.Generator().manual_seed(seed)

    def _made(
        self, smiles: str, pooled: Tensor, chosen: list[int]
    ) -> Iterator[tuple[str, int, Transplant, int]]:
        """What is made of one molecule: name, draw, molecule and host of each."""
        own, generator = self.drawn_for(smiles)
        graft, _ = graft_of(own, pooled.nonzero().view(-1).tolist())
        if graft is None:
            return
        hosts = Hosts(self.anatomies[number] for number in chosen)
        # Random regions of the molecule itself, beside the graft, else of hosts: those show what
        # grafting as such does, others with the prediction of the graph would bring its reasons.
        beside, others = [], []
        for _ in range(DRAWS):
            one = random_region(own, graft, generator, avoid=graft.atoms)
            if one is not None and 2 * len({*one.atoms} & {*graft.atoms}) <= len(one.atoms):
                beside.append(one)
            other = random_region(pick(hosts.anatomies, generator), graft, generator)
            if other is not None:
                others.append(other)
        inserted, _ = insert_many(graft, hosts, DRAWS, generator)
        for draw, (place, mixed) in enumerate(inserted):
            yield "inserted", draw, mixed, chosen[place]
            for control in beside[draw:] + beside[:draw] + others[draw:] + others[:draw]:
                beyond = insert(control, hosts.anatomies[place], generator)
                if beyond is not None:
                    yield "random", draw, beyond, chosen[place]
                    break
        for draw in range(DRAWS):
            gone = remove(graft, own, generator, fillers=self.fillers) or remove(graft, own)
            if gone is not None:
                yield "removed", draw, gone, -1
            if beside:
                control = beside[draw % len(beside)]
                gone = remove(control, own, generator, fillers=self.fillers)
                if gone is not None:
                    yield "spared", draw, gone, -1


@lru_cache(maxsize=512)
def anatomy_of(smiles: str) -> Anatomy:
    """What grafts ask about a molecule; remembered, since kept ones are asked about every time."""
    return Anatomy(import_module("rdkit.Chem").MolFromSmiles(smiles))


def text_of(made: Any) -> str:
    """The SMILES of what was made."""
    return str(import_module("rdkit.Chem").MolToSmiles(made.molecule))


def _groups(anatomy: Anatomy) -> dict[tuple[int, ...], list[int]]:
    """Smallest groups that can be exchanged, and the atoms each is the smallest for."""
    found: dict[tuple[int, ...], list[int]] = {}
    for atom in range(anatomy.size):
        for region in ([atom], *map(sorted, anatomy.rings_of[atom])):
            graft, _ = graft_of(anatomy, region)
            if graft is not None and atom in graft.atoms:
                found.setdefault(graft.atoms, []).append(atom)
                break
    return found
