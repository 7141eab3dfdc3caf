"""What a model predicts on the heaviest edges of a graph alone, and on the graph without them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.graphs import GraphBatch, GraphStore, Pairs
from hpme.graphs.perturb import chunks
from hpme.graphs.segment import concatenated_ranges
from hpme.models.adapter import ModelAdapter
from hpme.models.task import check_rows


@dataclass(frozen=True)
class Sizes:
    r"""Numbers of edges to keep, some for every graph, laid end to end.

    Args:
        kept: The numbers; for every graph they rise from 0 to all its edges.
        counts: How many of them every graph has.
    """

    kept: Tensor
    counts: Tensor

    @classmethod
    def grid(cls, edge_counts: Tensor, steps: int) -> Sizes:
        r"""At most ``steps + 1`` sizes: every small one, then ever larger steps.

        Size :math:`i` of a graph with :math:`P` edges is :math:`\max(i, P i^2 / \text{steps}^2)`.
        """
        counts = edge_counts.clamp(max=steps) + 1
        step, graph = concatenated_ranges(torch.zeros_like(counts), counts)
        curve = (edge_counts[graph] * (step / steps) ** 2).round().long()
        return cls(torch.maximum(step, curve), counts)

    @property
    def graph(self) -> Tensor:
        """Graph number of every size."""
        return torch.repeat_interleave(self.counts)


def edge_scores(explanations: Sequence[Any], store: GraphStore, name: str) -> Tensor:
    """Scores of all directed edges, end to end.

    Raises:
        InputError: If an explanation does not fit its graph.
    """
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


@torch.no_grad()
def predict_all(adapter: ModelAdapter, store: GraphStore) -> Tensor:
    """The model's output for every graph. Call inside :meth:`ExplainedModel.frozen`."""
    parts = chunks(store, torch.arange(len(store)))
    return torch.cat([_predict(adapter, store.batch(part)) for part in parts])


@torch.no_grad()
def predict_parts(
    adapter: ModelAdapter, store: GraphStore, pairs: Pairs, rank: Tensor, sizes: Sizes
) -> tuple[Tensor, Tensor]:
    """Outputs for the heaviest edges of a graph alone, and for the graph without them.

    The other edges are deleted; all nodes and self-loops stay. Call inside
    :meth:`ExplainedModel.frozen`.

    Returns:
        Two tensors with a row for every number in ``sizes``.
    """
    edge_rank = pairs.per_edge(rank, loops=0)
    loop = pairs.of_edge < 0
    alone, without, done = [], [], 0
    for ids in chunks(store, sizes.graph):
        size = sizes.kept[done : done + ids.numel()]
        done += ids.numel()
        edges, owner = store.edges_of(ids)
        graphs, heavy = store.batch(ids), edge_rank[edges] < size[owner]
        alone.append(_predict(adapter, graphs.edges(heavy | loop[edges])))
        without.append(_predict(adapter, graphs.edges(~heavy | loop[edges])))
    return torch.cat(alone), torch.cat(without)


def _predict(adapter: ModelAdapter, graphs: GraphBatch) -> Tensor:
    output = adapter.predict(graphs)
    check_rows(output, graphs.num_graphs)
    return output
