"""Explanations of many graphs on a page, what the model makes of them, and what lies beyond."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from hpme import __version__
from hpme.errors import InputError
from hpme.explainers.hpme.quality import Quality
from hpme.graphs import GraphStore
from hpme.graphs.hetero import flat_views
from hpme.graphs.schema import NODE_TYPE
from hpme.graphs.transforms import on_cpu
from hpme.models.explained import ExplainedModel, Model
from hpme.models.output import Mode
from hpme.page import entries
from hpme.page.drawing import decimals, draw_graphs, render, shares, whole_numbers
from hpme.progress import progress_bar
from hpme.storage import json_values, write_atomically
from hpme.viz.sheets import placed

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
        smiles, places = entries.text_or_none(graph.get("smiles")), graph.get("places")
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
    book = None if rules is None else rules.to_dict()
    if rules is not None and book is not None:
        rows = book["rules"] + book["contributors"]
        for row, rule in zip(rows, rules.rules + rules.contributors, strict=True):
            row["graph"] = drawn.add(rule.exemplar.graph)
            row["nodes"] = rule.exemplar.nodes.nonzero().view(-1).tolist()
            del row["patterns"]
    found = {
        "rules": book,
        "changes": None if counterfactuals is None else changes,
        "audit": None if audit is None else audit.to_dict(),
    }
    return found | {"drawn": drawn.to_dict(progress=progress) if drawn.graphs else None}


def _change(one: Counterfactual, drawn: Drawn) -> dict[str, Any]:
    graph = one.graph.clone()
    graph.smiles = one.smiles
    values = json_values({"before": one.before, "after": one.after, "outputs": one.outputs})
    return {
        "graph": drawn.add(graph),
        "changed": one.changed.nonzero().view(-1).tolist(),
        "removed": one.removed.nonzero().view(-1).tolist(),
        **values,
        **{name: getattr(one, name) for name in CHANGE},
    }


def proofs(named: Mapping[str, Sequence[Any]], *, progress: bool = False) -> dict[str, Any] | None:
    """By explainer what was moved where for each graph, drawn, and what the model said.

    A trial is a list: number of the drawn host, its output and its marked nodes, then those with
    the region, then with a random region. The best graph is that whose region surely carries most.
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


Metrics = Mapping[str, Sequence[float]]


