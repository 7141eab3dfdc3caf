"""What a model has learned, in a few rules."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import networkx as nx
import torch
from torch import Tensor

from hpme.explainers.hpme.patterns import Vocabulary
from hpme.explainers.shared.explanation import Pictured
from hpme.graphs import GraphStore
from hpme.graphs.patterns import LabelledGraphs, Pattern
from hpme.storage import json_values

AND = " AND "
CARRIES, SOME = 0.5, 0.1
"""Effects from which on patterns carry the prediction, or some of it."""


class Exemplar(NamedTuple):
    """A real graph that shows a rule, and the nodes that match, boolean."""

    graph: Any
    nodes: Tensor


@dataclass(frozen=True)
class Condition:
    """Whether graphs have a pattern, an induced subgraph, or have it not."""

    pattern: Pattern
    times: int = 1  # in at least so many places
    absent: bool = False  # whether it is the opposite that is asked for

    def name(self, vocabulary: Vocabulary) -> str:
        """The condition in a few letters."""
        name = vocabulary.name(self.pattern)
        return f"{'NOT ' * self.absent}{f'{self.times} x ' if self.times > 1 else ''}{name}"

    def holds(self, graphs: LabelledGraphs) -> Tensor:
        """Whether it holds, for every graph."""
        return (graphs.times(self.pattern) >= self.times) ^ self.absent


@dataclass(frozen=True)
class Rule:
    """If all conditions hold, the model predicts this. Numbers are of unseen graphs it decides.

    Args:
        conditions: The conditions.
        names: What they are called: SMARTS for molecules, else the form.
        prediction: Number of the class, or the mean value.
        label: The prediction in words, for values the interval of four in five of them.
        coverage: Share of all graphs that it decides.
        precision: Share of these that get the prediction, for values one in the interval.
        recall: Share of the graphs with the prediction that it decides.
        lift: How much more often these get the prediction than all do.
        effects: How much nearer the patterns of some graphs bring hosts to their predictions than
            random nodes do; of molecules by grafts, in units of the output.
        pooled: Mean share of the matching nodes that the explainer pools.
        exemplar: A graph that shows the rule.
    """

    conditions: tuple[Condition, ...]
    names: tuple[str, ...]
    prediction: float
    label: str
    coverage: float
    precision: float
    recall: float
    lift: float
    effects: tuple[float, ...]
    pooled: float
    exemplar: Exemplar = field(repr=False)

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """What must be there."""
        return tuple(one.pattern for one in self.conditions if not one.absent)

    @property
    def name(self) -> str:
        """The condition in a line."""
        return AND.join(self.names)

    @property
    def effect(self) -> float:
        """Mean effect when transplanted; NaN if there was no graph to ask."""
        return sum(self.effects) / len(self.effects) if self.effects else math.nan

    @property
    def role(self) -> str:
        """What transplants say of the patterns, in words."""
        if not self.effects:
            return "was not put into any"
        amount = "" if self.effect >= CARRIES else "some of "
        return f"carries {amount}the prediction" if self.effect >= SOME else "does not carry it"

    @property
    def graphs(self) -> tuple[nx.Graph, ...]:
        """The patterns as networkx graphs."""
        return tuple(pattern.graph for pattern in self.patterns)

    def __str__(self) -> str:
        effect = f"effect {self.effect:+.2f}" if self.effects else self.role
        return (
            f"IF {self.name} THEN {self.label}   coverage {self.coverage:.2f}, precision "
            f"{self.precision:.2f}, lift {self.lift:.2f}, {effect}"
        )

    def to_dict(self) -> dict[str, Any]:
        """All that JSON can hold."""
        names = ("prediction", "label", "coverage", "precision", "recall", "lift", "effect", "role")
        row = {name: getattr(self, name) for name in (*names, "pooled", "effects")}
        patterns = [{"nodes": one.nodes, "edges": one.edges} for one in self.patterns]
        found: dict[str, Any] = json_values(row | {"if": self.names, "patterns": patterns})
        return found


@dataclass(frozen=True)
class RuleBook(Pictured):
    """An ordered list of rules that says what a model predicts; the first that holds decides.

    Its picture is of the whole dataset: a row per rule, a point per graph.

    Args:
        rules: The rules; none if no short list says clearly more than the default alone.
        contributors: Then rules of one condition each, those of the largest effect first; each
            holds for itself, and together they say nothing.
        default: What is predicted where none holds: a class, or a value.
        default_label: The same in words.
        fidelity: Share of predictions of the model that the list gives on unseen graphs, for values
            the share of their variance that it explains.
        learned, always: The same on the graphs learned from, and of the default alone.
        learned_graphs, unseen_graphs: Numbers of graphs the rules were learned from, and of others.
        note: What else must be known.
        vocabulary: What nodes and edges are called.
    """

    rules: tuple[Rule, ...]
    contributors: tuple[Rule, ...]
    default: float
    default_label: str
    fidelity: float
    learned: float
    always: float
    learned_graphs: int
    unseen_graphs: int
    note: str
    vocabulary: Vocabulary = field(repr=False)

    def __len__(self) -> int:
        return len(self.rules)

    def __iter__(self) -> Any:
        return iter(self.rules)

    def __getitem__(self, number: int) -> Rule:
        return self.rules[number]

    def predict(self, graphs: Iterable[Any]) -> Tensor:
        """What the rules say of other graphs: a class or a value for each."""
        read = self.vocabulary.read(GraphStore.from_graphs(graphs))
        found = torch.full((read.count,), self.default)
        for rule in reversed(self.rules):
            holds = torch.stack([one.holds(read) for one in rule.conditions]).all(0)
            found[holds] = rule.prediction
        return found

    def to_dict(self) -> dict[str, Any]:
        """All that JSON can hold."""
        row: dict[str, Any] = {"rules": [rule.to_dict() for rule in self.rules]}
        row["contributors"] = [rule.to_dict() for rule in self.contributors]
        names = ("default_label", "learned_graphs", "unseen_graphs", "note", "fidelity")
        row |= {name: getattr(self, name) for name in names}
        others = {"fidelity_learned": self.learned, "fidelity_always": self.always}
        found: dict[str, Any] = json_values(row | others | {"default": self.default})
        return found

    def __str__(self) -> str:
        lines = [f"{i}. {rule}" for i, rule in enumerate(self.rules, 1)]
        lines.append(f"{len(self.rules) + 1}. OTHERWISE {self.default_label}")
        lines.append(
            f"fidelity {self.fidelity:.3f} on {self.unseen_graphs} unseen graphs "
            f"({self.learned:.3f} on the {self.learned_graphs} learned from), "
            f"{self.always:.3f} with the last line alone"
        )
        if not self.rules:
            lines = [f"always {self.default_label}: fidelity {self.always:.3f}"]
        ranked = [f"- {rule}" for rule in self.contributors]
        return "\n".join([*([self.note] if self.note else []), *lines, *ranked])

    def _picture(self, suffix: str) -> bytes:
        from hpme.viz.sheets import rules_picture

        return rules_picture(self, suffix)
