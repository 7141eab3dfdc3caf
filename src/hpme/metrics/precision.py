"""Precision at k: how many of the best pairs of nodes are ground truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hpme.errors import InputError
from hpme.graphs import GraphStore
from hpme.graphs.moving import on_cpu
from hpme.graphs.segment import segment_sum
from hpme.metrics.selection import Size, descending, edge_scores, resolve_size, truth_edges
from hpme.metrics.value import GraphScores


def precision_at_k(
    explanations: Sequence[Any], graphs: Sequence[Any], size: Size | None = None
) -> GraphScores:
    """Share of ground truth among the ``size`` best pairs of every graph.

    Both directions between two nodes are one pair with the mean of their scores; it is ground truth
    if either direction is. Self-loops do not count. Of pairs tied at the last place, each counts by
    the chance to be drawn, so the value is the mean over all ways to break the tie. Undefined for
    graphs without ground truth and for NaN scores.

    Args:
        explanations: What an explainer returned, in the order of ``graphs``.
        graphs: Graphs with a boolean ``edge_mask``.
        size: Number of pairs, see :obj:`~hpme.metrics.selection.Size`; by default that of the
            ground truth of each graph, where precision and recall are the same.
    """
    if len(explanations) != len(graphs):
        raise InputError(
            f"one explanation per graph is needed, got {len(explanations)} for {len(graphs)} graphs"
        )
    explanations, graphs = on_cpu(explanations), on_cpu(graphs)
    store = GraphStore.from_graphs(graphs)
    pairs, total = store.pairs.proper, len(store)
    scores, truth_mask = edge_scores(explanations), truth_edges(graphs)
    if scores.shape != truth_mask.shape:
        raise InputError("explanations and graphs differ in edges; pass both in the same order")
    score, truth = pairs.mean(scores), pairs.any(truth_mask).double()
    truths = segment_sum(truth, pairs.graph, total)
    wanted = truths.long() if size is None else resolve_size(size, pairs.counts)
    broken = segment_sum(score.isnan().double(), pairs.graph, total) > 0
    last = (pairs.start + wanted - 1).clamp(min=0, max=max(score.numel() - 1, 0))
    threshold = score[descending(pairs, score)][last] if score.numel() else last.double()
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
