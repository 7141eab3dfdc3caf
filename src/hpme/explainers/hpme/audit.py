"""Does a model read what it should? Transplants of given patterns say so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from hpme.data.molecules.chem import compile_smarts
from hpme.data.molecules.fragments import whole_molecule
from hpme.errors import InputError
from hpme.explainers.hpme.method.pool import top_nodes
from hpme.explainers.hpme.transplants import Transplants
from hpme.graphs import GraphStore

Finding = Literal[
    "reads it",
    "reads the other",
    "reads both",
    "needs both",
    "reads neither",
    "too few graphs",
    "one prediction only",
]
READS = 0.5
"""A pattern that moves predictions by at least this much when transplanted is read."""
FINDINGS: dict[tuple[bool, bool], Finding] = {
    (True, False): "reads it",
    (False, True): "reads the other",
    (True, True): "reads both",
    (False, False): "reads neither",
}
LEAST_GRAPHS = 3
ASKED = 100
"""Graphs with a pattern that are asked about."""


@dataclass(frozen=True)
class PatternEvidence:
    """What transplants say about one pattern.

    Args:
        name: The pattern.
        graphs: Number of graphs that have it.
        prediction: The prediction that most of them get: a class, or the mean value.
        inserted: How much nearer its nodes, put into hosts of other predictions, bring these to
            the prediction than as many random nodes of the same graphs, none of a pattern, do.
        lost: How far graphs are from their prediction when neutral nodes replace its nodes, beyond
            what replacing as many random nodes does.
    """

    name: str
    graphs: int
    prediction: float
    inserted: float
    lost: float

    @property
    def enough(self) -> bool:
        """Whether it gives graphs the prediction without anything else."""
        return self.inserted >= READS

    @property
    def needed(self) -> bool:
        """Whether graphs lose the prediction without it."""
        return self.lost >= READS


@dataclass(frozen=True)
class Audit:
    """Whether a model reads what it should.

    Args:
        should: Evidence on the pattern that should matter.
        should_not: Evidence on the one that should not, if there is any.
        finding: Which pattern is enough: ``"reads it"``, ``"reads the other"``, ``"reads both"``
            (each is). If none is, which is needed: these, or ``"needs both"`` (they count only
            together), else ``"reads neither"``. ``"too few graphs"`` if a pattern is in fewer than
            three of them, ``"one prediction only"`` if the model gives all graphs the same class.
    """

    should: PatternEvidence
    should_not: PatternEvidence | None
    finding: Finding

    @property
    def passed(self) -> bool:
        """Whether the model reads what it should, and nothing that it should not."""
        return self.finding == "reads it"

    def to_dict(self) -> dict[str, Any]:
        """All that JSON can hold."""

        def row(evidence: PatternEvidence) -> dict[str, Any]:
            values = asdict(evidence)
            for name in ("prediction", "inserted", "lost"):
                values[name] = values[name] if math.isfinite(values[name]) else None
            return values | {"enough": evidence.enough, "needed": evidence.needed}

        other = None if self.should_not is None else row(self.should_not)
        finding = {"verdict": self.finding, "passed": self.passed}
        return finding | {"should": row(self.should), "should_not": other}

    def __str__(self) -> str:
        lines = [f"verdict: {self.finding}"]
        for role, one in (("should matter", self.should), ("should not", self.should_not)):
            if one is not None:
                lines.append(
                    f"{role}: {one.name} in {one.graphs} graphs, inserted {one.inserted:+.2f}, "
                    f"lost {one.lost:+.2f}"
                )
        return "\n".join(lines)


def pattern_nodes(store: GraphStore, pattern: str | Sequence[Tensor], name: str) -> Tensor:
    """Nodes of a pattern in all graphs, end to end: all matches of SMARTS, or given masks."""
    if not isinstance(pattern, str):
        masks = [torch.as_tensor(mask).bool().view(-1) for mask in pattern]
        if [len(mask) for mask in masks] != store.sizes.tolist():
            raise InputError(f"{name} needs one mask per graph with a value for each of its nodes")
        return torch.cat(masks)
    if "smiles" not in store.text:
        raise InputError(f"{name} is SMARTS, but the graphs have no smiles; pass node masks")
    query = compile_smarts([pattern])[0]
    mask = torch.zeros(int(store.sizes.sum()), dtype=torch.bool)
    rows = zip(store.text["smiles"], store.sizes.tolist(), store.node_start.tolist(), strict=True)
    for number, (smiles, size, start) in enumerate(rows):
        molecule = whole_molecule(smiles, size)
        if molecule is None:
            raise InputError(f"graph {number} is not the molecule of its SMILES '{smiles}'")
        for match in molecule.GetSubstructMatches(query):
            mask[[start + atom for atom in match]] = True
    return mask


def named_pattern(
    store: GraphStore, pattern: str | Sequence[Tensor], role: str
) -> tuple[str, Tensor]:
    """What a pattern is called, and its nodes in all graphs."""
    return pattern if isinstance(pattern, str) else role, pattern_nodes(store, pattern, role)


def audit_of(
    transplants: Transplants, should: tuple[str, Tensor], other: tuple[str, Tensor] | None
) -> Audit:
    """Asks about one or two patterns; each is transplanted without the other.

    Args:
        transplants: The graphs and their hosts.
        should: Name and nodes of what should matter.
        other: Name and nodes of what should not.
    """
    apart = torch.zeros_like(should[1]) if other is None else other[1]
    first = _evidence(transplants, *should, apart)
    second = None if other is None else _evidence(transplants, *other, should[1])
    few = [one for one in (first, second) if one is not None and one.graphs < LEAST_GRAPHS]
    context = transplants.context
    if context.task.classification and len(torch.unique(context.prediction)) == 1:
        finding: Finding = "one prediction only"
    elif few:
        finding = "too few graphs"
    elif first.enough or (second is not None and second.enough):
        finding = FINDINGS[first.enough, second is not None and second.enough]
    elif first.needed and second is not None and second.needed:
        finding = "needs both"
    else:
        finding = FINDINGS[first.needed, second is not None and second.needed]
    return Audit(first, second, finding)


def _evidence(transplants: Transplants, name: str, nodes: Tensor, other: Tensor) -> PatternEvidence:
    context, graphs = transplants.context, transplants.graphs
    nodes, other = transplants.with_hosts(nodes), transplants.with_hosts(other)
    sizes = transplants.sizes(nodes)
    ids = (sizes[: transplants.count] > 0).nonzero().view(-1)
    total = len(ids)
    if not total:
        return PatternEvidence(name, 0, math.nan, math.nan, math.nan)
    predicted = context.prediction[ids]
    prediction = float(predicted.double().mean())
    if context.task.classification:
        usual = predicted.mode().values
        ids, prediction = ids[predicted == usual], float(usual)
    ids = ids[:ASKED]
    # Random nodes to compare with, of neither pattern where there are enough others.
    free = torch.where(nodes | other, -1.0, 0.0)
    noise = free + ((transplants.node_number + 1).double() * 0.618034).frac().float()
    control = top_nodes(noise.unsqueeze(0), graphs, sizes).keep[0]
    near = transplants.inserted(nodes, ids) - transplants.inserted(control, ids)
    lost = transplants.without(control)[ids] - transplants.without(nodes)[ids]
    return PatternEvidence(name, total, prediction, float(near.mean()), float(lost.mean()))
