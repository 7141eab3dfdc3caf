"""What a model predicts on graphs, on their heaviest edges alone, and on the rest without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.graphs import GraphBatch, GraphStore, Pairs
from hpme.graphs.segment import concatenated_ranges
from hpme.models.adapter import ModelAdapter
from hpme.models.explained import ExplainedModel
from hpme.models.replicas import Change, Replicas, replica_outputs
from hpme.models.task import Task
from hpme.page.template import Column, decimals, shares
from hpme.progress import progress_bar


@dataclass(frozen=True)
class Sizes:
    r"""Numbers of edges to keep, some for every graph, laid end to end."""

    kept: Tensor  # the numbers; for every graph they rise from 0 to all its edges
    counts: Tensor  # how many of them every graph has

    @classmethod
    def grid(cls, edge_counts: Tensor, steps: int) -> Sizes:
        r"""At most ``steps + 1`` sizes: every small one, then ever larger steps.

        Size :math:`i` of a graph with :math:`P` edges is :math:`\max(i, P i^2 / \text{steps}^2)`.
        """
        counts = edge_counts.clamp(max=steps) + 1
        step, graph = concatenated_ranges(torch.zeros_like(counts), counts)
        curve = (edge_counts[graph] * (step / steps) ** 2).round().long()
        return cls(torch.maximum(step, curve), counts)


@dataclass(frozen=True)
class Predictions:
    """Class probabilities, or values in their own unit."""

    task: Task
    full: Tensor  # one row per graph
    alone: dict[str, Tensor]  # by explainer, one row per graph and size: the heaviest edges alone
    without: dict[str, Tensor]  # the same for the graph without these edges

    @classmethod
    def of(
        cls,
        explained: ExplainedModel,
        store: GraphStore,
        pairs: Pairs,
        ranks: Mapping[str, Tensor],
        sizes: Sizes,
        *,
        progress: bool,
    ) -> Predictions:
        """Runs the model on all graphs, and on the parts that each ranking of pairs makes."""
        alone, without = {}, {}
        adapter = explained.adapter()
        with explained.frozen(), torch.no_grad():
            output = _outputs(adapter, store, torch.arange(len(store)), lambda same: same.graphs)
            task = explained.task(output)
            if not task.classification and output.numel() != len(store):
                raise InputError(
                    f"the model returns {output.shape[1]} values per graph; the page shows one: "
                    "wrap the model in a module that returns the one to look at"
                )
            with progress_bar("deleting edges", len(ranks), enabled=progress) as advance:
                for name, rank in ranks.items():
                    both = _predict_parts(adapter, store, pairs, rank, sizes)
                    alone[name], without[name] = (_values(task, part) for part in both)
                    advance(1)
        return cls(task, _values(task, output), alone, without)

    def column(self, values: Tensor) -> Column:
        """Predictions for the page."""
        return shares(values, 0.0, 1.0) if self.task.classification else decimals(values)

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


def _values(task: Task, output: Tensor) -> Tensor:
    return task.log_prob(output).exp() if task.classification else output.view(len(output), 1)


def _predict_parts(
    adapter: ModelAdapter, store: GraphStore, pairs: Pairs, rank: Tensor, sizes: Sizes
) -> tuple[Tensor, Tensor]:
    """Outputs for every size: of the heaviest edges alone, and of the graph without them.

    The other edges are deleted; all nodes and self-loops stay.
    """
    edge_rank = pairs.per_edge(rank, loops=0)
    loop = pairs.of_edge < 0

    def part(replicas: Replicas, heaviest: bool) -> GraphBatch:
        size = sizes.kept[replicas.number][replicas.graphs.edge_batch]
        heavy = edge_rank[replicas.edge_ids] < size
        return replicas.graphs.edges((heavy == heaviest) | loop[replicas.edge_ids])

    ids = torch.repeat_interleave(sizes.counts)
    alone = _outputs(adapter, store, ids, partial(part, heaviest=True))
    return alone, _outputs(adapter, store, ids, partial(part, heaviest=False))


def _outputs(adapter: ModelAdapter, store: GraphStore, ids: Tensor, change: Change) -> Tensor:
    return torch.cat([output for _, output in replica_outputs(adapter, store, ids, change)])


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
