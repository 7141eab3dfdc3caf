"""What the page says: predictions on graphs and their parts, scores, AUC, how good a fit is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.explainers.hpme.quality import Quality
from hpme.explainers.hpme.report import FitReport
from hpme.graphs import GraphBatch, GraphStore, Pairs
from hpme.graphs.segment import concatenated_ranges, exclusive_cumsum
from hpme.metrics import explanation_auc_per_graph
from hpme.models.explained import ExplainedModel
from hpme.models.output import Task
from hpme.models.replicas import Change, Replicas, replica_outputs
from hpme.page.drawing import Column, decimals, shares, whole_numbers
from hpme.viz.style import directions


def sizes_of(counts: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Numbers of edges to keep, from none to all in ever larger steps, and how many there are."""
    number = counts.clamp(max=steps) + 1
    step, graph = concatenated_ranges(torch.zeros_like(number), number)
    curve = (counts[graph] * (step / steps) ** 2).round().long()
    return torch.maximum(step, curve), number


def ranked(score: Tensor, graph: Tensor, counts: Tensor, seed: int) -> Tensor:
    """Rank of every unit in its graph, 0 for the best, ties at random, what is NaN last."""
    known = score.nan_to_num(-torch.inf, torch.inf, -torch.inf)
    order = torch.randperm(len(score), generator=torch.Generator().manual_seed(seed))
    order = order[known[order].argsort(descending=True, stable=True)]
    order = order[graph[order].argsort(stable=True)]
    place = torch.arange(len(order)) - exclusive_cumsum(counts)[graph]
    return torch.empty_like(order).scatter_(0, order, place)


class Predictions:
    """Class probabilities of graphs and of their parts, or values in their own unit."""

    def __init__(self, explained: ExplainedModel, store: GraphStore) -> None:
        self.adapter, self.store = explained.adapter(), store
        output = self._outputs(torch.arange(len(store)), lambda same: same.graphs)
        self.task: Task = explained.task(output)
        if not self.task.classification and output.numel() != len(store):
            raise InputError(
                f"the model returns {output.shape[1]} values per graph; the page shows one: "
                "wrap the model in a module that returns the one to look at"
            )
        self.full = self._values(output)

    def parts(
        self, pairs: Pairs, rank: Tensor, kept: Tensor, counts: Tensor
    ) -> tuple[Tensor, Tensor]:
        """For every size: on the heaviest edges and loops alone, and on the graph without them."""
        edge_rank = pairs.per_edge(rank, loops=0)
        loop = pairs.of_edge < 0

        def part(replicas: Replicas, heaviest: bool) -> GraphBatch:
            size = kept[replicas.number][replicas.graphs.edge_batch]
            heavy = edge_rank[replicas.edge_ids] < size
            return replicas.graphs.edges((heavy == heaviest) | loop[replicas.edge_ids])

        ids = torch.repeat_interleave(counts)
        alone = self._outputs(ids, partial(part, heaviest=True))
        without = self._outputs(ids, partial(part, heaviest=False))
        return self._values(alone), self._values(without)

    def _values(self, output: Tensor) -> Tensor:
        if self.task.classification:
            return self.task.log_prob(output).exp()
        return output.view(len(output), 1)

    def _outputs(self, ids: Tensor, change: Change) -> Tensor:
        found = replica_outputs(self.adapter, self.store, ids, change)
        return torch.cat([output for _, output in found])

    def classes(self, given: Sequence[str] | None) -> list[str] | None:
        """Names of classes, ``None`` in regression."""
        count = self.full.shape[1]
        if not self.task.classification:
            if given is not None:
                raise InputError("class_names are given, but the model is a regression")
            return None
        if given is not None and len(given) != count:
            raise InputError(f"{count} classes need as many class_names, got {len(given)}")
        return [f"class {i}" for i in range(count)] if given is None else [str(n) for n in given]


def asked_task(model: ExplainedModel) -> str | None:
    """Name of the task that is explained, of a model whose tasks have names."""
    target = model.target[0] if isinstance(model.target, tuple) else model.target
    tasks = list(model.tasks or ())
    if len(tasks) < 2:
        return tasks[0] if tasks else None
    if isinstance(target, int):
        return tasks[target] if target < len(tasks) else None
    return target if target in tasks else None


