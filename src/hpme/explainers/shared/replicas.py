"""What explainers ask of replicas: the model without a node, without a pair, and its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from hpme.graphs import GraphBatch, GraphStore
from hpme.graphs.edges import Pairs
from hpme.graphs.transforms import keep_edges
from hpme.models.adapter import ModelAdapter
from hpme.models.output import Task, check_output
from hpme.models.replicas import Change, Replicas, replica_outputs


class ReplicaModel:
    """A frozen model that answers, without gradients, for changed replicas of a batch."""

    def __init__(
        self, adapter: ModelAdapter, graphs: GraphBatch, model_kwargs: dict[str, Any]
    ) -> None:
        self.adapter, self.graphs, self.model_kwargs = adapter, graphs, model_kwargs
        # A user's batch vector may come with edges in any order; the store groups them by graph.
        self._order = torch.argsort(graphs.edge_batch, stable=True)
        self.store = GraphStore.from_graphs(graphs)

    @torch.no_grad()
    def __call__(self, ids: Tensor, change: Change) -> Tensor:
        """Outputs of replicas, one row each; in double precision, which tells sure ones apart."""

        def reordered(replicas: Replicas) -> GraphBatch:
            return change(replace(replicas, edge_ids=self._order[replicas.edge_ids]))

        outputs = replica_outputs(self.adapter, self.store, ids, reordered, **self.model_kwargs)
        return torch.cat([output.double() for _, output in outputs])

    def on_features_of(self, ids: Tensor, kept: Tensor) -> Tensor:
        """Outputs of replicas that keep some nodes ``[R, n]``, see :meth:`GraphBatch.without`."""

        def change(replicas: Replicas) -> GraphBatch:
            graphs = replicas.graphs
            place = (
                torch.arange(graphs.num_nodes, device=graphs.x.device) - graphs.ptr[graphs.batch]
            )
            there = kept[replicas.number[graphs.batch], place]
            return graphs.without(~there)

        return self(ids, change)

    def whole(self) -> tuple[Tensor, Tensor]:
        """Numbers of all graphs with nodes, and the outputs on them as they are."""
        ids = self.graphs.sizes.nonzero().view(-1)
        output = self(ids, lambda replicas: replicas.graphs)
        check_output(output, self.adapter.model)
        return ids, output


def without_node(nodes: Tensor | None = None, *, spared: Tensor | None = None) -> Change:
    """Replica ``i`` without node ``i`` of all, or of ``nodes``, see :meth:`GraphBatch.without`."""

    def change(replicas: Replicas) -> GraphBatch:
        graphs = replicas.graphs
        assert graphs.node_ids is not None
        number = replicas.number if nodes is None else nodes[replicas.number]
        gone = number[graphs.batch] == graphs.node_ids
        return graphs.without(gone if spared is None else gone & ~spared[graphs.node_ids])

    return change


def without_pair(pairs: Pairs) -> Change:
    """Replica ``i`` without the edges of pair ``i`` of the replicated batch."""

    def change(replicas: Replicas) -> GraphBatch:
        gone = replicas.number[replicas.graphs.edge_batch]
        return keep_edges(replicas.graphs, pairs.of_edge[replicas.edge_ids] != gone)

    return change


def predicted(task: Task, output: Tensor) -> Tensor | None:
    """The predicted class of every graph; ``None`` for regression."""
    return task.log_prob(output).argmax(dim=1) if task.classification else None


def explained_output(task: Task, output: Tensor, classes: Tensor | None) -> Tensor:
    """The explained output ``[R, K]``: all values, or log odds of classes, which do not flatten."""
    if classes is None:
        return task.values(output)
    log_prob, column = task.log_prob(output), classes.unsqueeze(1)
    others = log_prob.scatter(1, column, -torch.inf)
    return log_prob.gather(1, column) - others.logsumexp(dim=1, keepdim=True)


def integrate(explained: Callable[[Tensor], Tensor], whole: Tensor, steps: int) -> Tensor:
    """Attributions :math:`[K, *]` of :math:`K` outputs per graph to the elements of ``whole``.

    Graphs do not interact, so the gradient of the sum over graphs holds the gradients of all.
    """
    shares: list[Tensor] = []
    for step in range(steps):
        part = (whole * ((step + 0.5) / steps)).requires_grad_()
        output = explained(part).sum(0)
        slopes = [
            torch.autograd.grad(column, part, retain_graph=True)[0]
            if column.requires_grad
            else torch.zeros_like(part)
            for column in output
        ]
        shares.append(torch.stack(slopes) * whole)
    return torch.stack(shares).mean(0)
