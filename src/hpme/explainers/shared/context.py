"""The frozen model on the graphs an explainer is fitted to: computed once, read by every step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.graphs import GraphBatch, GraphStore
from hpme.models.adapter import ModelAdapter
from hpme.models.explained import ExplainedModel, Model
from hpme.models.task import Task

FEWEST_GRAPHS = 32
"""Fewer say little, however large they are."""


@dataclass(frozen=True)
class Context:
    r"""A frozen target :math:`f` and what it computes on the graphs.

    Args:
        adapter: Calls the model.
        task: What its output means.
        store: The graphs.
        h: Node embeddings :math:`\mathbf{H}` of all nodes.
        layers: Output of every message-passing layer, for all nodes.
        graph_embedding: Graph embeddings :math:`\mathbf{h}_G`.
        values: What an explanation should keep, see :meth:`Task.values`.
        prediction: Predicted class or value of every graph.
    """

    adapter: ModelAdapter
    task: Task
    store: GraphStore
    h: Tensor
    layers: tuple[Tensor, ...]
    graph_embedding: Tensor
    values: Tensor
    prediction: Tensor

    @classmethod
    def build(
        cls,
        model: Model,
        store: GraphStore,
        *,
        batch_size: int,
        task: Task | None = None,
        width: int | None = None,
        **facts: Any,
    ) -> Context:
        """Runs the model once over all graphs. Call inside :meth:`ExplainedModel.frozen`.

        Args:
            model: The model.
            store: The graphs.
            batch_size: Graphs per forward pass.
            task: What the model's output means, if that is known already.
            width: Channels of the node embeddings an explainer was fitted to, if it was.
            **facts: What else is known, see :class:`~hpme.models.ExplainedModel`.
        """
        if bool((store.sizes == 0).any()):
            graph = int((store.sizes == 0).nonzero()[0])
            raise InputError(f"graph {graph} has no nodes; remove empty graphs before fitting")
        explained = ExplainedModel.of(model, **facts)
        adapter = explained.adapter()
        adapter.width = width
        # Else steps of explainers would leave gradients on users' tensors.
        seen = store.detached(everything=explained.reads_all)
        store = replace(seen, batch_device=adapter.device or store.device)
        embeddings = []
        for ids in batches(torch.arange(len(store)), batch_size):
            graphs = store.batch(ids)
            adapter.ensure_probed(graphs)
            embeddings.append(adapter.embed(graphs))
        output = torch.cat([embedding.output for embedding in embeddings])
        if task is None:
            task = explained.task(output)
        task.check(output)
        return cls(
            adapter=adapter,
            task=task,
            store=store,
            h=torch.cat([embedding.nodes for embedding in embeddings]),
            layers=tuple(
                torch.cat(parts)
                for parts in zip(*(embedding.layers for embedding in embeddings), strict=True)
            ),
            graph_embedding=torch.cat([embedding.graph for embedding in embeddings]),
            values=task.values(output),
            prediction=task.prediction(output),
        )

    def sample(self, count: int, edges: int, generator: torch.Generator) -> Context:
        """At most ``count`` of the graphs, drawn at random.

        If these have more than ``edges`` edges together, they are fewer, but at least
        :data:`FEWEST_GRAPHS`.
        """
        counts = self.store.edge_counts
        if count >= len(self.store) and int(counts.sum()) <= edges:
            return self
        ids = torch.randperm(len(self.store), generator=generator)[:count]
        fitting = int((counts[ids].cumsum(0) <= edges).sum())
        return self.subset(ids[: max(fitting, FEWEST_GRAPHS)])

    def subset(self, ids: Tensor) -> Context:
        """The graphs with the given numbers."""
        rows = self.store.batch(ids).node_ids
        return replace(
            self,
            store=self.store.subset(ids),
            h=self.h[rows],
            layers=tuple(layer[rows] for layer in self.layers),
            graph_embedding=self.graph_embedding[ids],
            values=self.values[ids],
            prediction=self.prediction[ids],
        )

    @property
    def device(self) -> torch.device:
        """Where the model is, and so batches and all that is computed from them."""
        return self.h.device

    def embedded(self, graphs: GraphBatch) -> Tensor:
        r"""Node embeddings :math:`\mathbf{H}` of graphs taken from the store."""
        assert graphs.node_ids is not None
        return self.h.index_select(0, graphs.node_ids)

    def predict(self, graphs: GraphBatch, edge_weight: Tensor | None = None) -> Tensor:
        """Output of the model on other graphs."""
        return self.adapter.predict(graphs, edge_weight)


def batches(ids: Tensor, batch_size: int) -> Iterator[Tensor]:
    """Consecutive parts of at most ``batch_size`` graph numbers."""
    yield from ids.split(batch_size)  # type: ignore[no-untyped-call]
