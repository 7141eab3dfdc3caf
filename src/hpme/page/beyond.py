"""What the page says beyond one graph: rules, counterfactuals, an audit; and proofs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from hpme.explainers.hpme.quality import Quality
from hpme.graphs import GraphStore
from hpme.graphs.schema import NODE_TYPE
from hpme.graphs.transforms import on_cpu
from hpme.page.drawing import decimals, draw_graphs, shares
from hpme.page.entries import text_or_none
from hpme.viz.proof import placed

if TYPE_CHECKING:
    from hpme.explainers.hpme.audit import Audit
    from hpme.explainers.hpme.counterfactuals import Counterfactual
    from hpme.explainers.hpme.rulebook import RuleBook

Changes = Sequence[Sequence["Counterfactual"] | None]
"""Counterfactuals of each graph of the page; ``None`` where they were not looked for."""
CHANGE = ("size", "smiles", "similarity", "exchanged", "accessibility", "known")


class Drawn:
    """Graphs beside those of the page, and their numbers; a molecule in one place is drawn once."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []
        self.known: dict[Any, int] = {}

    def add(self, graph: Any) -> int:
        """The number of a graph."""
        smiles, places = text_or_none(graph.get("smiles")), graph.get("places")
        at = None if places is None else places.numpy().tobytes()
        number = self.known.setdefault((smiles or len(self.graphs), at), len(self.graphs))
        if number == len(self.graphs):
            self.graphs.append(graph)
        return number

    def to_dict(self, *, progress: bool) -> dict[str, Any]:
        """What the page needs to draw them."""
        graphs = on_cpu(self.graphs)
        sizes, edges = torch.tensor([[one.num_nodes, one.num_edges] for one in graphs]).T
        store = GraphStore(sizes, edges, torch.cat([graph.edge_index for graph in graphs], 1))
        kinds = [graph.get(NODE_TYPE) for graph in graphs]
        types = None if any(kind is None for kind in kinds) else torch.cat(kinds)
        return draw_graphs(graphs, store, types, progress=progress)


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

    A trial is a list: number of the drawn host, its output and its marked nodes, then those with
    the region, then with a random region. Outputs of all hosts are as many numbers for every graph,
    NaN where nothing was moved. The best is the graph whose region carries most for certain.
    """
    drawn, found = Drawn(), dict[str, Any]()
    for name, explanations in named.items():
        qualities = [explanation.get("quality") for explanation in explanations]
        known = [q.proof if isinstance(q, Quality) else None for q in qualities]
        if not any(proof is not None and proof.trials for proof in known):
            continue
        trials, sure = list[list[list[Any]]](), dict[float, int]()
        bounded = all(proof.bounded for proof in known if proof is not None)
        column = partial(shares, low=0.0, high=1.0) if bounded else decimals
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
                    marked = one.nodes.nonzero().view(-1).tolist()
                    trials[-1][-1] += [drawn.add(graph), round(one.output, 4), marked]
            if quality.verdict == "carried" and proof.trials and quality.carried_low > -math.inf:
                sure.setdefault(quality.carried_low, number)  # NaN is not
        columns = zip(("hosts", "chosen", "random"), outputs, strict=True)
        found[name] = {
            "trials": trials,
            "outputs": {
                "width": width,
                "own": column(own),
                **{side: column(values.reshape(-1)) for side, values in columns},
            },
            "names": [None if proof is None else proof.name for proof in known],
            "best": sure[max(sure)] if sure else None,
        }
    return {"of": found, "drawn": drawn.to_dict(progress=progress)} if found else None
