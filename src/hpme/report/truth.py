"""The ground truth of those graphs that have one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hpme.graphs import Pairs
from hpme.metrics import explanation_auc_per_graph
from hpme.report.template import Column, whole_numbers


@dataclass(frozen=True)
class Truth:
    """What is marked in which graphs.

    Args:
        graph: Whether a graph has any ground-truth edge.
        pair: Whether a pair of connected nodes is ground truth.
        node: Whether a node is.
    """

    graph: Tensor
    pair: Tensor
    node: Tensor

    @classmethod
    def of(cls, graphs: Sequence[Any], pairs: Pairs) -> Truth:
        """Reads ``edge_mask`` and ``node_mask`` where graphs have them."""
        edges = [_mask(graph, "edge_mask", graph.num_edges) for graph in graphs]
        nodes = [_mask(graph, "node_mask", graph.num_nodes) for graph in graphs]
        has = torch.tensor([bool(mask.any()) for mask in edges])
        return cls(has, pairs.any(torch.cat(edges)), torch.cat(nodes))

    def __bool__(self) -> bool:
        return bool(self.graph.any())

    def columns(self) -> dict[str, Column] | None:
        """The masks for the page, ``None`` if nothing is marked."""
        if not self:
            return None
        return {name: whole_numbers(getattr(self, name)) for name in ("graph", "pair", "node")}

    def auc(self, explanations: Sequence[Any], graphs: Sequence[Any]) -> Tensor:
        """AUC of every graph, NaN where there is no ground truth."""
        values = torch.full((len(graphs),), torch.nan, dtype=torch.double)
        chosen = self.graph.nonzero().view(-1).tolist()
        found = explanation_auc_per_graph(
            [explanations[i] for i in chosen], [graphs[i] for i in chosen]
        )
        values[chosen] = torch.as_tensor(found, dtype=torch.double)
        return values


def _mask(graph: Any, name: str, count: int) -> Tensor:
    mask = graph.get(name)
    if mask is None or mask.shape != (count,):
        return torch.zeros(count, dtype=torch.bool)
    chosen: Tensor = mask.bool()
    return chosen
