"""What a model has learned, in a few rules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import networkx as nx
import torch
from torch import Tensor

from hpme.explainers.hpme.patterns import Vocabulary
from hpme.graphs import GraphStore
from hpme.graphs.patterns import LabelledGraphs, Pattern

AND = " AND "
CARRIES, SOME = 0.5, 0.1
"""Effects from which on patterns carry the prediction, or some of it."""


@dataclass(frozen=True)
class Exemplar:
    """A real graph that shows a rule.

    Args:
        graph: The graph, a ``Data``.
        nodes: Boolean mask of the nodes that match.
    """

    graph: Any
    nodes: Tensor


@dataclass(frozen=True)
class Rule:
    """If a graph has all patterns, the model predicts this. Numbers are of unseen graphs.

    Args:
        patterns: The patterns, all of which must occur as induced subgraphs.
        names: What they are called: SMARTS for molecules, else the form.
        prediction: Number of the class, or the mean value.
        label: The prediction in words.
        coverage: Share of all graphs that have the patterns.
        precision: Share of these that get the prediction; NaN for values.
        recall: Share of the graphs with the prediction that have the patterns; NaN for values.
        lift: How much more often graphs with the patterns get the prediction than all do.
        effects: How much nearer the patterns of a graph bring hosts of other predictions to its
            prediction than as many random nodes of it do, for every graph with both.
        pooled: Mean share of the matching nodes that the explainer pools.
        exemplar: A graph that shows the rule.
    """

    patterns: tuple[Pattern, ...]
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
        return (
            f"IF {self.name} THEN {self.label}: coverage {self.coverage:.2f}, precision "
            f"{self.precision:.2f}, lift {self.lift:.2f}, effect {self.effect:+.2f}"
        )


@dataclass(frozen=True)
class RuleBook:
    """An ordered list of rules that says what a model predicts; the first that holds decides.

    Args:
        rules: The rules.
        default: What is predicted where none holds: a class, or a value.
        default_label: The same in words.
        fidelity: On graphs the rules were not learned from: share of predictions of the model that
            the list gives, for values the share of their variance that it explains.
        learned: The same on the graphs they were learned from.
        learned_graphs: Number of graphs they were learned from.
        unseen_graphs: Number of other graphs.
        note: What else must be known.
        vocabulary: What nodes and edges are called.
    """

    rules: tuple[Rule, ...]
    default: float
    default_label: str
    fidelity: float
    learned: float
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
        store = GraphStore.from_graphs(graphs)
        return apply_rules(
            self.vocabulary.read(store),
            [rule.patterns for rule in self.rules],
            [rule.prediction for rule in self.rules],
            self.default,
        )

    def to_dict(self) -> dict[str, Any]:
        """All that JSON can hold."""
        rows = []
        for rule in self.rules:
            names = (
                "prediction",
                "label",
                "coverage",
                "precision",
                "recall",
                "lift",
                "effect",
                "role",
            )
            row = {name: _finite(getattr(rule, name)) for name in names}
            patterns = [
                {"nodes": list(p.nodes), "edges": [list(edge) for edge in p.edges]}
                for p in rule.patterns
            ]
            row |= {"if": list(rule.names), "patterns": patterns, "effects": list(rule.effects)}
            rows.append(row | {"pooled": _finite(rule.pooled)})
        return {
            "rules": rows,
            "default": _finite(self.default),
            "default_label": self.default_label,
            "fidelity": _finite(self.fidelity),
            "fidelity_learned": _finite(self.learned),
            "learned_graphs": self.learned_graphs,
            "unseen_graphs": self.unseen_graphs,
            "note": self.note,
        }

    def __str__(self) -> str:
        lines = [f"{i}. {rule}" for i, rule in enumerate(self.rules, 1)]
        lines.append(f"{len(self.rules) + 1}. OTHERWISE {self.default_label}")
        lines.append(
            f"fidelity {self.fidelity:.3f} on {self.unseen_graphs} unseen graphs "
            f"({self.learned:.3f} on the {self.learned_graphs} learned from)"
        )
        return "\n".join([*lines, *([self.note] if self.note else [])])

    def draw(self, path: str | Path | None = None) -> str | Path:
        """The picture of the whole dataset: a row per rule, a point per graph.

        Args:
            path: A ``.png`` or ``.svg`` file to write; without it the SVG text is returned.
        """
        from hpme.viz.rules import draw_rules, rules_picture

        return rules_picture(self, ".svg").decode() if path is None else draw_rules(self, path)

    def _repr_html_(self) -> str:
        return str(self.draw())


def apply_rules(
    graphs: LabelledGraphs,
    rules: Sequence[Sequence[Pattern]],
    predictions: Sequence[float],
    default: float,
) -> Tensor:
    """The prediction of the first rule that holds, for every graph."""
    result = torch.full((graphs.count,), float(default))
    open_ = torch.ones(graphs.count, dtype=torch.bool)
    for patterns, prediction in zip(rules, predictions, strict=True):
        holds = open_ & torch.stack([graphs.has(pattern) for pattern in patterns]).all(0)
        result[holds] = float(prediction)
        open_ &= ~holds
    return result


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
