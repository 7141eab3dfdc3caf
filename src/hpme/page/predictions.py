"""What a model predicts on graphs, on their heaviest edges alone, and on the rest without them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.graphs import GraphBatch, GraphStore, Pairs
from hpme.graphs.segment import concatenated_ranges, exclusive_cumsum
from hpme.models.explained import ExplainedModel
from hpme.models.replicas import Change, Replicas, replica_outputs
from hpme.models.task import Task


def sizes_of(counts: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    r"""Numbers of edges to keep, end to end, and how many of them every graph has.

    At most ``steps + 1`` sizes, from none to all: every small one, then ever larger steps. Size
    :math:`i` of a graph with :math:`P` edges is :math:`\max(i, P i^2 / \text{steps}^2)`.
    """
    number = counts.clamp(max=steps) + 1
    step, graph = concatenated_ranges(torch.zeros_like(number), number)
    curve = (counts[graph] * (step / steps) ** 2).round().long()
    return torch.maximum(step, curve), number


def ranked(score: Tensor, graph: Tensor, counts: Tensor, seed: int) -> Tensor:
    """Rank of every unit in its graph, 0 for the best, ties at random, what is NaN last."""
    known = score.nan_to_num(-torch.inf, torch.inf, -torch.inf)
    order = torch.randperm(len(score), generator=torch.Generator().manual_seed(seed))
    order = order[known[order].argsort(descending=True, stable=True)]
    order = order[graph[order].argsort(stable=True)]
    place = torch.arange(len(order)) - exclusive_cumsum(counts)[graph]
    return torch.empty_like(order).scatter_(0, order, place)


class Predictions:
    """Class probabilities of graphs and of their parts, or values in their own unit.

    Raises:
        InputError: If the model returns several values.
    """

    def __init__(self, explained: ExplainedModel, store: GraphStore) -> None:
        self.adapter, self.store = explained.adapter(), store
        output = self._outputs(torch.arange(len(store)), lambda same: same.graphs)
        self.task: Task = explained.task(output)
        if not self.task.classification and output.numel() != len(store):
            raise InputError(
                f"the model returns {output.shape[1]} values per graph; the page shows one: "
                "wrap the model in a module that returns the one to look at"
            )
        self.full = self._values(output)

    def parts(
        self, pairs: Pairs, rank: Tensor, kept: Tensor, counts: Tensor
    ) -> tuple[Tensor, Tensor]:
        """For every size: on the heaviest edges alone, and on the graph without them.

        The other edges are deleted; all nodes and self-loops stay.
        """
        edge_rank = pairs.per_edge(rank, loops=0)
        loop = pairs.of_edge < 0

        def part(replicas: Replicas, heaviest: bool) -> GraphBatch:
            size = kept[replicas.number][replicas.graphs.edge_batch]
            heavy = edge_rank[replicas.edge_ids] < size
            return replicas.graphs.edges((heavy == heaviest) | loop[replicas.edge_ids])

        ids = torch.repeat_interleave(counts)
        alone = self._outputs(ids, partial(part, heaviest=True))
        without = self._outputs(ids, partial(part, heaviest=False))
        return self._values(alone), self._values(without)

    def _values(self, output: Tensor) -> Tensor:
        if self.task.classification:
            return self.task.log_prob(output).exp()
        return output.view(len(output), 1)

    def _outputs(self, ids: Tensor, change: Change) -> Tensor:
        found = replica_outputs(self.adapter, self.store, ids, change)
        return torch.cat([output for _, output in found])

    def classes(self, given: Sequence[str] | None) -> list[str] | None:
        """Names of classes, ``None`` in regression.

        Raises:
            InputError: If the given names are not those of the classes.
        """
        count = self.full.shape[1]
        if not self.task.classification:
            if given is not None:
                raise InputError("class_names are given, but the model is a regression")
            return None
        if given is not None and len(given) != count:
            raise InputError(f"{count} classes need as many class_names, got {len(given)}")
        return [f"class {i}" for i in range(count)] if given is None else [str(n) for n in given]


def asked_task(model: ExplainedModel) -> str | None:
    """Name of the task that is explained, of a model whose tasks have names."""
    target = model.target[0] if isinstance(model.target, tuple) else model.target
    tasks = list(model.tasks or ())
    if len(tasks) < 2:
        return tasks[0] if tasks else None
    if isinstance(target, int):
        return tasks[target] if target < len(tasks) else None
    return target if target in tasks else None


def called(model: ExplainedModel, name: str | None = None) -> str:
    """What a page calls a model: by its own title, else its class, and the task that is asked."""
    name = name or str(getattr(model.model, "title", None) or type(model.model).__name__)
    task = asked_task(model)
    return name if task is None else f"{name}, {task}"


def side_names(model: ExplainedModel) -> Sequence[str] | None:
    """Names of the classes on the page; what is asked about one class or task has two sides."""
    mode, task, several = model.view.mode, asked_task(model), len(model.tasks or ()) > 1
    if mode == "regression":
        return None
    of_task = not isinstance(model.target, tuple) and (several or model.target in (None, task))
    if task is not None and model.contrast is None and of_task:
        sides = [f"not {task}", task] if mode == "binary_classification" else None
        return model.classes or sides
    if model.target is None and model.contrast is None:
        return model.classes
    ours, other = model.target, model.contrast
    ours = ours[1] if isinstance(ours, tuple) else ours
    return [
        f"not {ours}" if other is None else str(other),
        f"not {other}" if ours is None else str(ours),
    ]
