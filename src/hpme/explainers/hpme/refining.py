"""What a graph's own interventions say about its nodes, beside a scorer that serves all graphs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from hpme.errors import ModelError
from hpme.explainers.hpme.search.criterion import criterion, joint_rank
from hpme.explainers.hpme.search.distil import LinearPool, standardise
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.shared.replicas import ReplicaModel, explained_output, predicted
from hpme.graphs import GraphBatch
from hpme.models.adapter import ModelAdapter
from hpme.models.embedding import Embedding
from hpme.models.output import Task
from hpme.models.replicas import Replicas

Refine = Literal["gradient", "occlusion"]
WEIGHTS = (0.0, 2.0, 4.0)
"""How much a graph's own interventions may count, in units of the scorer's spread: most, or
nothing. What hosts like only in small doses is chance."""
OWN, DEEP = 0.25, 0.5
"""What a node's own value, and the gradient by its embedding, count beside its neighbourhood's."""
LEAST = 1e-4
"""Values that differ by a smaller share of the highest differ by rounding."""
GRAPHS, DRAWS, WORTH, EQUAL = 128, 4, 0.75, 1.15
"""Graphs by which the weight is chosen, and hosts of each; by what factor disagreement and loss
must fall for any weight, and by what factor those of equally good weights differ."""


@dataclass(frozen=True)
class Local:
    """How much each node raises the log odds of the predicted class, or changes the value.

    By gradient times input and gradient times embedding, from the pass that reads embeddings and
    one pass back; in place of the former by the fall when the node has mean features instead, a
    pass for every node (nodes with types get zeros, those with codes are deleted). Groups act as
    one, so a node counts by the mean of itself and its neighbours, and a little by itself. All is
    standardised inside graphs, and zero where no gradient flows. Neutral are the mean features of
    known graphs.
    """

    form: Refine
    adapter: ModelAdapter
    task: Task
    neutral: Tensor | None = None

    def __call__(self, graphs: GraphBatch, **kwargs: Any) -> tuple[Embedding, Tensor]:
        """What the model computes of nodes, and the numbers ``[N]``."""
        found, slopes = gradients(self.adapter, self.task, graphs, **kwargs)
        if slopes is None:
            return found, found.nodes.new_zeros(graphs.num_nodes)
        _, first, deep = slopes
        if self.form == "occlusion":
            first = self._fall(graphs, predicted(self.task, found.output), kwargs)
            first = first if self.task.classification else first.abs()
        first, deep = first.to(found.nodes), deep.to(found.nodes)
        around = _unit(_around(first, graphs), graphs) + DEEP * _unit(_around(deep, graphs), graphs)
        return found, _unit(around + OWN * _unit(first, graphs), graphs)

    def _fall(self, graphs: GraphBatch, classes: Tensor | None, kwargs: dict[str, Any]) -> Tensor:
        """By how much the explained output falls without each node."""

        def without(replicas: Replicas) -> GraphBatch:
            part = replicas.graphs
            assert part.node_ids is not None
            gone = replicas.number[part.batch] == part.node_ids
            if part.coded or part.schema is not None:
                return part.without(gone)
            assert self.neutral is not None
            return replace(part, x=torch.where(gone.unsqueeze(1), self.neutral.to(part.x), part.x))

        model = ReplicaModel(self.adapter, graphs, kwargs)
        ids, whole = model.whole()
        outputs = whole[torch.searchsorted(ids, graphs.batch)], model(graphs.batch, without)
        owner = None if classes is None else classes[graphs.batch]
        before, after = (explained_output(self.task, output, owner) for output in outputs)
        return (before - after).sum(1)


def gradients(
    adapter: ModelAdapter, task: Task, graphs: GraphBatch, **kwargs: Any
) -> tuple[Embedding, Tensor | None]:
    """What the model computes of nodes, and what gradients of the explained output say of them.

    Rows ``[3, N]``: length of the gradient, gradient times input, gradient times embedding; what
    raises a value carries it, and what lowers it, so for values they have no sign. ``None`` where
    no gradient flows.
    """
    try:
        x = adapter.node_input(graphs, **kwargs).detach().clone().requires_grad_()
    except ModelError:  # codes that no layer embeds
        return adapter.embed(graphs, **kwargs), None
    with torch.enable_grad():
        seen = adapter.trace(graphs, node_input=x, **kwargs)
        found = adapter.checked(seen, graphs)
        if not seen.output.requires_grad:
            return found, None
        classes, at = predicted(task, seen.output), [x, seen.nodes]
        explained = explained_output(task, seen.output, classes).sum()
        slopes = torch.autograd.grad(explained, at, allow_unused=True, materialize_grads=True)
    rows = [(s * v).sum(1).detach() for s, v in zip(slopes, at, strict=True)]
    if not task.classification:
        rows = [row.abs() for row in rows]
    length = slopes[0].norm(dim=1)
    return found, torch.stack([row.to(length) for row in (length, *rows)])


def _around(row: Tensor, graphs: GraphBatch) -> Tensor:
    """Mean over every node and its neighbours."""
    source, target = graphs.edge_index
    count = 1 + torch.bincount(target, minlength=len(row))
    return row.index_add(0, target, row.index_select(0, source)) / count


def _unit(row: Tensor, graphs: GraphBatch) -> Tensor:
    """Zero mean and unit variance inside every graph; zero where values differ by rounding."""
    zeros, batch = row.new_zeros(graphs.num_graphs), graphs.batch
    height = zeros.scatter_reduce(0, batch, row.abs(), "amax").clamp(min=1e-30)
    share = (row / height[batch]).nan_to_num(0.0)
    low, high = (
        zeros.scatter_reduce(0, batch, share, w, include_self=False) for w in ("amin", "amax")
    )
    return standardise(share.unsqueeze(0), graphs)[0] * (high - low > LEAST)[batch]


def widened(pool: LinearPool, mix: HardMix, weight: float) -> LinearPool:
    """The pool with a weight for one feature more; scores of all nodes then have unit variance."""
    row = F.pad(pool.weight.data, (0, 1))
    for last in dict.fromkeys((0.0, weight)):
        row[:, -1] = last
        spread = float(mix.scores(LinearPool(row)).std(unbiased=False))
        row = row / (spread if spread > 0 else 1.0)
    return LinearPool(row)


@torch.no_grad()
def chosen_weight(mix: HardMix, pool: LinearPool) -> float:
    """How much the last feature of a mix, that of :class:`Local`, should count in a pool's scores.

    Hard mixes decide, as they do between pools; nothing counts unless they keep predictions clearly
    better. Of weights as good as the best one the largest is taken: what holds for the graph itself
    counts before what holds for all graphs.
    """
    if not bool(mix.features[..., -1].any()):
        return 0.0
    rows = torch.cat([widened(pool, mix, weight).weight for weight in WEIGHTS])
    state = mix.generator.get_state()  # what follows does not depend on what is tried here
    ids = torch.randperm(mix.graphs.num_graphs, generator=mix.generator)[:GRAPHS]
    few = mix.subset(ids.sort().values.to(mix.context.device))
    values = criterion(few, few.select(few.scores(LinearPool(rows))), few.draw(DRAWS))
    values = values.clamp(min=0)  # rounding takes a correlation above 1
    mix.generator.set_state(state)
    worth = (values < values[0] * WORTH).all(1)
    if not bool(worth.any()):
        return 0.0
    best = values[worth][joint_rank(values[worth]).argmin()]
    return WEIGHTS[int((worth & (values <= best * EQUAL).all(1)).nonzero()[-1])]
