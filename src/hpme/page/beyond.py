"""What the page says beyond one graph: rules, counterfactuals, an audit; and proofs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from hpme.explainers.hpme.quality import Quality
from hpme.graphs import GraphStore
from hpme.graphs.schema import NODE_TYPE
from hpme.graphs.transforms import on_cpu
from hpme.page.drawing import draw_graphs
from hpme.page.entries import text_or_none
from hpme.page.template import decimals, whole_numbers
from hpme.viz.proof import placed

if TYPE_CHECKING:
    from hpme.explainers.hpme.audit import Audit
    from hpme.explainers.hpme.counterfactuals import Counterfactual
    from hpme.explainers.hpme.rulebook import RuleBook

Changes = Sequence[Sequence["Counterfactual"] | None]
"""Counterfactuals of each graph of the page; ``None`` where they were not looked for."""
CHANGE = ("size", "smiles", "similarity", "exchanged", "accessibility", "known")


class Drawn:
    """Graphs beside those of the page, and their numbers."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []
        self.marks: list[Tensor] = []

    def add(self, graph: Any, mark: Tensor | None = None) -> int:
        """The number of a graph; ``mark`` are nodes to colour."""
        known = {name: graph.get(name) for name in (NODE_TYPE, "places")}
        known = {name: value for name, value in known.items() if value is not None}
        known["smiles"] = text_or_none(graph.get("smiles"))
        self.graphs.append(Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes, **known))
        self.marks.append(torch.zeros(graph.num_nodes) if mark is None else mark.cpu())
        return len(self.graphs) - 1

    def to_dict(self, *, progress: bool) -> dict[str, Any]:
        """What the page needs to draw them."""
        plain = [Data(x=torch.zeros(g.num_nodes, 1), edge_index=g.edge_index) for g in self.graphs]
        store = GraphStore.from_graphs(on_cpu(plain))
        known = [graph.get(NODE_TYPE) for graph in self.graphs]
        types = None if any(kind is None for kind in known) else torch.cat(known)
        drawn = draw_graphs(on_cpu(self.graphs), store, types, progress=progress)
        return {"mark": whole_numbers(torch.cat(self.marks)), **drawn}


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
    changes = [
        None if some is None else [_change(one, drawn) for one in some]
        for some in counterfactuals or ()
    ]
    found = {
        "rules": None if rules is None else _rules(rules, drawn),
        "changes": None if counterfactuals is None else changes,
        "audit": None if audit is None else audit.to_dict(),
    }
    return found | {"drawn": drawn.to_dict(progress=progress) if drawn.graphs else None}


def _rules(book: RuleBook, drawn: Drawn) -> dict[str, Any]:
    found = book.to_dict()
    rows = found["rules"] + found["contributors"]
    for row, rule in zip(rows, book.rules + book.contributors, strict=True):
        row["graph"] = drawn.add(rule.exemplar.graph)
        row["nodes"] = rule.exemplar.nodes.nonzero().view(-1).tolist()
        del row["patterns"]
    return found


def _change(one: Counterfactual, drawn: Drawn) -> dict[str, Any]:
    before, after, *outputs = (
        value if math.isfinite(value) else None for value in (one.before, one.after, *one.outputs)
    )
    graph = one.graph.clone()
    graph.smiles = one.smiles
    return {
        "graph": drawn.add(graph),
        "changed": one.changed.nonzero().view(-1).tolist(),
        "removed": one.removed.nonzero().view(-1).tolist(),
        "before": before,
        "after": after,
        "outputs": outputs,
        **{name: getattr(one, name) for name in CHANGE},
    }


def proofs(named: Mapping[str, Sequence[Any]], *, progress: bool = False) -> dict[str, Any] | None:
    """By explainer what was moved where for each graph, drawn, and what the model said.

    A trial is a list: number of the drawn host and its output, then both with the region, then
    with a random region. Outputs of all hosts are as many numbers for every graph, NaN where
    nothing was moved. The best is the graph whose region carries most for certain.
    """
    drawn, found = Drawn(), dict[str, Any]()
    for name, explanations in named.items():
        qualities = [explanation.get("quality") for explanation in explanations]
        known = [q.proof if isinstance(q, Quality) else None for q in qualities]
        if not any(proof is not None and proof.trials for proof in known):
            continue
        trials, sure = list[list[list[float]]](), dict[float, int]()
        width = max(len(proof.hosts) for proof in known if proof is not None)
        outputs = torch.full((3, len(known), width), torch.nan)
        own = torch.full((len(known),), torch.nan)
        for number, (proof, quality) in enumerate(zip(known, qualities, strict=True)):
            trials.append([])
            if proof is None:
                continue
            own[number] = proof.output
            outputs[:, number, : len(proof.hosts)] = torch.stack(
                [proof.hosts, proof.chosen, proof.random]
            ).float()
            for trial in proof.trials:
                trials[-1].append([])
                for graph, one in zip(placed(trial), trial, strict=True):
                    place = drawn.add(graph, one.nodes)
                    trials[-1][-1] += [place, round(one.output, 4)]
            if (
                quality.verdict == "carried"
                and proof.trials
                and not math.isnan(quality.carried_low)
            ):
                sure.setdefault(quality.carried_low, number)
        columns = zip(("hosts", "chosen", "random"), outputs, strict=True)
        found[name] = {
            "trials": trials,
            "outputs": {
                "width": width,
                "own": decimals(own),
                **{side: decimals(values.reshape(-1)) for side, values in columns},
            },
            "names": [None if proof is None else proof.name for proof in known],
            "best": sure[max(sure)] if sure else None,
        }
    return {"of": found, "drawn": drawn.to_dict(progress=progress)} if found else None
