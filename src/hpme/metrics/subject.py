"""What metrics of deletion share: a frozen model, the graphs of explanations, and a judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.graphs import GraphStore, Pairs
from hpme.graphs.segment import segment_sum
from hpme.metrics.deletion import Keep, outputs
from hpme.metrics.judge import Judge, Scale
from hpme.metrics.selection import Size, edge_scores, ranks, resolve_size
from hpme.metrics.value import GraphScores
from hpme.models.adapter import ModelAdapter
from hpme.models.explained import ExplainedModel

Verdict = Callable[[Tensor, Tensor], Tensor]
"""A value for every output and graph number, such as :meth:`Judge.lost`."""


@dataclass(frozen=True)
class Subject:
    """A frozen model and the explanations whose graphs can be perturbed.

    Those are the graphs with at least one pair of nodes and without NaN scores.

    Args:
        adapter: Calls the model.
        store: The graphs.
        table: Their pairs.
        score: Score of every pair.
        numbers: Position of every graph in the list of explanations.
        total: Length of that list.
        why: What is wrong with the others.
        judge: Compares outputs; ``None`` if there are no graphs.
    """

    adapter: ModelAdapter
    store: GraphStore
    table: Pairs
    score: Tensor
    numbers: Tensor
    total: int
    why: str
    judge: Judge | None

    def choose(self, size: Size, generator: torch.Generator) -> Tensor:
        """Boolean mask of the best pairs, ties at random."""
        return self._best(self.score, size, generator)

    def choose_at_random(self, size: Size, generator: torch.Generator) -> Tensor:
        """As many pairs as :meth:`choose` takes, but any."""
        noise = torch.rand(self.score.shape, generator=generator).to(self.score)
        return self._best(noise, size, generator)

    def scores(
        self,
        verdict: Callable[[Judge], Verdict],
        keep: Keep,
        samples: int = 1,
        *,
        drop_isolated: bool = False,
    ) -> GraphScores:
        """Mean verdict over the samples of every graph; arguments as in :func:`outputs`."""
        values = torch.full((self.total,), torch.nan, dtype=torch.double, device=self.score.device)
        if self.judge is None:
            return GraphScores(values, self.why)
        judged = verdict(self.judge)
        replicas = outputs(
            self.adapter, self.store, self.table, keep, samples, drop_isolated=drop_isolated
        )
        parts = [judged(output, ids) for ids, output in replicas]
        values[self.numbers] = torch.cat(parts).view(-1, samples).mean(1)
        return GraphScores(values, "the model's outputs on perturbed graphs give no number")

    def _best(self, score: Tensor, size: Size, generator: torch.Generator) -> Tensor:
        if isinstance(size, Tensor):
            if size.shape != (self.total,):
                raise InputError(
                    f"size must have one value for each of {self.total} explanations, got shape "
                    f"{tuple(size.shape)}"
                )
            size = size[self.numbers]
        wanted = resolve_size(size, self.table.counts)
        return ranks(self.table, score, generator) < wanted[self.table.graph]


@contextmanager
def examine(
    explained: ExplainedModel,
    explanations: Sequence[Any],
    labels: Tensor | None,
    scale: Scale,
) -> Iterator[Subject]:
    """Freezes a model and runs it once on the graphs of explanations.

    Args:
        explained: The explained model; it is left exactly as it was.
        explanations: What an explainer returned; ``x``, ``edge_index`` and ``edge_mask`` are read
            and, if there, ``edge_attr``, ``edge_weight`` and ``anchors``.
        labels: Classes whose probabilities are compared; by default the predicted ones.
        scale: Unit of differences in regression, see :obj:`~hpme.metrics.judge.Scale`.
    """
    store = GraphStore.from_graphs(explanations)
    table = store.pairs.proper
    score = table.mean(edge_scores(explanations))
    total = len(store)
    if labels is not None and labels.shape != (total,):
        raise InputError(
            f"labels must have one value for each of {total} explanations, got shape "
            f"{tuple(labels.shape)}"
        )
    broken = segment_sum(score.isnan().double(), table.graph, total) > 0
    bare = table.counts == 0
    numbers = (~(broken | bare)).nonzero().squeeze(1)
    why = _reason(int(bare.sum()), int(broken.sum()))
    if numbers.numel() < total:
        score = score[~broken[table.graph]]
        store = store.subset(numbers)
        table = store.pairs.proper
    adapter = explained.adapter()
    with explained.frozen(), torch.no_grad():
        judge = None
        if numbers.numel():
            whole = outputs(adapter, store, table, _all_pairs)
            output = torch.cat([part for _, part in whole])
            judge = Judge.of(
                explained.task(output), output, None if labels is None else labels[numbers], scale
            )
        yield Subject(adapter, store, table, score, numbers, total, why, judge)


def _all_pairs(replicas: Any) -> Tensor:
    return torch.ones_like(replicas.pairs, dtype=torch.bool)


def _reason(bare: int, broken: int) -> str:
    causes = {"have no edges but self-loops": bare, "have NaN scores": broken}
    found = [f"{count} {cause}" for cause, count in causes.items() if count]
    return f"no graph can be perturbed: {', '.join(found)}"