def called(model: ExplainedModel, name: str | None = None) -> str:
    """What a page calls a model: by its own title, else its class, and the task that is asked."""
    name = name or str(getattr(model.model, "title", None) or type(model.model).__name__)
    task = asked_task(model)
    return name if task is None else f"{name}, {task}"


def side_names(model: ExplainedModel) -> Sequence[str] | None:
    """Names of the classes on the page; what is asked about one class or task has two sides."""
    mode, task, several = model.view.mode, asked_task(model), len(model.tasks or ()) > 1
    if mode == "regression":
        return None
    of_task = not isinstance(model.target, tuple) and (several or model.target in (None, task))
    if task is not None and model.contrast is None and of_task:
        sides = [f"not {task}", task] if mode == "binary_classification" else None
        return model.classes or sides
    if model.target is None and model.contrast is None:
        return model.classes
    ours, other = model.target, model.contrast
    ours = ours[1] if isinstance(ours, tuple) else ours
    return [
        f"not {ours}" if other is None else str(other),
        f"not {other}" if ours is None else str(ours),
    ]


Truth = dict[str, Tensor]
"""Whether each ``graph`` has ground truth, each ``pair`` of joined nodes is, and each ``node``."""
TOLD = ("carried", "lost", "effect", "random", "removal", "p", "stable")
"""Numbers of a :class:`Quality` that are shown on demand, and by which graphs can be sorted."""


def truth_of(graphs: Sequence[Any], pairs: Pairs) -> Truth | None:
    """Reads ``edge_mask`` and ``node_mask`` of graphs; ``None`` if no edge is marked."""

    def mask(graph: Any, name: str, count: int) -> Tensor:
        found = graph.get(name)
        fits = found is not None and found.shape == (count,)
        return found.bool() if fits else torch.zeros(count, dtype=torch.bool)

    edges = [mask(graph, "edge_mask", graph.num_edges) for graph in graphs]
    nodes = [mask(graph, "node_mask", graph.num_nodes) for graph in graphs]
    has = torch.tensor([bool(one.any()) for one in edges])
    if not has.any():
        return None
    return {"graph": has, "pair": pairs.any(torch.cat(edges)), "node": torch.cat(nodes)}


def scores_of(
    named: Mapping[str, Sequence[Any]], store: GraphStore, *, molecules: bool
) -> tuple[bool, dict[str, Tensor]]:
    """Scores of all units by explainer, and whether units are atoms, as all score them."""
    edges = {name: _edge_scores(some, store, name) for name, some in named.items()}
    nodes = {name: [one.get("node_mask") for one in some] for name, some in named.items()}
    sizes = store.sizes.tolist()
    atoms = molecules and all(
        mask is not None and mask.shape == (size, 1)
        for some in nodes.values()
        for mask, size in zip(some, sizes, strict=True)
    )
    if not atoms:
        return False, {name: store.pairs.proper.mean(score) for name, score in edges.items()}
    return True, {name: torch.cat(some).detach()[:, 0].double() for name, some in nodes.items()}


def _edge_scores(explanations: Sequence[Any], store: GraphStore, name: str) -> Tensor:
    if len(explanations) != len(store):
        raise InputError(
            f"one explanation per graph is needed, got {len(explanations)} of '{name}' for "
            f"{len(store)} graphs"
        )
    masks = [explanation.get("edge_mask") for explanation in explanations]
    for number, (mask, edges) in enumerate(zip(masks, store.edge_counts.tolist(), strict=True)):
        if mask is None or mask.shape != (edges,):
            found = "no edge_mask" if mask is None else f"an edge_mask of shape {tuple(mask.shape)}"
            raise InputError(
                f"explanation {number} of '{name}' has {found}, its graph {edges} edges; pass "
                "explanations in the order of the graphs"
            )
    return torch.cat([mask.detach() for mask in masks]).double()


