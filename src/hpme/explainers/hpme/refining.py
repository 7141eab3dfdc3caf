"""What a graph's own interventions say about its nodes, beside a scorer that serves all graphs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from hpme.errors import ModelError
from hpme.explainers.hpme.search.criterion import criterion, joint_rank
from hpme.explainers.hpme.search.distil import LinearPool, standardise
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.integratedgradients import integrate
from hpme.explainers.shared.context import Context, batches
from hpme.explainers.shared.replicas import ReplicaModel, Replicas, explained_output, predicted
from hpme.graphs import GraphBatch
from hpme.models.adapter import ModelAdapter
from hpme.models.embedding import Embedding
from hpme.models.task import Task

Refine = Literal["gradient", "full"]
WEIGHTS = (0.0, 0.5, 1.0, 2.0, 4.0)
"""How much a graph's own interventions may count, in units of the scorer's spread."""
OWN, DEEP = 0.25, 0.5
"""What a node's own value, and that of its embedding, count beside its neighbourhood's."""
STEPS = 16
"""Points of the integral of gradients."""
LEAST = 1e-4
"""Values that differ by a smaller share of the highest differ by rounding."""
DRAWS, EQUAL = 4, 1.15
"""Hosts per graph by which the weight is chosen, and by what factor equally good ones differ."""


@dataclass(frozen=True)
class Local:
    """How much each node raises the log odds of the predicted class, or changes the value.

    By gradient times input and gradient times embedding, of the pass that reads embeddings and one
    pass back. In full by integrated gradients, and by the fall when the node has mean features
    instead (one with codes is deleted), in place of the former. Groups act as one, so a node counts
    by the mean of itself and its neighbours, and a little by itself. All is standardised inside
    graphs, and zero where no gradient flows.

    Args:
        form: ``"gradient"`` or ``"full"``.
        adapter: Calls the model.
        task: What its output means.
        neutral: Mean features of the fitted graphs.
    """

    form: Refine
    adapter: ModelAdapter
    task: Task
    neutral: Tensor

    def of(self, context: Context, batch_size: int) -> Tensor:
        """The numbers of all nodes of a context ``[N]``."""
        ids = batches(torch.arange(len(context.store)), batch_size)
        return torch.cat([self(context.store.batch(some))[1] for some in ids])

    def __call__(self, graphs: GraphBatch, **kwargs: Any) -> tuple[Embedding, Tensor]:
        """What the model computes of nodes, and the numbers ``[N]``."""
        try:
            x = self.adapter.node_input(graphs, **kwargs).detach().clone().requires_grad_()
        except ModelError:  # codes that no layer embeds
            seen = self.adapter.embed(graphs, **kwargs)
            return seen, seen.nodes.new_zeros(graphs.num_nodes)
        with torch.enable_grad():
            seen = self.adapter.trace(graphs, node_input=x, **kwargs)
            found = self.adapter.checked(seen, graphs)
            total = found.nodes.new_zeros(graphs.num_nodes)
            if not seen.output.requires_grad:
                return found, total
            classes = predicted(self.task, seen.output)
            explained, at = explained_output(self.task, seen.output, classes).sum(), [x, seen.nodes]
            slopes = torch.autograd.grad(explained, at, allow_unused=True, materialize_grads=True)
            first, deep = ((s * v).sum(1) for s, v in zip(slopes, at, strict=True))
            ways = [first]
            if self.form == "full":
                ways = [self._integrated(graphs, x, classes, kwargs)]
                ways.append(self._fall(graphs, classes, kwargs))
        for part, own, near in [*((way, OWN, 1.0) for way in ways), (deep, 0.0, DEEP)]:
            row = part.detach().to(total)
            if not self.task.classification:  # what raises a value carries it, and what lowers it
                row = row.abs()
            total = total + own * _unit(row, graphs) + near * _unit(_around(row, graphs), graphs)
        return found, _unit(total, graphs)

    def _integrated(
        self, graphs: GraphBatch, x: Tensor, classes: Tensor | None, kwargs: dict[str, Any]
    ) -> Tensor:
        def explained(part: Tensor) -> Tensor:
            output = self.adapter.predict(graphs, node_input=part, **kwargs)
            return explained_output(self.task, output, classes).sum(1, keepdim=True)

        return integrate(explained, x.detach(), STEPS)[0].sum(1)

    def _fall(self, graphs: GraphBatch, classes: Tensor | None, kwargs: dict[str, Any]) -> Tensor:
        def change(replicas: Replicas) -> GraphBatch:
            part = replicas.graphs
            gone = replicas.number[part.batch] == part.node_ids
            if part.coded:
                return part.without(gone)
            return replace(part, x=torch.where(gone.unsqueeze(1), self.neutral.to(part.x), part.x))

        model = ReplicaModel(self.adapter, graphs, kwargs)
        owner = None if classes is None else classes[graphs.batch]
        ids, output = model.whole()
        before = output[torch.searchsorted(ids, graphs.batch)]
        outputs = (before, model(graphs.batch, change))
        kept, left = (explained_output(self.task, one, owner) for one in outputs)
        return (kept - left).sum(1)


def _around(row: Tensor, graphs: GraphBatch) -> Tensor:
    """Mean over every node and its neighbours."""
    source, target = graphs.edge_index
    count = 1 + torch.bincount(target, minlength=len(row))
    return row.index_add(0, target, row.index_select(0, source)) / count


def _unit(row: Tensor, graphs: GraphBatch) -> Tensor:
    """Zero mean and unit variance inside every graph; zero where values differ by rounding."""
    zeros = row.new_zeros(graphs.num_graphs)
    height = zeros.scatter_reduce(0, graphs.batch, row.abs(), "amax").clamp(min=1e-30)
    share = (row / height.index_select(0, graphs.batch)).nan_to_num(0.0)
    high, low = (zeros.scatter_reduce(0, graphs.batch, share, how, include_self=False)
                 for how in ("amax", "amin"))  # fmt: skip
    wide = (high - low > LEAST).to(row)
    return standardise(share.unsqueeze(0), graphs)[0] * wide.index_select(0, graphs.batch)


@torch.no_grad()
def chosen_weight(mix: HardMix, pool: LinearPool) -> float:
    """How much the last of a pool's features, that of :class:`Local`, should count in its scores.

    Hard mixes decide, as they do between pools. Of weights that are as good as the best one the
    largest is taken: what is said about the graph itself counts before what holds for all graphs.

    Args:
        mix: The graphs.
        pool: The pool, whose scores of all nodes have unit variance without that feature.
    """
    rows = pool.weight.repeat(len(WEIGHTS), 1)
    rows[:, -1] = torch.tensor(WEIGHTS).to(rows)
    if not bool(mix.features[..., -1].any()):
        return 0.0
    values = criterion(mix, mix.select(mix.scores(LinearPool(rows))), mix.draw(DRAWS))
    best = values[joint_rank(values).argmin()]
    return WEIGHTS[int((values <= best * EQUAL).all(1).nonzero()[-1])]
