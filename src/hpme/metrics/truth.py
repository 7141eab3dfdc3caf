"""Edge scores against ground truth: ROC-AUC of edges, and precision of the best pairs of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.graphs import GraphStore
from hpme.graphs.hetero import flat_views
from hpme.graphs.segment import concatenated_ranges, exclusive_cumsum, segment_sum
from hpme.graphs.transforms import on_cpu
from hpme.metrics import shared
from hpme.metrics.shared import GraphScores, MetricValue, Size

Reduction = Literal["pooled", "per_graph"]
Alternatives = Sequence[Sequence[Tensor]]


def edge_auc(
    scores: Tensor,
    labels: Tensor,
    graph: Tensor | None = None,
    *,
    edge_index: Tensor | None = None,
    reduction: Reduction = "pooled",
) -> MetricValue:
    r"""Area under the ROC curve of edge scores; ties count one half.

    ``"pooled"`` is the paper's protocol: one curve over all directed edges of all explained
    graphs, so the scale of the scores across graphs matters. ``"per_graph"`` is the mean of one AUC
    per graph, over the graphs that have edges of both classes.

    Args:
        scores: One score per directed edge :math:`[E]`.
        labels: Ground truth per directed edge :math:`[E]`, boolean or 0/1.
        graph: Graph number of every edge; needed for ``"per_graph"``.
        edge_index: If given, self-loops are left out, as the paper's protocol asks. Scores are
            taken as they are: those of :math:`(i, j)` and :math:`(j, i)` are not averaged.
        reduction: ``"pooled"`` or ``"per_graph"``.
    """
    if reduction not in get_args(Reduction):
        raise InputError(f"reduction must be 'pooled' or 'per_graph', got {reduction!r}")
    if reduction == "per_graph" and graph is None:
        raise InputError("reduction='per_graph' needs graph, the graph number of every edge")
    scores, labels, graph = _checked(scores, labels, graph, edge_index)
    if bool(scores.isnan().any()):
        return MetricValue.undefined("scores contain NaN")
    if reduction == "pooled":
        values = _ranked_auc(scores, labels, torch.zeros_like(graph), 1)
        why = "every edge is ground truth" if bool(labels.any()) else "no edge is ground truth"
        return GraphScores(values, why if labels.numel() else "there are no edges").mean
    values = _ranked_auc(scores, labels, graph, _count(graph))
    return GraphScores(values, "no graph has both ground-truth edges and others").mean


def edge_auc_per_graph(
    scores: Tensor, labels: Tensor, graph: Tensor, *, edge_index: Tensor | None = None
) -> Tensor:
    """One :func:`edge_auc` per graph, NaN where it lacks one of the classes or has a NaN score."""
    scores, labels, graph = _checked(scores, labels, graph, edge_index)
    num_graphs = _count(graph)
    broken = segment_sum(scores.isnan().double(), graph, num_graphs) > 0
    return _ranked_auc(scores, labels, graph, num_graphs).masked_fill(broken, torch.nan)


def explanation_auc(
    explanations: Sequence[Any],
    graphs: Sequence[Any],
    *,
    reduction: Reduction | Literal["best"] = "pooled",
    alternatives: Alternatives | None = None,
) -> MetricValue:
    """:func:`edge_auc` of explanations against the ground truth of their graphs, without self-loops.

    Args:
        explanations: What an explainer returned, in the order of ``graphs``.
        graphs: Graphs with a boolean ``edge_mask``.
        reduction: ``"pooled"`` or ``"per_graph"``; or ``"best"``, for graphs that several ground
            truths would explain: the mean over graphs of the AUC against the alternative that suits
            the scores best, for which chance alone gives more than one half.
        alternatives: For ``"best"``; see :func:`explanation_auc_per_graph`.
    """  # noqa: E501
    if (reduction == "best") != (alternatives is not None):
        raise InputError("reduction='best' and alternatives go together: give both or neither")
    if reduction != "best":
        *flat, edge_index = _flat(explanations, graphs)
        return edge_auc(*flat, edge_index=edge_index, reduction=reduction)
    (masked,) = flat_views(explanations)
    if any(bool(explanation.edge_mask.isnan().any()) for explanation in masked):
        return MetricValue.undefined("scores contain NaN")
    values = explanation_auc_per_graph(explanations, graphs, alternatives=alternatives)
    return GraphScores(values, "no graph has an alternative with edges inside and outside").mean


def explanation_auc_per_graph(
    explanations: Sequence[Any], graphs: Sequence[Any], *, alternatives: Alternatives | None = None
) -> Tensor:
    """:func:`edge_auc_per_graph` of explanations, one value for each of ``graphs``.

    Args:
        explanations, graphs: As in :func:`explanation_auc`.
        alternatives: For every graph node masks, each of which would do as ground truth, such as
            :meth:`hpme.data.GraphDataset.alternatives`: then the value is the highest AUC among
            them. Edges with both ends in a mask are ground truth, and ``edge_mask`` is not read.
    """
    if alternatives is not None:
        return _best_per_graph(explanations, graphs, alternatives)
    scores, labels, graph, edge_index = _flat(explanations, graphs)
    values = edge_auc_per_graph(scores, labels, graph, edge_index=edge_index)
    # Graphs without edges at the end of the list have no number among the edges.
    missing = values.new_full((len(graphs) - values.numel(),), torch.nan)
    return torch.cat([values, missing])


def precision_at_k(
    explanations: Sequence[Any], graphs: Sequence[Any], size: Size | None = None
) -> GraphScores:
    """Share of ground truth among the ``size`` best pairs of every graph.

    Both directions between two nodes are one pair with the mean of their scores; it is ground truth
    if either direction is. Self-loops do not count. The value is the mean over all ways to break a
    tie at the last place. Undefined for graphs without ground truth and for NaN scores.

    Args:
        explanations, graphs: As in :func:`explanation_auc`.
        size: Number of pairs, see :obj:`~hpme.metrics.shared.Size`; by default that of the
            ground truth of each graph, where precision and recall are the same.
    """
    explanations, graphs = _paired(explanations, graphs)
    scores, truth_mask = shared.edge_scores(explanations), shared.truth_edges(graphs)
    store = GraphStore.from_graphs(graphs)
    pairs, total = store.pairs.proper, len(store)
    score, truth = pairs.mean(scores), pairs.any(truth_mask).double()
    truths = segment_sum(truth, pairs.graph, total)
    wanted = truths.long() if size is None else shared.resolve_size(size, pairs.counts)
    broken = segment_sum(score.isnan().double(), pairs.graph, total) > 0
    last = (pairs.start + wanted - 1).clamp(min=0, max=max(score.numel() - 1, 0))
    threshold = score[shared.descending(pairs, score)][last] if score.numel() else last.double()
    above, tied = (
        segment_sum(torch.stack([part, part * truth], dim=1), pairs.graph, total)
        for part in (
            (score > threshold[pairs.graph]).double(),
            (score == threshold[pairs.graph]).double(),
        )
    )
    hits = above[:, 1] + (wanted - above[:, 0]) * tied[:, 1] / tied[:, 0]
    values = (hits / wanted).masked_fill(broken | (truths == 0) | (wanted == 0), torch.nan)
    return GraphScores(values, "no graph has ground truth and scores that are not NaN")


def _best_per_graph(
    explanations: Sequence[Any], graphs: Sequence[Any], alternatives: Alternatives
) -> Tensor:
    """One AUC for every alternative of every graph at once; then the highest of each graph."""
    explanations, graphs = _paired(explanations, graphs)
    alternatives = [[mask.cpu() for mask in masks] for masks in alternatives]
    if len(alternatives) != len(graphs):
        raise InputError(f"got alternatives of {len(alternatives)} for {len(graphs)} graphs")
    for number, (graph, masks) in enumerate(zip(graphs, alternatives, strict=True)):
        if any(m.dtype != torch.bool or m.shape != (graph.num_nodes,) for m in masks):
            raise InputError(
                f"alternatives of graph {number} must be boolean masks of its {graph.num_nodes} "
                "nodes"
            )
    best = torch.full((len(graphs),), -torch.inf, dtype=torch.double)
    owner = torch.repeat_interleave(torch.tensor([len(masks) for masks in alternatives]))
    if owner.numel() == 0:
        return best.fill_(torch.nan)
    edge_counts = torch.tensor([graph.num_edges for graph in graphs])
    start = exclusive_cumsum(edge_counts)
    edges, alternative = concatenated_ranges(start[owner], edge_counts[owner])
    sizes = torch.tensor([graph.num_nodes for graph in graphs])[owner]
    inside = torch.cat([mask for masks in alternatives for mask in masks])
    edge_index = torch.cat([graph.edge_index for graph in graphs], dim=1)[:, edges]
    ends = inside[edge_index + exclusive_cumsum(sizes)[alternative]]
    scores = torch.cat([explanation.edge_mask.detach() for explanation in explanations])[edges]
    values = edge_auc_per_graph(scores, ends.all(0), alternative, edge_index=edge_index)
    # An alternative without edges after the last with some has no value.
    owner, undefined = owner[: values.numel()], values.isnan()
    best = best.scatter_reduce(0, owner, values.masked_fill(undefined, -torch.inf), "amax")
    return best.masked_fill(best == -torch.inf, torch.nan)


def _paired(explanations: Sequence[Any], graphs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Explanations and their graphs, flat and on the CPU; refused if they do not fit."""
    explanations, graphs = flat_views(explanations, graphs)
    if len(explanations) != len(graphs) or not graphs:
        raise InputError(
            f"one explanation per graph is needed, got {len(explanations)} for {len(graphs)} graphs"
        )
    for number, (explanation, graph) in enumerate(zip(explanations, graphs, strict=True)):
        if explanation.edge_mask.numel() != graph.num_edges:
            raise InputError(
                f"explanation {number} and its graph differ in edges: "
                f"{explanation.edge_mask.numel()} edge scores, {graph.num_edges} edges; pass both "
                "in the same order"
            )
    return on_cpu(explanations), on_cpu(graphs)


