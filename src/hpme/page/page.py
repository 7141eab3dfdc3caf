"""Explanations of many graphs on a page, with what the model makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from hpme import __version__
from hpme.errors import InputError
from hpme.graphs import GraphStore
from hpme.graphs.hetero import flat_views
from hpme.graphs.schema import NODE_TYPE
from hpme.graphs.transforms import on_cpu
from hpme.models.explained import ExplainedModel, Model
from hpme.models.task import Mode
from hpme.page.beyond import Changes, beyond
from hpme.page.drawing import draw_graphs
from hpme.page.entries import entry, evidence, numbers, text_or_none, truth_of
from hpme.page.predictions import Predictions, Sizes, called, side_names
from hpme.page.proofs import proofs
from hpme.page.template import decimals, render, whole_numbers
from hpme.page.units import Units
from hpme.storage import write_atomically

if TYPE_CHECKING:
    from hpme.explainers.hpme.audit import Audit
    from hpme.explainers.hpme.rulebook import RuleBook

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
    _check(graphs, named, names, reports, metrics, counterfactuals, keep, steps)
    explained = ExplainedModel.of(model, mode=mode, model_config=model_config)
    if store is None:
        store = explained.read(graphs if graphs[0].get("type_names") is None else given)
    store = on_cpu(store)
    if bool((store.sizes == 0).any()):
        number = int((store.sizes == 0).nonzero()[0])
        raise InputError(f"graph {number} has no nodes; leave empty graphs out")
    units = Units.of(graphs, named, store)
    pairs = units.pairs
    scores = {name: units.scores(e, name) for name, e in named.items()}
    generator = torch.Generator().manual_seed(seed)
    random = "random atoms" if units.atoms else "random edges"
    while random in named:
        random += " again"
    scores[random] = torch.rand(int(units.counts.sum()), generator=generator).double()
    ranks = {
        name: units.ranks(score, torch.Generator().manual_seed(seed))
        for name, score in scores.items()
    }
    sizes = Sizes.grid(units.counts, steps)
    of_pairs = {name: units.of_pairs(rank) for name, rank in ranks.items()}
    predictions = Predictions.of(explained, store, pairs, of_pairs, sizes, progress=progress)
    truth = truth_of(graphs, pairs)
    if names is None:
        known = [[text_or_none(graph.get(key)) for key in ("name", "smiles")] for graph in graphs]
        names = [name or smiles or f"graph {i}" for i, (name, smiles) in enumerate(known)]
    model_name = called(explained, model_name)
    title = title or f"Explanations of {model_name}"
    entries = [
        {
            **(entry(named[name], scores[name], graphs, truth) if name in named else {}),
            **evidence((reports or {}).get(name)),
            "name": name,
            "baseline": name not in named,
            "rank": whole_numbers(ranks[name]),
            "alone": predictions.column(predictions.alone[name]),
            "without": predictions.column(predictions.without[name]),
        }
        for name in scores
    ]
    return {
        "title": title,
        "model": model_name,
        "version": __version__,
        "classes": predictions.classes(class_names or side_names(explained)),
        "keep": keep,
        "unit": "atom" if units.atoms else "edge",
        "names": [str(name) for name in names],
        "smiles": [text_or_none(graph.get("smiles")) for graph in graphs],
        "nodes": whole_numbers(store.sizes),
        "edges": whole_numbers(pairs.counts),
        "ends": whole_numbers(pairs.index.t().reshape(-1)),
        **draw_graphs(graphs, pairs, store.node_graph, progress=progress),
        "types": list(store.schema.node_types) if store.schema else None,
        "type": whole_numbers(store.node[NODE_TYPE]) if store.schema else None,
        "truth": {k: whole_numbers(v) for k, v in truth.items()} if truth else None,
        "stepCounts": whole_numbers(sizes.counts),
        "steps": whole_numbers(sizes.kept),
        "prediction": predictions.column(predictions.full),
        "y": None if store.y is None else decimals(store.y),
        "metrics": {name: numbers(values) for name, values in (metrics or {}).items()},
        "explainers": entries,
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

    For every graph a slider chooses how many of the heaviest edges count, and the page shows what
    the model predicts on these edges alone and on the graph without them. Both are the model's
    outputs on graphs whose other edges were deleted, computed here for up to ``steps + 1`` sizes;
    nodes and self-loops stay. As a line to compare with, the same is done with edges in random
    order. Scores of the two directions between nodes are averaged; equal scores are ordered at
    random. A score that is no number counts as the lowest.

    Args:
        model: The explained model; it is left exactly as it was.
        graphs: Graphs, with ``edge_mask`` and ``node_mask`` where there is ground truth, ``smiles``
            where they are molecules, and ``name`` or ``y`` if they have any.
        explanations: One explanation per graph, or such a list per explainer by name. Numbers in
            an explanation's ``quality``, as ``HPMEExplainer.quality`` gives it or by name, become
            metrics; its ``verdict`` is shown in words, and nodes of an ``"absence"`` are not
            marked.
        path: Where to write; ``.html``.
        title: Title of the page.
        mode: ``"regression"`` or ``"binary_classification"`` if the model returns one value per
            graph.
        model_config: PyG's ``ModelConfig``, in place of ``mode``.
        names: Names of the graphs; by default their ``name``, else their number.
        class_names: Names of the classes; by default as the model is known by, else their number.
        reports: What explainers report about their fit, such as ``HPMEExplainer.report``, by name.
        metrics: Further numbers by name, one for each graph, to show and to sort by.
        rules: What ``explainer.rules`` returned, for a tab of its own.
        counterfactuals: What ``explainer.counterfactuals`` returned for these graphs; another tab.
        audit: What ``explainer.audit`` returned; another tab.
        keep: Share of edges kept when the page opens; by default as many as every graph has between
            pooled nodes, if explanations have them, else 0.2.
        steps: Largest number of steps of a slider.
        seed: Decides the order of equal scores and of the random edges.
        store: The same graphs as flat tensors, if the model's reader has made them already.
        model_name: What the model is called; by default its ``title``, else its class.
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


def _check(
    graphs: Sequence[Any],
    named: Mapping[str, Sequence[Any]],
    names: Sequence[str] | None,
    reports: Mapping[str, Any] | None,
    metrics: Metrics | None,
    counterfactuals: Changes | None,
    keep: float | None,
    steps: int,
) -> None:
    if not graphs:
        raise InputError("no graphs to show; pass at least one")
    if not named:
        raise InputError("no explanations to show; pass those of at least one explainer")
    for what, some in (("names", names), ("lists of counterfactuals", counterfactuals)):
        if some is not None and len(some) != len(graphs):
            raise InputError(f"{len(graphs)} graphs need as many {what}, got {len(some)}")
    for name in reports or {}:
        if name not in named:
            raise InputError(f"a report of '{name}', but no explanations; use the same names")
    for name, values in (metrics or {}).items():
        if len(values) != len(graphs):
            raise InputError(f"metric '{name}' has {len(values)} values for {len(graphs)} graphs")
    if keep is not None and not 0 <= keep <= 1:
        raise InputError(f"keep is a share between 0 and 1, got {keep}")
    if steps < 1:
        raise InputError(f"steps must be at least 1, got {steps}")
