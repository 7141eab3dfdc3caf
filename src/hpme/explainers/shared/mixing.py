"""The mixup graphs an explainer shows to the model, for measurements and pictures."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hpme.explainers.shared.base import GraphExplainer
from hpme.explainers.shared.context import TargetContext
from hpme.explainers.shared.pairing import unite
from hpme.graphs import GraphBatch, GraphStore
from hpme.models.explained import Model
from hpme.models.task import Mode


@dataclass(frozen=True)
class MixupGraphs:
    r"""One mixup graph :math:`G^{(mix)}` for each of several graphs :math:`G`.

    Args:
        graphs: The mixup graphs.
        edge_weight: Weight :math:`[E]` in :math:`[0, 1]` of every edge of the mixup.
        transplanted: Boolean :math:`[E]`, true for edges that come from the explanation of
            :math:`G`.
        bridge: Boolean :math:`[E]`, true for edges that neither of two joined graphs has.
        partners: Number of the other graph :math:`G'` of every mixup; that of :math:`G` itself
            if there is no other.
    """

    graphs: GraphBatch
    edge_weight: Tensor
    transplanted: Tensor
    bridge: Tensor
    partners: Tensor

    @classmethod
    def of(
        cls,
        graphs: GraphBatch,
        edge_weight: Tensor,
        transplanted: Tensor,
        partners: Tensor,
        bridge: Tensor | None = None,
    ) -> MixupGraphs:
        """Mixups whose edges come in any order; here they are grouped by graph."""
        order = graphs.edge_batch.argsort(stable=True)
        bridge = torch.zeros_like(transplanted) if bridge is None else bridge
        return cls(
            graphs.edges(order), edge_weight[order], transplanted[order], bridge[order], partners
        )


class MixingExplainer(GraphExplainer):
    """Base of explainers that show the model mixups of graphs."""

    @abstractmethod
    def _mixup_graphs(self, context: TargetContext, generator: torch.Generator) -> MixupGraphs:
        """Mixups of all graphs of a context."""

    def mixup_graphs(
        self, model: Model, graphs: Iterable[Any], *, mode: Mode | None = None
    ) -> MixupGraphs:
        """The mixup of every graph with another of the given ones, as the model sees it.

        Edges weigh what the fitted explainer expects of them, without the noise of training. The
        same graphs and seed give the same mixups.

        Args:
            model: The model the explainer was fitted to; it is left exactly as it was.
            graphs: A dataset, a list of ``Data`` or a loader; all of them are held at once.
            mode: See :meth:`fit`.
        """
        self._check_fitted()
        store = GraphStore.from_graphs(graphs)
        with torch.no_grad(), self._context(model, store, mode=mode) as context:
            return self._mixup_graphs(context, torch.Generator().manual_seed(self.seed))


def joined(
    context: TargetContext,
    partners: Tensor,
    edge_logits: Callable[[Tensor, Tensor], Tensor],
    bridges: int,
    generator: torch.Generator,
) -> MixupGraphs:
    """Every graph with its edge probabilities, beside its partner with the complement of those.

    Args:
        context: The frozen target on the graphs.
        partners: Number of the other graph of each.
        edge_logits: Logits of edges from node embeddings and ``edge_index``.
        bridges: See :func:`~hpme.explainers.shared.pairing.unite`.
        generator: Draws the bridges.
    """
    parts = context.store.batch(), context.store.batch(partners)
    kept, other = (
        edge_logits(context.h[part.node_ids], part.edge_index).sigmoid() for part in parts
    )
    union = unite(*parts, bridges, generator)
    weight = union.per_edge(kept, 1 - other)
    place = torch.arange(weight.numel(), device=weight.device)
    return MixupGraphs.of(
        union.graphs,
        weight,
        place < kept.numel(),
        partners,
        place >= kept.numel() + other.numel(),
    )