def _flat(explanations: Sequence[Any], graphs: Sequence[Any]) -> tuple[Tensor, ...]:
    """Scores, labels, graph numbers and ends of all edges."""
    explanations, graphs = _paired(explanations, graphs)
    counts = torch.tensor([graph.num_edges for graph in graphs])
    edge_index = torch.cat([graph.edge_index for graph in graphs], dim=1)
    both = shared.edge_scores(explanations), shared.truth_edges(graphs)
    return *both, torch.repeat_interleave(counts), edge_index


def _checked(
    scores: Tensor, labels: Tensor, graph: Tensor | None, edge_index: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    if scores.dim() != 1 or labels.shape != scores.shape:
        raise InputError(
            "scores and labels must have one value per edge, got shapes "
            f"{tuple(scores.shape)} and {tuple(labels.shape)}"
        )
    if labels.dtype != torch.bool and bool(((labels != 0) & (labels != 1)).any()):
        raise InputError("labels must be boolean or 0/1; binarise continuous ground truth first")
    if graph is None:
        graph = torch.zeros_like(labels, dtype=torch.long)
    if graph.shape != scores.shape or graph.dtype != torch.long:
        raise InputError(f"graph must be torch.long of shape {tuple(scores.shape)}")
    scores, labels = scores.detach().double(), labels.bool()
    if edge_index is None:
        return scores, labels, graph
    if edge_index.shape != (2, scores.numel()):
        raise InputError(f"edge_index must have shape [2, {scores.numel()}]")
    kept = edge_index[0] != edge_index[1]
    return scores[kept], labels[kept], graph[kept]


def _count(graph: Tensor) -> int:
    return int(graph.max()) + 1 if graph.numel() else 0


def _ranked_auc(scores: Tensor, labels: Tensor, graph: Tensor, num_graphs: int) -> Tensor:
    """AUC of every graph by the Mann-Whitney statistic; 0/0 = NaN where a class is missing."""
    place = graph * scores.numel() + torch.unique(scores, return_inverse=True)[1]
    _, tie, counts = torch.unique(place, return_inverse=True, return_counts=True)
    rank = (exclusive_cumsum(counts) + (counts - 1) / 2)[tie]
    positive = labels.double()
    positives = segment_sum(positive, graph, num_graphs)
    size = torch.bincount(graph, minlength=num_graphs)
    rank_sum = segment_sum(positive * (rank - exclusive_cumsum(size)[graph]), graph, num_graphs)
    wins = rank_sum - positives * (positives - 1) / 2
    return wins / (positives * (size - positives))
