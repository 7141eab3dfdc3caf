"""What the page says beyond one graph: rules, counterfactuals, an audit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from hpme.graphs import GraphStore
from hpme.graphs.schema import NODE_TYPE
from hpme.graphs.transforms import on_cpu
from hpme.page.drawing import draw_graphs
from hpme.page.entries import text_or_none
from hpme.page.template import whole_numbers

if TYPE_CHECKING:
    from hpme.explainers.hpme.audit import Audit
    from hpme.explainers.hpme.counterfactuals import Counterfactual
    from hpme.explainers.hpme.rulebook import RuleBook

Changes = Sequence[Sequence["Counterfactual"] | None]
"""Counterfactuals of each graph of the page; ``None`` where they were not looked for."""


class Drawn:
    """Graphs beside those of the page, and their numbers."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []
        self.marks: list[Tensor] = []

    def add(self, graph: Any, smiles: str | None, mark: Tensor | None = None) -> int:
        """The number of a graph; ``mark`` are nodes to colour."""
        known = {name: graph.get(name) for name in (NODE_TYPE, "places")}
        there = {name: value for name, value in known.items() if value is not None}
        self.graphs.append(
            Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes, smiles=smiles, **there)
        )
        none = torch.zeros(graph.num_nodes, dtype=torch.bool)
        self.marks.append(none if mark is None else mark.cpu())
        return len(self.graphs) - 1

    def to_dict(self, *, progress: bool) -> dict[str, Any]:
        """What the page needs to draw them."""
        plain = [Data(x=torch.zeros(g.num_nodes, 1), edge_index=g.edge_index) for g in self.graphs]
        store = GraphStore.from_graphs(on_cpu(plain))
        pairs = store.pairs.proper
        types = [graph.get(NODE_TYPE) for graph in self.graphs]
        hetero = all(kind is not None for kind in types)
        return {
            "nodes": whole_numbers(store.sizes),
            "edges": whole_numbers(pairs.counts),
            "ends": whole_numbers(pairs.index.t().reshape(-1)),
            "type": whole_numbers(torch.cat(types)) if hetero else None,
            "mark": whole_numbers(torch.cat(self.marks)),
            **draw_graphs(on_cpu(self.graphs), pairs, store.node_graph, progress=progress),
        }


def beyond(
    rules: RuleBook | None,
    counterfactuals: Changes | None,
    audit: Audit | None,
    *,
    progress: bool = False,
) -> dict[str, Any] | None:
    """All of it as JSON, with drawings of the graphs that are in neither list of the page."""
    if rules is None and counterfactuals is None and audit is None:
        return None
    drawn = Drawn()
    found = {
        "rules": None if rules is None else _rules(rules, drawn),
        "changes": None if counterfactuals is None else _changes(counterfactuals, drawn),
        "audit": None if audit is None else audit.to_dict(),
    }
    return found | {"drawn": drawn.to_dict(progress=progress) if drawn.graphs else None}


def _rules(book: RuleBook, drawn: Drawn) -> dict[str, Any]:
    found = book.to_dict()
    rows = found["rules"] + found["contributors"]
    for row, rule in zip(rows, book.rules + book.contributors, strict=True):
        graph = rule.exemplar.graph
        row["graph"] = drawn.add(graph, text_or_none(graph.get("smiles")))
        row["nodes"] = _places(rule.exemplar.nodes)
        del row["patterns"]
    return found


def _changes(changes: Changes, drawn: Drawn) -> list[list[dict[str, Any]] | None]:
    return [
        None
        if some is None
        else [
            {
                "graph": drawn.add(one.graph, one.smiles),
                "changed": _places(one.changed),
                "removed": _places(one.removed),
                "before": _number(one.before),
                "after": _number(one.after),
                "size": one.size,
                "smiles": one.smiles,
                "similarity": one.similarity,
                "outputs": [_number(value) for value in one.outputs],
                "exchanged": one.exchanged,
                "accessibility": one.accessibility,
                "known": one.known,
            }
            for one in some
        ]
        for some in changes
    ]


def _places(mask: Tensor) -> list[int]:
    return [int(place) for place in mask.nonzero().view(-1)]


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