def entry(
    explanations: Sequence[Any], score: Tensor, graphs: Sequence[Any], truth: Truth | None
) -> dict[str, Any]:
    """What the page knows about an explainer beside predictions."""
    finite = score[score.isfinite()]
    low, high = (float(finite.min()), float(finite.max())) if finite.numel() else (0.0, 1.0)
    given = [explanation.get("quality") for explanation in explanations]
    known = [one if isinstance(one, Quality) else None for one in given]
    told = [
        {name: getattr(one, name) for name in ("verdict", *TOLD)}
        if isinstance(one, Quality)
        else dict(one or {})
        for one in given
    ]
    verdicts = [one.pop("verdict", None) for one in told]
    metrics = {str(name): [one.get(name, math.nan) for one in told] for one in told for name in one}
    if truth is not None:
        chosen = truth["graph"].nonzero().view(-1).tolist()
        every = ([some[i] for i in chosen] for some in (explanations, graphs))
        found = dict(zip(chosen, explanation_auc_per_graph(*every), strict=True))
        metrics = {"AUC": [found.get(i, math.nan) for i in range(len(graphs))], **metrics}
    pooled, rest = (_nodes(explanations, verdicts, name) for name in ("pooled", "rest"))
    ways = [directions(explanation) for explanation in explanations]
    signs = [way + 1 for way in ways if way is not None]  # 0 lowers the output, 2 raises it
    moved = [(math.nan, math.nan) if one is None else one.shares for one in known]
    return {
        "score": shares(score, low, high),
        "broken": int((~score.isfinite()).sum()),
        "pooled": None if pooled is None else whole_numbers(pooled),
        "rest": None if rest is None or not bool(rest.any()) else whole_numbers(rest),
        "verdicts": verdicts if any(verdicts) else None,
        "sentences": [one and one.sentence() for one in known] if any(known) else None,
        # How far regions carry predictions into other graphs, and how far random regions do.
        "points": [numbers(column) for column in zip(*moved, strict=True)] if any(known) else None,
        "direction": whole_numbers(torch.cat(signs)) if 0 < len(signs) == len(graphs) else None,
        "metrics": {name: numbers(values) for name, values in metrics.items()},
    }


def _nodes(explanations: Sequence[Any], verdicts: Sequence[Any], name: str) -> Tensor | None:
    """Pooled nodes, or those they rely on, of all graphs, if all explanations have them."""
    masks = [explanation.get(name) for explanation in explanations]
    if any(mask is None for mask in masks):
        return None
    # Where a prediction rests on something missing, scattered nodes would only mislead.
    there = [verdict != "absence" for verdict in verdicts]
    return torch.cat([mask & shown for mask, shown in zip(masks, there, strict=True)]).bool()


def evidence(report: Any) -> dict[str, Any]:
    """A line to show (``evidence``), its warnings, and whether it is ``good``."""
    if report is None:
        return {"evidence": None, "warnings": [], "good": None}
    text = _in_words(report) if isinstance(report, FitReport) else str(report.summary())
    warnings = [str(warning) for warning in report.warnings]
    return {"evidence": text, "warnings": warnings, "good": not warnings}


def _in_words(report: FitReport) -> str:
    parts = [
        "Planted in other graphs, the nodes it chose should carry the prediction with them. They "
        f"fail to in {report.disagreement:.2f} of a scale where 0 means never and 1 that the nodes "
        f"say nothing; random regions score {report.random_disagreement:.2f} "
        f"(p = {report.p_value:.2g})."
    ]
    if report.agreement is not None:
        parts.append(
            f"Independent searches agree on the nodes by {report.agreement:.2f} (0 is chance, 1 "
            "the same nodes)."
        )
    where = f"{report.held_out} graphs it had not seen" if report.held_out else "its own graphs"
    parts.append(f"Measured on {where}: {', '.join(map(str, report.effects))}; 1 is all of it.")
    if report.guarantee is not None:
        parts.append(report.guarantee.sentence())
    return " ".join(parts)


def numbers(values: Sequence[float]) -> Column:
    """A column of numbers of any type."""
    return decimals(torch.tensor([float(value) for value in values], dtype=torch.double))


def names_of(graphs: Sequence[Any], numbers: Sequence[int]) -> list[str]:
    """What graphs are called: by their name, as molecules, or by their number."""
    known = ((text_or_none(graph.get(key)) for key in ("name", "smiles")) for graph in graphs)
    return [next(filter(None, some), f"graph {i}") for some, i in zip(known, numbers, strict=True)]


def text_or_none(value: Any) -> str | None:
    """A text that says something."""
    return value if isinstance(value, str) and value else None
