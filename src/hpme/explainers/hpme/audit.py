"""Does a model read what it should? Average effects of moving given patterns say so."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor

from hpme.data.molecules.chem import compile_smarts, rdkit_module, read_molecule
from hpme.data.molecules.fragments import whole_molecule
from hpme.data.molecules.grafts import (
    Anatomy,
    Graft,
    fillers_of,
    graft_of,
    insert,
    random_region,
    remove,
)
from hpme.errors import InputError
from hpme.explainers.hpme.evidence import interval
from hpme.explainers.hpme.grafting import Grafting
from hpme.explainers.hpme.method.pool import top_nodes
from hpme.explainers.hpme.transplants import Transplants
from hpme.graphs import GraphStore

Finding = Literal[
    "reads it",
    "reads the other",
    "reads both",
    "needs both",
    "reads neither",
    "cannot tell",
    "too few graphs",
    "one prediction only",
]
READS, READS_VALUE = 0.1, 0.2
"""A pattern is read if it moves probabilities by more than this, or values by more than this share
of their spread."""
NEAR = 0.2
"""An interval that ends within this share of the bound, either side of it, comes with a warning."""
FINDINGS: dict[tuple[bool, bool], Finding] = {
    (True, False): "reads it",
    (False, True): "reads the other",
    (True, True): "reads both",
    (False, False): "reads neither",
}
LEAST_GRAPHS = 3
APART = 10
"""Graphs with one pattern and not the other from which on no others are asked about."""
ASKED = 100
"""Graphs with a pattern that are asked about, and hosts that get it."""
TRIES, FILLERS = 8, 2
"""Fragments tried for a host, and neutral fragments that take the place of a pattern."""
PLAIN = ("CC", "CCCC", "CC(C)C(C)C", "c1ccccc1-c1ccccc1")
"""Molecules that give neutral fragments where the graphs have none."""
Span = tuple[float, float, float]
"""A mean, and the ends of its 95 % confidence interval."""


@dataclass(frozen=True)
class Estimate:
    """Average effect of a pattern; positive is towards the prediction of graphs that have it.

    Args:
        effect: By how much outputs are higher with the pattern.
        control: The same for random fragments as large.
        beyond: The difference of the two; the effect itself where no random fragment fits.
        graphs: Number of graphs that were changed.
    """

    effect: Span
    control: Span
    beyond: Span
    graphs: int

    @classmethod
    def of(cls, effect: Tensor, control: Tensor) -> Estimate:
        """From one number per graph, NaN where there is none."""
        ours, random = interval(torch.stack([effect, control], 1).double().cpu()).tolist()
        half = math.hypot(ours[2] - ours[0], random[2] - random[0])
        mean, beyond = ours[0] - random[0], tuple(ours)
        if math.isfinite(half):
            beyond = mean, mean - half, mean + half
        return cls(tuple(ours), tuple(random), beyond, int(effect.isfinite().sum()))

    def reads(self, bound: float) -> bool | None:
        """Whether the effect is surely beyond the bound, or surely not; ``None`` if neither.

        ``None`` as well if it is, and random fragments do as much.
        """
        (_, low, high), (_, least, most) = self.effect, self.beyond
        if (low > bound and least > 0) or (high < -bound and most < 0):
            return True
        return False if -bound < low and high < bound else None

    def near(self, bound: float) -> bool:
        """Whether an end of the interval is so near to the bound that little would turn it."""
        return any(abs(abs(end) - bound) < NEAR * bound for end in self.effect[1:])

    def __str__(self) -> str:
        if not self.graphs:
            return "not possible"
        ours, random = (
            f"{mean:+.2f} [{low:+.2f}, {high:+.2f}]" for mean, low, high in (self.effect, self.control)
        )
        return f"{ours}, random fragments {random}"


NOTHING = Estimate(*[(math.nan,) * 3] * 3, 0)


@dataclass(frozen=True)
class PatternEvidence:
    """What moving one pattern does.

    Args:
        name: The pattern.
        graphs: Number of graphs that have it.
        prediction: The prediction that most of them get: a class, or the mean value.
        inserted: It alone, put into graphs of other predictions that have none of the patterns.
        removed: It, in graphs of that prediction, beside hydrogens in its place.
        replaced: The same beside neutral fragments as large in its place.
        bound: From which effect on a pattern is read.
        grafted: Whether chemistry allows what was made; else regions were mixed as graphs.
    """

    name: str
    graphs: int
    prediction: float
    inserted: Estimate
    removed: Estimate
    replaced: Estimate
    bound: float
    grafted: bool

    @property
    def enough(self) -> bool | None:
        """Whether it moves graphs without anything else; ``None`` if that cannot be told."""
        return self.inserted.reads(self.bound)

    @property
    def needed(self) -> bool | None:
        """Whether its own graphs move without it, whatever takes its place."""
        asked = [one for one in (self.removed, self.replaced) if one.graphs]
        found = {one.reads(self.bound) for one in asked}
        return found.pop() if len(found) == 1 else None

    @property
    def read(self) -> bool | None:
        """Whether the model reads it."""
        found = self.enough, self.needed
        return True if True in found else None if None in found else False

    @property
    def near(self) -> bool:
        """Whether what decides is near the bound."""
        parts = (self.inserted, self.removed, self.replaced)
        return self.read is not None and any(one.near(self.bound) for one in parts)


@dataclass(frozen=True)
class Audit:
    """Whether a model reads what it should.

    Args:
        should: Evidence on the pattern that should matter.
        should_not: Evidence on the one that should not, if there is any.
        finding: Which pattern is read, inserted or taken out: ``"reads it"``, ``"reads the other"``
            , ``"reads both"``, ``"reads neither"``; ``"needs both"`` if neither is enough and both
            are needed. ``"cannot tell"`` if an interval holds the bound. ``"too few graphs"`` if a
            pattern is in fewer than three of them, ``"one prediction only"`` if the model gives
            all graphs the same class.
    """

    should: PatternEvidence
    should_not: PatternEvidence | None
    finding: Finding

    @property
    def passed(self) -> bool:
        """Whether the model reads what it should, and nothing that it should not."""
        return self.finding == "reads it"

    @property
    def warning(self) -> str | None:
        """What to be careful about."""
        near = [one.name for one in (self.should, self.should_not) if one is not None and one.near]
        if not near:
            return None
        return f"near the bound of {self.should.bound:.2g}: {', '.join(near)}; look at the numbers"

    def to_dict(self) -> dict[str, Any]:
        """All that JSON can hold."""

        def row(evidence: PatternEvidence) -> dict[str, Any]:
            values = asdict(evidence) | {"enough": evidence.enough, "needed": evidence.needed}
            return {key: _finite(value) for key, value in values.items()}

        other = None if self.should_not is None else row(self.should_not)
        finding = {"verdict": self.finding, "passed": self.passed, "warning": self.warning}
        return finding | {"should": row(self.should), "should_not": other}

    def __str__(self) -> str:
        lines = [f"verdict: {self.finding}"]
        if self.warning is not None:
            lines.append(f"careful: {self.warning}")
        for role, one in (("should matter", self.should), ("should not", self.should_not)):
            if one is not None:
                lines += [
                    f"{role}: {one.name} in {one.graphs} graphs, bound {one.bound:.2g}",
                    f"  put in alone {one.inserted}",
                    f"  beside hydrogens {one.removed}",
                    f"  beside neutral fragments {one.replaced}",
                ]
        return "\n".join(lines)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return None if not value["graphs"] else {key: _finite(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class NamedPattern:
    """A pattern in graphs.

    Args:
        name: What it is called.
        matches: Of every graph the nodes of each match.
        nodes: All of them, in all graphs end to end.
    """

    name: str
    matches: Sequence[Sequence[Sequence[int]]]
    nodes: Tensor

    @classmethod
    def of(cls, store: GraphStore, pattern: str | Sequence[Tensor], role: str) -> NamedPattern:
        """All matches of SMARTS; given masks are one match in every graph that has any."""
        if isinstance(pattern, str):
            matches = list(_matches(store, pattern, role))
        else:
            masks = [torch.as_tensor(mask).bool().view(-1) for mask in pattern]
            if [len(mask) for mask in masks] != store.sizes.tolist():
                raise InputError(
                    f"{role} needs one mask per graph with a value for each of its nodes"
                )
            matches = [[mask.nonzero().view(-1).tolist()] if mask.any() else [] for mask in masks]
        nodes = torch.zeros(int(store.sizes.sum()), dtype=torch.bool)
        for start, some in zip(store.node_start.tolist(), matches, strict=True):
            nodes[[start + atom for match in some for atom in match]] = True
        return cls(pattern if isinstance(pattern, str) else role, matches, nodes)


def _matches(store: GraphStore, smarts: str, role: str) -> Iterator[list[list[int]]]:
    if "smiles" not in store.text:
        raise InputError(f"{role} is SMARTS, but the graphs have no smiles; pass node masks")
    query = compile_smarts([smarts])[0]
    rows = zip(store.text["smiles"], store.sizes.tolist(), strict=True)
    for number, (smiles, size) in enumerate(rows):
        molecule = whole_molecule(smiles, size)
        if molecule is None:
            raise InputError(f"graph {number} is not the molecule of its SMILES '{smiles}'")
        yield [list(match) for match in molecule.GetSubstructMatches(query)]


def audit_of(
    transplants: Transplants,
    should: NamedPattern,
    other: NamedPattern | None,
    grafting: Grafting | None = None,
    fits: Tensor | None = None,
) -> Audit:
    """Asks about one or two patterns; each is moved without the other.

    Args:
        transplants: The graphs and their hosts.
        should: What should matter.
        other: What should not.
        grafting: The graphs as molecules, if it is known how the model reads them.
        fits: Which of them are what their SMILES say.
    """

    def evidence(pattern: NamedPattern, beside: NamedPattern | None) -> PatternEvidence:
        found = None
        if grafting is not None and fits is not None:
            found = _Grafts(transplants, grafting, fits, pattern, beside).evidence()
        return found or _mixed(transplants, pattern, beside)

    first = evidence(should, other)
    second = None if other is None else evidence(other, should)
    return Audit(first, second, _finding(transplants, first, second))


def _finding(
    transplants: Transplants, first: PatternEvidence, second: PatternEvidence | None
) -> Finding:
    context = transplants.context
    both = [one for one in (first, second) if one is not None]
    if context.task.classification and len(torch.unique(context.prediction)) == 1:
        return "one prediction only"
    if any(one.graphs < LEAST_GRAPHS for one in both):
        return "too few graphs"
    if len(both) == 2 and all(one.needed and one.enough is False for one in both):
        return "needs both"
    read = [one.read for one in both]
    if None in read:
        return "cannot tell"
    return FINDINGS[bool(read[0]), len(read) > 1 and bool(read[1])]


def _usual(transplants: Transplants, ids: Tensor) -> tuple[Tensor, float, Tensor | None]:
    """Of graphs with a pattern, those of the usual prediction, it, and which graphs have it."""
    context = transplants.context
    predicted = context.prediction[ids]
    if not context.task.classification:
        return ids, float(predicted.double().mean()) * context.task.scale, None
    usual = predicted.mode().values
    return ids[predicted == usual], float(usual), context.prediction == usual


class _Grafts:
    """Molecules made to ask about one pattern.

    Args:
        transplants: The graphs.
        grafting: They as molecules.
        fits: Which of them are what their SMILES say.
        pattern: What is moved.
        beside: What else there may be, which is not.
    """

    def __init__(
        self,
        transplants: Transplants,
        grafting: Grafting,
        fits: Tensor,
        pattern: NamedPattern,
        beside: NamedPattern | None,
    ) -> None:
        self.transplants, self.grafting, self.pattern = transplants, grafting, pattern
        self.generator = torch.Generator().manual_seed(grafting.seed)
        others: Sequence[Any] = [()] * len(pattern.matches) if beside is None else beside.matches
        self.avoid = [
            {atom for match in (*ours, *theirs) for atom in match}
            for ours, theirs in zip(pattern.matches, others, strict=True)
        ]
        self.having = torch.tensor([bool(some) for some in pattern.matches])
        self.alone = torch.tensor([not some for some in others])
        self.fits = fits
        self.fillers = grafting.fillers or fillers_of(Anatomy(read_molecule(s)) for s in PLAIN)
        self.graft = cache(self._graft)

    def _own(self, number: int) -> Any:
        return self.grafting.anatomies[number]

    def _graft(self, number: int, match: int) -> Graft | None:
        return graft_of(self._own(number), self.pattern.matches[number][match])[0]

    def _some(self, chosen: Tensor) -> list[int]:
        """At most :data:`ASKED` graphs of a mask, in random order."""
        ids = chosen.nonzero().view(-1)
        order = torch.randperm(len(ids), generator=self.generator)[:ASKED]
        found: list[int] = ids[order].tolist()
        return found

    def evidence(self) -> PatternEvidence | None:
        """What moving the pattern does; ``None`` if it could be moved too seldom."""
        context, total = self.transplants.context, int(self.having.sum())
        ids = (self.having & self.fits).nonzero().view(-1)
        if not len(ids):
            return None
        _, prediction, usual = _usual(self.transplants, ids.to(context.device))
        same = torch.ones(len(self.having), dtype=torch.bool)
        if usual is not None:
            same = usual[: len(same)].cpu()
        apart = self.having & self.fits & same & self.alone
        own = self._some(apart if int(apart.sum()) >= APART else self.having & self.fits & same)
        free = ~self.having & self.alone & self.fits
        hosts = self._some(free if usual is None else free & ~same)
        made = {"base": [self.grafting.smiles[number] for number in [*hosts, *own]]}
        made |= self._put_in(hosts, ids.tolist(), self._some(free))
        made |= self._taken_out(own)
        asked = list(dict.fromkeys(text for some in made.values() for text in some if text))
        output = self.grafting.ask(asked)
        values = context.task.values(output).double().cpu()
        value = values.mean(1) * context.task.scale if usual is None else values[:, int(prediction)]
        of = dict(zip(asked, value.tolist(), strict=True)) | {"": math.nan}
        table = {name: torch.tensor([of[text] for text in some]) for name, some in made.items()}
        before, after = table["base"].split([len(hosts), len(own)])  # type: ignore[no-untyped-call]
        filled = [table[f"filled {k}"] for k in range(FILLERS)]
        inserted = Estimate.of(table["inserted"] - before, table["random"] - before)
        removed = Estimate.of(after - table["removed"], after - table["spared"])
        replaced = Estimate.of(after - torch.stack(filled).nanmean(0), after - table["kept"])
        if max(one.graphs for one in (inserted, removed, replaced)) < LEAST_GRAPHS:
            return None
        bound = READS if usual is not None else READS_VALUE * context.task.scale
        return PatternEvidence(
            self.pattern.name, total, prediction, inserted, removed, replaced, bound, True
        )

    def _put_in(self, hosts: list[int], donors: list[int], others: list[int]) -> dict[str, Any]:
        """Hosts with the pattern of some graph, and with a random fragment of some other."""
        made: dict[str, list[str]] = {"inserted": [], "random": []}
        for host in hosts:
            found = {"inserted": "", "random": ""}
            for _ in range(TRIES):
                donor = donors[self._draw(len(donors))]
                graft = self.graft(donor, self._draw(len(self.pattern.matches[donor])))
                if graft is None:
                    continue
                source = others[self._draw(len(others))]
                regions = {
                    "inserted": graft,
                    "random": random_region(self._own(source), graft, self.generator),
                }
                for name, region in regions.items():
                    if region is not None and not found[name]:
                        one = insert(region, self._own(host), self.generator)
                        found[name] = "" if one is None else _text(one)
                if all(found.values()):
                    break
            for name, text in found.items():
                made[name].append(text)
        return made

    def _taken_out(self, own: list[int]) -> dict[str, Any]:
        """Graphs without the pattern and without a random fragment, and what is there instead."""
        names = ["removed", "spared", "kept", *(f"filled {k}" for k in range(FILLERS))]
        made: dict[str, list[str]] = {name: [] for name in names}
        for number in own:
            anatomy = self._own(number)
            region = {atom for match in self.pattern.matches[number] for atom in match}
            graft, _ = graft_of(anatomy, region)
            control = None
            if graft is not None:
                control = random_region(
                    anatomy, graft, self.generator, avoid=self.avoid[number] | {*graft.atoms}
                )
            if control is not None and not self.avoid[number].isdisjoint(control.atoms):
                control = None
            made["removed"].append(self._without(graft, number, False))
            made["spared"].append(self._without(control, number, False))
            made["kept"].append(self._without(control, number, True))
            for k in range(FILLERS):
                made[f"filled {k}"].append(self._without(graft, number, True))
        return made

    def _without(self, graft: Graft | None, number: int, filled: bool) -> str:
        """A molecule without a region, in as many pieces as before; no text if there is none."""
        if graft is None:
            return ""
        fillers = self.fillers if filled else None
        one = remove(graft, self._own(number), self.generator, fillers=fillers)
        text = "" if one is None else _text(one)
        return text if text.count(".") <= self.grafting.smiles[number].count(".") else ""

    def _draw(self, count: int) -> int:
        return int(torch.randint(count, (1,), generator=self.generator))


def _text(one: Any) -> str:
    return str(rdkit_module("Chem").MolToSmiles(one.molecule))


def _mixed(
    transplants: Transplants, pattern: NamedPattern, beside: NamedPattern | None
) -> PatternEvidence:
    """The same by mixes of graphs, where neutral nodes take the place of a pattern."""
    context, graphs = transplants.context, transplants.graphs
    nodes = transplants.with_hosts(pattern.nodes)
    other = torch.zeros_like(nodes) if beside is None else transplants.with_hosts(beside.nodes)
    sizes = transplants.sizes(nodes)
    ids = (sizes[: transplants.count] > 0).nonzero().view(-1)
    total = len(ids)
    if not total:
        return PatternEvidence(pattern.name, 0, math.nan, *[NOTHING] * 3, READS, False)
    ids, prediction, _ = _usual(transplants, ids)
    ids = ids[:ASKED]
    # Random nodes to compare with, of neither pattern where there are enough others.
    free = torch.where(nodes | other, -1.0, 0.0)
    noise = free + ((transplants.node_number + 1).double() * 0.618034).frac().float()
    control = top_nodes(noise.unsqueeze(0), graphs, sizes).keep[0]
    hosts = transplants.hosts[:, ids]
    wanted = context.prediction[ids]

    def near(values: Tensor) -> Tensor:
        """How near values ``[D, B, C]`` are to predictions."""
        if context.task.classification:
            return values.gather(2, wanted.view(1, -1, 1).expand(len(values), -1, 1)).mean((0, 2))
        return (1 - (values - wanted).abs().mean(2)).clamp(min=0).mean(0)

    before, own = near(context.values[hosts]), near(context.values[ids].unsqueeze(0))
    inserted = [transplants.inserted(some, ids) - before for some in (nodes, control)]
    replaced = [own - transplants.without(some)[ids] for some in (nodes, control)]
    bound = READS if context.task.classification else READS_VALUE
    found = Estimate.of(*inserted), NOTHING, Estimate.of(*replaced)
    return PatternEvidence(pattern.name, total, prediction, *found, bound, False)
