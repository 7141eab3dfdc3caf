"""Templates of explainers: those that show the model mixups of graphs, those that learn nothing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from hpme.explainers.shared.base import GraphExplainer
from hpme.explainers.shared.context import Context, frozen_context, read_graphs
from hpme.graphs import GraphBatch
from hpme.graphs.transforms import side_by_side, with_edges
from hpme.models.adapter import ModelAdapter
from hpme.models.explained import Model
from hpme.models.output import Mode, Task


@dataclass(frozen=True)
class MixupGraphs:
    """One mixup graph :math:`G^{(mix)}` for each of several graphs :math:`G`."""

    graphs: GraphBatch
    edge_weight: Tensor  # of every edge of the mixup [E], from 0 to 1
    transplanted: Tensor  # edges from the explanation of G, boolean [E]
    bridge: Tensor  # edges that neither of two joined graphs has, boolean [E]
    partners: Tensor  # number of every other graph G'; that of G itself if there is none

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
    def _mixup_graphs(self, context: Context, generator: torch.Generator) -> MixupGraphs:
        """Mixups of all graphs of a context."""

    def mixup_graphs(
        self, model: Model, graphs: Iterable[Any], *, mode: Mode | None = None
    ) -> MixupGraphs:
        """The mixup of every graph with another of the given ones, as the model sees it.

        Edges weigh what the fitted explainer expects of them, without the noise of training. The
        same graphs and seed give the same mixups. Arguments are those of :meth:`fit`.
        """
        self._check_fitted()
        store = read_graphs(self, self._leveled(model, None), graphs).store
        explained = self._leveled(model, store.anchors, mode=mode)
        with torch.no_grad(), frozen_context(self, explained, store) as context:
            return self._mixup_graphs(context, torch.Generator().manual_seed(self.seed))


def joined(
    context: Context,
    partners: Tensor,
    edge_logits: Callable[[Tensor, Tensor], Tensor],
    bridges: int,
    generator: torch.Generator,
) -> MixupGraphs:
    """Every graph with its edge probabilities, beside its partner with the complement of those."""
    parts = context.store.batch(), context.store.batch(partners)
    kept, other = (edge_logits(context.embedded(part), part.edge_index).sigmoid() for part in parts)
    union = unite(*parts, bridges, generator)
    weight = union.per_edge(kept, 1 - other)
    place = torch.arange(weight.numel(), device=weight.device)
    return MixupGraphs.of(
        union.graphs, weight, place < kept.numel(), partners, place >= kept.numel() + other.numel()
    )


@dataclass(frozen=True)
class Union:
    r"""Every graph :math:`G_a` of a batch joined with a partner :math:`G_b` into one graph.

    Edges come as all of :math:`G_a`, all of :math:`G_b`, all directed bridges between them.
    Anchors are those of :math:`G_a`.
    """

    graphs: GraphBatch
    num_bridges: int
    other_anchors: Tensor | None = None

    def per_edge(self, first: Tensor, second: Tensor) -> Tensor:
        """Weights of the edges of both graphs at the edges of the union; bridges weigh 1."""
        return torch.cat([first, second, first.new_ones(self.num_bridges)])


def unite(first: GraphBatch, second: GraphBatch, bridges: int, generator: torch.Generator) -> Union:
    r"""Joins each graph of ``first`` with the graph of the same number in ``second``.

    Pooling over the joined batch vector merges each pair, so one forward pass serves all of them.
    Between the graphs of each pair are :math:`\eta` undirected random ``bridges``.
    """
    ends = torch.stack([_random_nodes(first, bridges, generator),
                        _random_nodes(second, bridges, generator) + first.num_nodes])  # fmt: skip
    joined, place = side_by_side(first, second)
    bridge_index = place[torch.cat([ends, ends.flip(0)], dim=1)]
    graphs = with_edges(joined, bridge_index, generator)
    other = None if second.anchors is None else place[second.anchors + first.num_nodes]
    return Union(graphs, bridge_index.shape[1], other)


def draw_partners(ids: Tensor, total: int, generator: torch.Generator) -> Tensor:
    """A random other graph for each of ``ids``; the graph itself if it is the only one."""
    step = torch.randint(1, max(total, 2), ids.shape, generator=generator).to(ids.device)
    return (ids + step) % total


def matched(ids: Tensor, total: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Graphs in random pairs, one of an odd number in two; a single one with any other."""
    if ids.numel() < 2:
        return ids, draw_partners(ids, total, generator)
    order = ids[torch.randperm(ids.numel(), generator=generator).to(ids.device)]
    half = (ids.numel() + 1) // 2
    return order[:half], order[-half:]


def _random_nodes(graphs: GraphBatch, count: int, generator: torch.Generator) -> Tensor:
    """``count`` random nodes of every graph, graph by graph."""
    share = torch.rand(graphs.num_graphs, count, generator=generator)
    share = share.to(graphs.x.device, graphs.float_dtype)
    inside = (share * graphs.sizes.unsqueeze(1)).long()
    inside = torch.minimum(inside, graphs.sizes.unsqueeze(1) - 1)  # a share may round up to 1
    return (inside + graphs.ptr.unsqueeze(1)).flatten()


Predict = Callable[[Tensor | None], Tensor]
"""Output of a model on graphs with the given edge weights, or with none."""


class TrainingFreeExplainer(GraphExplainer):
    """Base of explainers that need to know what the model's output means, and nothing else.

    The task comes from :meth:`fit`, from an :class:`~hpme.models.ExplainedModel`, from a PyG
    ``Explainer``, or from the output where it has several columns. :meth:`fit` also notes the
    spread of the outputs, the unit of regression losses; without it they are in the unit of the
    output.
    """

    needs_fit = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.task: Task | None = None

    def _fit(self, context: Context, *, progress: bool) -> None:
        self.task = context.task

    def _task_of(self, adapter: ModelAdapter, output: Tensor) -> Task:
        """What an output of the model means, as it is asked for now."""
        if self.task is not None and not adapter.view.asked:
            return self.task
        # The spread over the graphs at hand would make masks depend on which ones come together.
        return replace(adapter.view.task(output), scale=1.0)

    def _meta(self) -> dict[str, Any]:
        return {"task": None if self.task is None else asdict(self.task)}

    def _build(self, meta: dict[str, Any]) -> None:
        self.task = None if meta["task"] is None else Task(**meta["task"])


def weighted_model(
    adapter: ModelAdapter, graphs: GraphBatch, model_kwargs: dict[str, Any]
) -> Predict:
    """The model as a function of the edge weights of given graphs."""
    adapter.ensure_probed(graphs)

    def predict(edge_weight: Tensor | None) -> Tensor:
        if edge_weight is not None:
            edge_weight = adapter.beside_loops(graphs, edge_weight)
        output = adapter.predict(graphs, edge_weight, **model_kwargs)
        adapter.check(output, graphs)
        return output

    return predict
