"""A frozen model on changed replicas of graphs, as many at once as fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from hpme.graphs import GraphBatch, GraphStore
from hpme.graphs.transforms import chunks
from hpme.models.adapter import ModelAdapter
from hpme.models.task import check_rows


@dataclass(frozen=True)
class Replicas:
    """Some replicas of graphs, as one batch."""

    graphs: GraphBatch  # the replicas as they are; ``node_ids`` are rows of the replicated graphs
    ids: Tensor  # graph number [R] of every replica
    edge_ids: Tensor  # position of every edge among those of the replicated graphs
    number: Tensor  # number [R] of every replica among all of them


def channels_of(model: nn.Module) -> int:
    """The smaller side of a model's largest matrix: a long table of embeddings is narrow."""
    known = (weight for weight in model.parameters() if not is_lazy(weight))
    return max((min(weight.shape[-2:]) for weight in known if weight.dim() > 1), default=1)


Change = Callable[[Replicas], GraphBatch]
"""What is done to replicas before the model sees them; graphs and their order stay."""


def replica_outputs(
    adapter: ModelAdapter, store: GraphStore, ids: Tensor, change: Change, /, **model_kwargs: Any
) -> Iterator[tuple[Tensor, Tensor]]:
    """Graph numbers and outputs of changed replicas of graphs, some at a time, in order."""
    first = 0
    for part in chunks(store, ids, channels_of(adapter.model)):
        number = torch.arange(first, first + part.numel(), device=part.device)
        first += part.numel()
        replicas = Replicas(store.batch(part), part, store.edges_of(part)[0], number)
        output = adapter.predict(change(replicas), **model_kwargs)
        check_rows(output, part.numel())
        yield part, output