def payload(
    model: Model,
    graphs: Sequence[Any],
    explanations: Mapping[str, Sequence[Any]] | Sequence[Any],
    *,
    title: str | None = None,
    mode: Mode | None = None,
    model_config: Any = None,
    names: Sequence[str] | None = None,
    class_names: Sequence[str] | None = None,
    reports: Mapping[str, Any] | None = None,
    metrics: Metrics | None = None,
    rules: RuleBook | None = None,
    counterfactuals: Changes | None = None,
    audit: Audit | None = None,
    keep: float | None = None,
    steps: int = 20,
    seed: int = 0,
    store: GraphStore | None = None,
    model_name: str | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """What the page's script reads, as JSON; arguments are those of :func:`write_page`."""
    given = list(graphs)
    named = explanations if isinstance(explanations, Mapping) else {"explanation": explanations}
    graphs, *flat = (on_cpu(part) for part in flat_views(given, *map(list, named.values())))
    named = dict(zip(named, flat, strict=True))
    if not graphs:
        raise InputError("no graphs to show; pass at least one")
    if not named:
        raise InputError("no explanations to show; pass those of at least one explainer")
    lists: dict[str, Any] = {"names": names, "lists of counterfactuals": counterfactuals}
    lists |= {f"values of metric '{name}'": values for name, values in (metrics or {}).items()}
    for what, some in lists.items():
        if some is not None and len(some) != len(graphs):
            raise InputError(f"{len(graphs)} graphs need as many {what}, got {len(some)}")
    for name in reports or {}:
        if name not in named:
            raise InputError(f"a report of '{name}', but no explanations; use the same names")
    if keep is not None and not 0 <= keep <= 1:
        raise InputError(f"keep is a share between 0 and 1, got {keep}")
    if steps < 1:
        raise InputError(f"steps must be at least 1, got {steps}")
    explained = ExplainedModel.of(model, mode=mode, model_config=model_config)
    if store is None:
        store = explained.read(graphs if graphs[0].get("type_names") is None else given)
    store = on_cpu(store)
    if bool((store.sizes == 0).any()):
        number = int((store.sizes == 0).nonzero()[0])
        raise InputError(f"graph {number} has no nodes; leave empty graphs out")
    pairs = store.pairs.proper
    types = store.node[NODE_TYPE] if store.schema else None
    drawn = draw_graphs(graphs, store, types, progress=progress)
    atoms, scores = entries.scores_of(named, store, molecules=drawn["molecules"])
    counts, owner = (store.sizes, store.node_graph) if atoms else (pairs.counts, pairs.graph)
    random = "random atoms" if atoms else "random edges"
    while random in named:
        random += " again"
    generator = torch.Generator().manual_seed(seed)
    scores[random] = torch.rand(len(owner), generator=generator).double()
    ranks = {name: entries.ranked(score, owner, counts, seed) for name, score in scores.items()}
    kept, step_counts = entries.sizes_of(counts, steps)
    # A bond comes with the later of its two atoms.
    ends = pairs.index + store.node_start[pairs.graph]
    parts = {}
    with explained.frozen(), torch.no_grad():
        predictions = entries.Predictions(explained, store)
        with progress_bar("deleting edges", len(ranks), enabled=progress) as advance:
            for name, rank in ranks.items():
                order = rank[ends].amax(0) if atoms else rank
                parts[name] = predictions.parts(pairs, order, kept, step_counts)
                advance(1)
    values = partial(shares, low=0.0, high=1.0) if predictions.task.classification else decimals
    truth = entries.truth_of(graphs, pairs)
    names = names or entries.names_of(graphs, range(len(graphs)))
    model_name = entries.called(explained, model_name)
    title = title or f"Explanations of {model_name}"
    told = [
        {
            **(entries.entry(named[name], scores[name], graphs, truth) if name in named else {}),
            **entries.evidence((reports or {}).get(name)),
            "name": name,
            "baseline": name not in named,
            "rank": whole_numbers(ranks[name]),
            "alone": values(parts[name][0]),
            "without": values(parts[name][1]),
        }
        for name in scores
    ]
    return {
        "title": title,
        "model": model_name,
        "version": __version__,
        "classes": predictions.classes(class_names or entries.side_names(explained)),
        "keep": keep,
        "unit": "atom" if atoms else "edge",
        "names": [str(name) for name in names],
        "smiles": [entries.text_or_none(graph.get("smiles")) for graph in graphs],
        **drawn,
        "types": list(store.schema.node_types) if store.schema else None,
        "truth": {k: whole_numbers(v) for k, v in truth.items()} if truth else None,
        "stepCounts": whole_numbers(step_counts),
        "steps": whole_numbers(kept),
        "prediction": values(predictions.full),
        "y": None if store.y is None else decimals(store.y),
        "metrics": {name: entries.numbers(values) for name, values in (metrics or {}).items()},
        "explainers": told,
        "insight": beyond(rules, counterfactuals, audit, progress=progress),
        "proofs": proofs(named, progress=progress),
    }


def write_page(
    model: Model,
    graphs: Sequence[Any],
    explanations: Mapping[str, Sequence[Any]] | Sequence[Any],
    path: str | Path,
    **options: Any,
) -> Path:
    """Writes one HTML file with all explanations; it opens in a browser without a network.

    Scores of the two directions between nodes are averaged; equal scores are ordered at random, and
    a score that is no number counts as the lowest. What the model predicts on the heaviest edges
    alone, and without them, is computed here; nodes and self-loops stay.

    Args:
        model: The explained model; it is left exactly as it was.
        graphs: Graphs, with ``edge_mask`` and ``node_mask`` where there is ground truth, ``smiles``
            where they are molecules, and ``name`` or ``y`` if they have any.
        explanations: One explanation per graph, or such a list per explainer by name. Numbers in
            an explanation's ``quality``, as ``HPMEExplainer.quality`` gives it or by name, become
            metrics; its ``verdict`` is shown in words, and nodes of an ``"absence"`` are not
            marked.
        path: Where to write; ``.html``.
        mode: ``"regression"`` or ``"binary_classification"`` if the model returns one value per
            graph.
        model_config: PyG's ``ModelConfig``, in place of ``mode``.
        title, names, model_name: What the page, the graphs and the model are called; by default by
            their ``name``, ``smiles`` or number, and by the model's ``title`` or class.
        class_names: Names of the classes; by default as the model is known by, else their number.
        reports: What explainers report about their fit, such as ``HPMEExplainer.report``, by name.
        metrics: Further numbers by name, one for each graph, to show and to sort by.
        rules, counterfactuals, audit: What these methods of an explainer returned for the graphs,
            for tabs of their own. Counterfactuals of some graphs may be ``None``: not looked for.
        keep: Share of edges kept when the page opens; by default as many as every graph has between
            pooled nodes, if explanations have them, else 0.2.
        steps: Largest number of steps of a slider.
        seed: Decides the order of equal scores and of the random edges.
        store: The same graphs as flat tensors, if the model's reader has made them already.
        progress: Whether to draw progress bars (on terminals only).

    Raises:
        InputError: If there is nothing to show, lengths differ, or a number is out of range.
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"'{path}' must end in .html")
    data = payload(model, graphs, explanations, **options)
    write_atomically(path, render(data).encode())
    return path
