"""Does a model read what it should? Average effects of moving given patterns say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from hpme.explainers.hpme.grafting import Grafting
from hpme.explainers.hpme.pattern_effects import (
    LEAST_GRAPHS,
    NamedPattern,
    PatternEvidence,
    evidence_of,
)
from hpme.explainers.hpme.transplants import Transplants
from hpme.storage import json_values

MOVES = ("inserted", "removed", "replaced")
FINDINGS = {
    (True, False): "reads it",
    (False, True): "reads the other",
    (True, True): "reads both",
    (False, False): "reads neither",
}


@dataclass(frozen=True)
class Audit:
    """Whether a model reads what it should.

    Args:
        should: Evidence on the pattern that should matter.
        should_not: Evidence on the one that should not, if there is any.
        finding: Which pattern is read: ``"reads it"``, ``"reads the other"``, ``"reads both"``,
            ``"reads neither"``; ``"needs both"`` if either surely does less than half alone of
            what is lost without it. Else what patterns do alone decides, where one that surely does
            less than half of the other does not count; where none surely does anything, what
            their own graphs lose without them. ``"cannot tell"`` if an interval holds the bound.
            ``"too few graphs"`` if a pattern is in fewer than three of them,
            ``"one prediction only"`` if the model gives all graphs the same class.
    """

    should: PatternEvidence
    should_not: PatternEvidence | None
    finding: str

    @property
    def passed(self) -> bool:
        """Whether the model reads what it should, and nothing that it should not."""
        other = self.should_not
        nothing = other is None or (other.enough is False and other.read is not True)
        return self.finding == "reads it" and nothing

    @property
    def warning(self) -> str | None:
        """What to be careful about."""
        both = [one for one in (self.should, self.should_not) if one is not None]
        near = ", ".join(one.name for one in both if one.near)
        words = [f"near the bound of {self.should.bound:.2g}: {near}; see the numbers"] * bool(near)
        if len(both) == 2 and self.finding in ("reads it", "reads the other"):
            words += [
                f"{one.name} does nothing alone, but may matter where the other pattern is, too"
                for one in both
                if one.enough is False and one.needed is not False
            ]
        return "; ".join(words) or None

    def to_dict(self) -> dict[str, Any]:
        """All that JSON can hold."""

        def row(one: PatternEvidence) -> Any:
            values = asdict(one) | {"enough": one.enough, "needed": one.needed}
            values |= {name: None for name in MOVES if not values[name]["graphs"]}
            return json_values(values)

        other = None if self.should_not is None else row(self.should_not)
        finding = {"verdict": self.finding, "passed": self.passed, "warning": self.warning}
        return finding | {"should": row(self.should), "should_not": other}

    def rows(self) -> list[dict[str, Any]]:
        """The same as a table: one row for each pattern."""
        found, rows = self.to_dict(), []
        for role in ("should", "should_not"):
            if found[role] is not None:
                row = {"role": role, "verdict": self.finding, **found[role]}
                for what in MOVES:
                    one = row.pop(what) or {"effect": [None] * 3, "control": [None]}
                    names = (what, f"{what}_low", f"{what}_high", f"{what}_random")
                    row |= dict(zip(names, [*one["effect"], one["control"][0]], strict=True))
                rows.append(row)
        return rows

    def __str__(self) -> str:
        lines = [f"verdict: {self.finding}"]
        lines += [] if self.warning is None else [f"careful: {self.warning}"]
        for role, one in (("should matter", self.should), ("should not", self.should_not)):
            if one is not None:
                towards = f", effects are towards {one.towards}" if one.towards else ""
                lines += [
                    f"{role}: {one.name} in {one.graphs} graphs{towards}, bound {one.bound:.2g}",
                    f"  put in alone {one.inserted}",
                    f"  beside hydrogens {one.removed}",
                    f"  beside neutral fragments {one.replaced}",
                ]
        return "\n".join(lines)


def audit_of(
    transplants: Transplants,
    should: NamedPattern,
    other: NamedPattern | None,
    grafting: Grafting | None = None,
) -> Audit:
    """Asks about what should matter and what should not; see :func:`evidence_of`."""
    both = [evidence_of(transplants, should, other, grafting)]
    both += [] if other is None else [evidence_of(transplants, other, should, grafting)]
    context = transplants.context
    alike = context.task.classification and len(torch.unique(context.prediction)) == 1
    finding = "one prediction only" if alike else finding_of(both)
    return Audit(both[0], both[1] if other is not None else None, finding)


def finding_of(evidence: Sequence[PatternEvidence]) -> str:
    """What evidence on one pattern or two says, see :class:`Audit`."""
    alone, read = [one.enough for one in evidence], [one.read for one in evidence]
    if any(one.graphs < LEAST_GRAPHS for one in evidence):
        return "too few graphs"
    if len(evidence) == 2 and all(one.helped for one in evidence):
        return "needs both"
    if True in alone and None in alone:  # it is clear which of two moves outputs
        strong, weak = (evidence[alone.index(known)].inserted for known in (True, None))
        alone[alone.index(None)] = False if weak.below_half(strong) else None
    if True not in alone or None in alone:
        alone = read
    if None in alone:
        return "cannot tell"
    return FINDINGS[bool(alone[0]), len(alone) > 1 and bool(alone[1])]
