"""What moving a pattern does to outputs: average effects with intervals, and random fragments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from hpme.data.molecules.anatomy import Anatomy, graft_of, pick, random_region
from hpme.data.molecules.chem import compile_smarts, read_molecule
from hpme.data.molecules.fragments import whole_molecule
from hpme.data.molecules.grafts import Transplant, fillers_of, insert, remove
from hpme.errors import InputError
from hpme.explainers.hpme.evidence import interval
from hpme.explainers.hpme.grafting import Grafting, text_of
from hpme.explainers.hpme.method.pool import top_nodes
from hpme.explainers.hpme.quality import class_name
from hpme.explainers.hpme.transplants import Transplants
from hpme.graphs import GraphStore

READS, READS_VALUE = 0.1, 0.2
"""A pattern is read if it moves probabilities by more than this, or values by more than this share
of their spread."""
NEAR = 0.2
"""An interval that ends within this share of the bound, either side of it, comes with a warning."""
LEAST_GRAPHS, APART = 3, 10
"""Graphs without which nothing is said, and graphs with one pattern and not the other from which on
no others are asked about."""
ASKED, TRIES = 200, 8
"""Graphs with a pattern that are asked about, hosts that get it, and fragments tried for each."""
PLAIN = ("CC", "CCCC", "CC(C)C(C)C", "c1ccccc1-c1ccccc1")
"""Molecules that give neutral fragments where the graphs have none."""
Span = tuple[float, ...]
"""A mean, and the ends of its 95 % confidence interval."""


@dataclass(frozen=True)
class Estimate:
    """Average effect of a pattern; positive is towards the prediction of graphs that have it."""

    effect: Span  # by how much outputs are higher with the pattern
    control: Span  # the same for random fragments as large
    beyond: Span  # the difference; the effect itself where no random fragment fits
    graphs: int  # number of graphs that were changed

    @classmethod
    def of(cls, effect: Tensor, control: Tensor) -> Estimate:
        """From one number per graph, NaN where there is none."""
        ours, random = interval(torch.stack([effect, control], 1).double().cpu()).tolist()
        mean, half = ours[0] - random[0], math.hypot(ours[2] - ours[0], random[2] - random[0])
        beyond = (mean, mean - half, mean + half) if math.isfinite(half) else tuple(ours)
        return cls(tuple(ours), tuple(random), beyond, int(effect.isfinite().sum()))

    def reads(self, bound: float) -> bool | None:
        """Whether the effect is surely beyond the bound, or surely not; ``None`` if neither.

        ``None`` as well if it is, and random fragments do as much.
        """
        (_, low, high), (_, least, most) = self.effect, self.beyond
        if (low > bound and least > 0) or (high < -bound and most < 0):
            return True
        return False if -bound < low and high < bound else None

    def below_half(self, other: Estimate) -> bool:
        """Whether the effect is surely less than half of another one."""
        most, least = max(map(abs, self.effect[1:])), min(map(abs, other.effect[1:]))
        return 2 * most < least and other.effect[1] * other.effect[2] > 0

    def __str__(self) -> str:
        spans = ["{:+.2f} [{:+.2f}, {:+.2f}]".format(*some) for some in (self.effect, self.control)]
        return f"{spans[0]}, random fragments {spans[1]}" if self.graphs else "not possible"


NOTHING = Estimate((math.nan,) * 3, (math.nan,) * 3, (math.nan,) * 3, 0)


@dataclass(frozen=True)
class PatternEvidence:
    """What one pattern does, alone in other graphs, or with hydrogens or fragments in its place."""

    name: str
    graphs: int  # that have it
    prediction: float  # that most of these get: a class, or the mean value
    inserted: Estimate
    removed: Estimate
    replaced: Estimate
    bound: float  # from which effect on a pattern is read
    grafted: bool  # whether chemistry allows what was made; else regions were mixed as graphs
    towards: str = ""  # what positive effects bring outputs nearer to

    @property
    def enough(self) -> bool | None:
        """Whether it moves graphs without anything else; ``None`` if that cannot be told."""
        return self.inserted.reads(self.bound)

    @property
    def needed(self) -> bool | None:
        """Whether its own graphs move without it, whatever takes its place."""
        found = {one.reads(self.bound) for one in (self.removed, self.replaced) if one.graphs}
        return found.pop() if len(found) == 1 else None

    @property
    def helped(self) -> bool:
        """Whether it surely does less than half alone of what its own graphs lose without it."""
        lost = [one for one in (self.removed, self.replaced) if one.graphs]
        return self.needed is True and all(self.inserted.below_half(one) for one in lost)

    @property
    def read(self) -> bool | None:
        """Whether the model reads it."""
        found = self.enough, self.needed
        return True if True in found else None if None in found else False

    @property
    def near(self) -> bool:
        """Whether an interval ends so near to the bound that little would turn the finding."""
        ends = [end for one in (self.inserted, self.removed, self.replaced) for end in one.effect]
        return any(abs(abs(end) - self.bound) < NEAR * self.bound for end in ends)


@dataclass(frozen=True)
class NamedPattern:
    """A pattern, and of every graph the nodes of each match."""

    name: str
    matches: Sequence[Sequence[Sequence[int]]]

    @classmethod
    def of(cls, store: GraphStore, pattern: str | Sequence[Tensor], role: str) -> NamedPattern:
        """All matches of SMARTS; given masks are one match in every graph that has any."""
        if isinstance(pattern, str):
            if "smiles" not in store.text:
                raise InputError(
                    f"{role} is SMARTS, but the graphs have no smiles; pass node masks"
                )
            query, texts = compile_smarts([pattern])[0], store.text["smiles"]
            made = list(map(whole_molecule, texts, store.sizes.tolist()))
            if None in made:
                number = made.index(None)
                raise InputError(
                    f"graph {number} is not the molecule of its SMILES '{texts[number]}'"
                )
            return cls(pattern, [one.GetSubstructMatches(query) for one in made])
        masks = [torch.as_tensor(mask).bool().view(-1) for mask in pattern]
        if [len(mask) for mask in masks] != store.sizes.tolist():
            raise InputError(f"{role} needs one mask per graph with a value for each of its nodes")
        places = [mask.nonzero().view(-1).tolist() for mask in masks]
        return cls(role, [[some] if some else [] for some in places])

    def atoms(self, number: int) -> set[int]:
        """All nodes of matches in a graph."""
        return {atom for match in self.matches[number] for atom in match}

    def nodes(self, starts: Sequence[int], total: int) -> Tensor:
        """The same in all graphs as one mask; ``starts`` are the first nodes of graphs."""
        mask = torch.zeros(total, dtype=torch.bool)
        for number, start in zip(range(len(self.matches)), starts, strict=False):
            mask[[start + atom for atom in self.atoms(number)]] = True
        return mask

    @property
    def present(self) -> Tensor:
        """Which graphs have it."""
        return torch.tensor([bool(some) for some in self.matches])


def evidence_of(
    transplants: Transplants,
    pattern: NamedPattern,
    beside: NamedPattern | None,
    grafting: Grafting | None = None,
) -> PatternEvidence:
    """What moving a pattern does, by grafts where there are some; not another one ``beside`` it."""
    beside = beside or NamedPattern("", [()] * len(pattern.matches))
    found = None
    if grafting is not None and bool((pattern.present & grafting.fits).any()):
        found = _Grafts(transplants, grafting, pattern, beside).evidence()
    return found or _mixed(transplants, pattern, beside)


def _usual(transplants: Transplants, ids: Tensor) -> tuple[float, Tensor]:
    """The usual prediction for some graphs, and which of all graphs get it."""
    context, count = transplants.context, transplants.count
    predicted = context.prediction[:count].cpu()
    if not context.task.classification:
        mean = float(predicted[ids].double().mean()) * context.task.scale
        return mean, torch.ones(count, dtype=torch.bool)
    usual = predicted[ids].mode().values
    return float(usual), predicted == usual


@dataclass
class _Grafts:
    """Molecules made to ask about one pattern, beside which there may be another."""

    transplants: Transplants
    grafting: Grafting
    pattern: NamedPattern
    beside: NamedPattern

    def __post_init__(self) -> None:
        self.generator = torch.Generator().manual_seed(self.grafting.seed)
        plain = (Anatomy(read_molecule(text)) for text in PLAIN)
        self.fillers = self.grafting.fillers or fillers_of(plain)

    def evidence(self) -> PatternEvidence | None:
        """What moving the pattern does; ``None`` if it could be moved too seldom."""
        context, total = self.transplants.context, int(self.pattern.present.sum())
        classes = context.task.classification
        fits, alone = self.grafting.fits, ~self.beside.present
        having = self.pattern.present & fits
        prediction, same = _usual(self.transplants, having.nonzero().view(-1))
        own = having & same & alone
        own = own if int(own.sum()) >= APART else having & same
        free = ~self.pattern.present & fits
        hosts = [free & alone & ~same, free & ~same, free & alone]
        if not classes:
            hosts = [free & alone, free]
        chosen = next((some for some in hosts if int(some.sum()) >= LEAST_GRAPHS), hosts[-1])
        made = self._put_in(self._some(chosen), self._some(having), self._some(free))
        made |= self._taken_out(self._some(own))
        asked = list(dict.fromkeys(text for some in made.values() for text in some if text))
        values = context.task.values(self.grafting.ask(asked)).double().cpu()
        if classes:
            column, bound = values[:, int(prediction)], READS
        else:
            column, bound = values.mean(1) * context.task.scale, READS_VALUE * context.task.scale
        of = dict(zip(asked, column.tolist(), strict=True)) | {"": math.nan}
        table = {name: torch.tensor([of[text] for text in some]) for name, some in made.items()}
        before, after = table["hosts"], table["own"]
        inserted = Estimate.of(table["inserted"] - before, table["random"] - before)
        removed = Estimate.of(after - table["removed"], after - table["spared"])
        filled = torch.stack([table["filled"], table["filled again"]]).nanmean(0)
        replaced = Estimate.of(after - filled, after - table["kept"])
        if max(one.graphs for one in (inserted, removed, replaced)) < LEAST_GRAPHS:
            return None
        towards = class_name(context, int(prediction)) if classes else "higher values"
        found = inserted, removed, replaced, bound, True, towards
        return PatternEvidence(self.pattern.name, total, prediction, *found)

    def _some(self, chosen: Tensor) -> list[int]:
        """At most :data:`ASKED` graphs of a mask, in random order."""
        ids = chosen.nonzero().view(-1)
        found: list[int] = ids[torch.randperm(len(ids), generator=self.generator)][:ASKED].tolist()
        return found

    def _put_in(self, hosts: list[int], donors: list[int], others: list[int]) -> dict[str, Any]:
        """Hosts with the pattern of some graph, and with a random fragment of some other."""
        anatomies, draw = self.grafting.anatomies, partial(pick, generator=self.generator)

        def put(host: int, random: bool) -> str:
            for _ in range(TRIES):
                donor = draw(donors)
                graft, _ = graft_of(anatomies[donor], draw(self.pattern.matches[donor]))
                if graft is not None and random:
                    graft = random_region(anatomies[draw(others)], graft, self.generator)
                one = insert(graft, anatomies[host], self.generator) if graft else None
                if one is not None and _plain(one):
                    return text_of(one)
            return ""

        made = {"hosts": [self.grafting.smiles[host] for host in hosts]}
        made["inserted"] = [put(host, False) for host in hosts]
        return made | {"random": [put(host, True) for host in hosts]}

    def _taken_out(self, own: list[int]) -> dict[str, Any]:
        """Graphs without the pattern and without a random fragment, and what is there instead."""
        names = ("own", "removed", "spared", "filled", "filled again", "kept")
        made: dict[str, list[str]] = {name: [] for name in names}
        for number in own:
            anatomy, before = self.grafting.anatomies[number], self.grafting.smiles[number]
            avoid = self.pattern.atoms(number) | self.beside.atoms(number)
            graft, _ = graft_of(anatomy, self.pattern.atoms(number))
            control = graft and random_region(anatomy, graft, self.generator, avoid=avoid)
            if control is not None and not avoid.isdisjoint(control.atoms):
                control = None
            made["own"].append(before)
            for name in names[1:]:
                region = control if name in ("spared", "kept") else graft
                fillers = None if name in ("removed", "spared") else self.fillers
                one = remove(region, anatomy, self.generator, fillers=fillers) if region else None
                text = "" if one is None else text_of(one)
                # In more pieces than before it would be more than one molecule.
                made[name].append(text if text.count(".") <= before.count(".") else "")
        return made


def _plain(made: Transplant) -> bool:
    """Whether at most methyl groups stand for what the host does not have: nothing else came."""
    rows = zip(made.molecule.GetAtoms(), made.region, made.host, strict=True)
    new = [atom for atom, region, host in rows if region < 0 and host < 0]
    return all(atom.GetAtomicNum() == 6 and atom.GetTotalNumHs() == 3 for atom in new)


def _mixed(
    transplants: Transplants, pattern: NamedPattern, beside: NamedPattern
) -> PatternEvidence:
    """The same by mixes of graphs, where neutral nodes take the place of a pattern."""
    context, graphs = transplants.context, transplants.graphs
    starts, total = graphs.ptr.tolist(), graphs.num_nodes
    nodes, other = (one.nodes(starts, total).to(graphs.batch.device) for one in (pattern, beside))
    bound = READS if context.task.classification else READS_VALUE
    ids = pattern.present.nonzero().view(-1)
    count = len(ids)
    if not count:
        return PatternEvidence(pattern.name, 0, math.nan, NOTHING, NOTHING, NOTHING, bound, False)
    prediction, same = _usual(transplants, ids)
    ids = ids[same[ids]][:ASKED].to(nodes.device)
    # Random nodes to compare with, of neither pattern where there are enough others.
    free = torch.where(nodes | other, -1.0, 0.0)
    noise = free + ((transplants.node_number + 1).double() * 0.618034).frac().float()
    control = top_nodes(noise.unsqueeze(0), graphs, transplants.sizes(nodes)).keep[0]
    wanted = context.prediction[ids]

    def near(values: Tensor) -> Tensor:
        """How near values ``[D, B, C]`` are to predictions."""
        if context.task.classification:
            return values.gather(2, wanted.view(1, -1, 1).expand(len(values), -1, 1)).mean((0, 2))
        return (1 - (values - wanted).abs().mean(2)).clamp(min=0).mean(0)

    before, own = near(context.values[transplants.hosts[:, ids]]), near(context.values[ids][None])
    inserted = [transplants.inserted(some, ids) - before for some in (nodes, control)]
    replaced = [own - transplants.without(some)[ids] for some in (nodes, control)]
    classes = context.task.classification
    towards = class_name(context, int(prediction)) if classes else "their own values"
    found = Estimate.of(*inserted), NOTHING, Estimate.of(*replaced), bound, False, towards
    return PatternEvidence(pattern.name, count, prediction, *found)
