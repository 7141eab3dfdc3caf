"""Precision at k: how many of the best pairs of nodes are ground truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hpme.errors import InputError
from hpme.graphs.batch import GraphStore
from hpme.graphs.segment import segment_sum
from hpme.metrics.selection import PairTable, Size, edge_scores, truth_edges
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
    store = GraphStore.from_graphs(graphs)
    table, total = PairTable.of(store.batch()), len(store)
    scores, truth_mask = edge_scores(explanations), truth_edges(graphs)
    if scores.shape != truth_mask.shape:
        raise InputError("explanations and graphs differ in edges; pass both in the same order")
    score, truth = table.mean(scores), table.any(truth_mask).double()
    truths = segment_sum(truth, table.graph, total)
    wanted = truths.long() if size is None else table.resolve(size)
    broken = segment_sum(score.isnan().double(), table.graph, total) > 0
    last = (table.start + wanted - 1).clamp(min=0, max=max(score.numel() - 1, 0))
    threshold = score[table.descending(score)][last] if score.numel() else last.double()
    above, tied = (
        segment_sum(torch.stack([part, part * truth], dim=1), table.graph, total)
        for part in (
            (score > threshold[table.graph]).double(),
            (score == threshold[table.graph]).double(),
        )
    )
    hits = above[:, 1] + (wanted - above[:, 0]) * tied[:, 1] / tied[:, 0]
    values = (hits / wanted).masked_fill(broken | (truths == 0) | (wanted == 0), torch.nan)
    return GraphScores(values, "no graph has ground truth and scores that are not NaN")
