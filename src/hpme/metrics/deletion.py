"""What metrics of deletion share: a frozen model on graphs without some edges, and its judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, get_args

import torch
from torch import Tensor

from hpme.data.info import Level
from hpme.errors import InputError
from hpme.graphs import GraphBatch, GraphStore, Pairs
from hpme.graphs.segment import concatenated_ranges, exclusive_cumsum, segment_sum
from hpme.graphs.transforms import keep_edges
from hpme.metrics.shared import GraphScores, Size, edge_scores, ranks, resolve_size
from hpme.models.adapter import ModelAdapter
from hpme.models.explained import ExplainedModel, Model
from hpme.models.output import Mode, Task
from hpme.models.replicas import Replicas, replica_outputs

Scale = float | Literal["spread", "prediction"]
"""Unit of differences between predicted values.

``"spread"`` is the standard deviation of the predictions on the given graphs (1 if they do not
differ), ``"prediction"`` the size of each prediction, which is undefined where that is 0. A number
is the unit itself, such as the standard deviation of the training labels.
"""


class DeletionOptions(TypedDict, total=False):
    """Options that :func:`fidelity`, :func:`robust_fidelity` and :func:`simoar` share.

    Args:
        labels: Class :math:`y` of every graph; by default the predicted one.
        scale: Unit in regression, by default ``"spread"``; :obj:`~hpme.metrics.deletion.Scale`.
        mode, model_config: As in :class:`~hpme.models.ExplainedModel`.
        level: ``"node"`` if the model returns one row per node; then graphs need ``anchors``.
        seed: Seed, by default 0, of what is deleted and chosen at random.
    """

    labels: Tensor | None
    scale: Scale
    mode: Mode | None
    model_config: Any
    level: Level | None
    seed: int


@dataclass(frozen=True)
class Judge:
    """Compares outputs on perturbed graphs :math:`G'` with those on the graphs :math:`G`."""

    task: Task
    values: Tensor  # class probabilities, or values
    label: Tensor | None  # the class :math:`y`
    unit: Tensor | None  # of values

    @classmethod
    def of(cls, task: Task, output: Tensor, labels: Tensor | None, scale: Scale) -> Judge:
        """From the outputs on the graphs themselves; without labels, of the predicted classes."""
        values = _values(task, output)
        if isinstance(scale, str) and scale not in get_args(get_args(Scale)[1]):
            raise InputError(f"scale must be 'spread', 'prediction' or a number, got {scale!r}")
        if not isinstance(scale, str) and not scale > 0:
            raise InputError(f"scale must be above 0, got {scale}")
        if task.classification:
            label = values.argmax(1) if labels is None else _checked(labels, values)
            return cls(task, values, label, None)
        if labels is not None:
            raise InputError(
                "labels are for classification; in regression outputs are compared with those on "
                "the whole graph"
            )
        if scale == "prediction":
            unit = values.abs()
            unit = unit.masked_fill(unit == 0, torch.nan)
        else:
            unit = torch.full_like(values, task.scale if scale == "spread" else float(scale))
        return cls(task, values, None, unit)

    def lost(self, output: Tensor, ids: Tensor) -> Tensor:
        r""":math:`f(G)_y - f(G')_y`, or :math:`|f(G) - f(G')|` in its unit, for graphs ``ids``."""
        if self.label is None:
            return self._distance(output, ids)
        return self._at_label(self.values[ids], ids) - self.kept(output, ids)

    def kept(self, output: Tensor, ids: Tensor) -> Tensor:
        r""":math:`f(G')_y`, or :math:`\exp(-|f(G) - f(G')|)` in its unit."""
        if self.label is None:
            return (-self._distance(output, ids)).exp()
        return self._at_label(_values(self.task, output), ids)

    def lost_accuracy(self, output: Tensor, ids: Tensor) -> Tensor:
        r""":math:`1[\hat y(G) = y] - 1[\hat y(G') = y]`."""
        if self.label is None:
            raise InputError("form='accuracy' is for classification; use form='probability'")
        label, values = self.label[ids], _values(self.task, output)
        before, after = self.values[ids].argmax(1) == label, values.argmax(1) == label
        return (before.double() - after.double()).masked_fill(values.isnan().any(1), torch.nan)

    def _at_label(self, values: Tensor, ids: Tensor) -> Tensor:
        assert self.label is not None
        return values.gather(1, self.label[ids].unsqueeze(1)).squeeze(1)

    def _distance(self, output: Tensor, ids: Tensor) -> Tensor:
        assert self.unit is not None
        change = (_values(self.task, output) - self.values[ids]).abs()
        return (change / self.unit[ids]).mean(1)


def _values(task: Task, output: Tensor) -> Tensor:
    """Probabilities, or values in their own unit; NaN where the output is not finite."""
    output = output.double()
    values = task.values(output) if task.classification else output.view(output.shape[0], -1)
    broken = ~output.view(output.shape[0], -1).isfinite().all(1)
    return values.masked_fill(broken.unsqueeze(1), torch.nan)


def _checked(labels: Tensor, values: Tensor) -> Tensor:
    classes = values.shape[1]
    if labels.is_floating_point() or not bool(((labels >= 0) & (labels < classes)).all()):
        raise InputError(f"labels must be integers in [0, {classes})")
    return labels.long()


@dataclass(frozen=True)
class PairReplicas:
    """Several graphs, some of them repeatedly, seen as their pairs."""

    ids: Tensor  # graph number of every replica
    ptr: Tensor  # position of the first pair of every replica
    pairs: Tensor  # number of every pair in the table of all graphs
    owner: Tensor  # replica of every pair


Keep = Callable[[PairReplicas], Tensor]
"""Which pairs of replicas stay, as a boolean tensor."""
Measure = Callable[[Judge, Tensor, Tensor], Tensor]
"""A value for every output and graph number, such as :meth:`Judge.lost`."""


def outputs(
    adapter: ModelAdapter,
    store: GraphStore,
    table: Pairs,
    keep: Keep,
    samples: int = 1,
    *,
    drop_isolated: bool = False,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Graph numbers and outputs of ``samples`` replicas per graph, those of the first graph first.

    How replicas are cut into forward passes does not change what ``keep`` draws, one number per
    pair.
    """

    def deleted(replicas: Replicas) -> GraphBatch:
        start, counts = table.start[replicas.ids], table.counts[replicas.ids]
        ptr = exclusive_cumsum(counts)
        pairs = PairReplicas(replicas.ids, ptr, *concatenated_ranges(start, counts))
        of_edge = table.of_edge[replicas.edge_ids]
        shift = (ptr - start)[replicas.graphs.edge_batch]
        place = torch.where(of_edge < 0, of_edge, of_edge + shift)
        kept = replace(table, of_edge=place).per_edge(keep(pairs), loops=True)
        return keep_edges(replicas.graphs, kept, drop_isolated=drop_isolated)

    ids = torch.arange(len(store), device=store.sizes.device).repeat_interleave(samples)
    return replica_outputs(adapter, store, ids, deleted)


class Examined:
    """A frozen model and the explanations whose graphs can be perturbed.

    Those are the graphs with at least one pair of nodes and without NaN scores. ``numbers`` are
    their positions among the ``total`` explanations, ``why`` says what is wrong with the others.
    Without any of them there is no judge.
    """

    def __init__(
        self,
        explained: ExplainedModel,
        explanations: Sequence[Any],
        labels: Tensor | None = None,
        scale: Scale = "spread",
        seed: int = 0,
    ) -> None:
        store = explained.read(explanations).detached(everything=explained.reads_all)
        table = store.pairs.proper
        score, total = table.mean(edge_scores(explanations)), len(store)
        if labels is not None and labels.shape != (total,):
            raise InputError(
                f"labels must have one value for each of {total} explanations, got shape "
                f"{tuple(labels.shape)}"
            )
        broken = segment_sum(score.isnan().double(), table.graph, total) > 0
        bare = table.counts == 0
        causes = {"have no edges but self-loops": bare, "have NaN scores": broken}
        found = ", ".join(f"{int(n.sum())} {cause}" for cause, n in causes.items() if bool(n.any()))
        self.why, self.total = f"no graph can be perturbed: {found}", total
        self.numbers = (~(broken | bare)).nonzero().squeeze(1)
        if self.numbers.numel() < total:
            score = score[~broken[table.graph]]
            store = store.subset(self.numbers)
            table = store.pairs.proper
        self.store, self.table, self.score = store, table, score
        self.adapter = explained.adapter()
        self.generator = torch.Generator().manual_seed(seed)
        self.judge: Judge | None = None
        if self.numbers.numel():
            whole = outputs(self.adapter, store, table, lambda replicas: replicas.pairs >= 0)
            output = torch.cat([part for _, part in whole])
            labels = None if labels is None else labels[self.numbers]
            self.judge = Judge.of(explained.task(output), output, labels, scale)

    def choose(self, size: Size, *, at_random: bool = False) -> Tensor:
        """Boolean mask of the best pairs, ties at random; or of as many, but any."""
        score = self.score
        if at_random:
            score = torch.rand(score.shape, generator=self.generator).to(score)
        if isinstance(size, Tensor):
            if size.shape != (self.total,):
                raise InputError(
                    f"size must have one value for each of {self.total} explanations, got shape "
                    f"{tuple(size.shape)}"
                )
            size = size[self.numbers]
        wanted = resolve_size(size, self.table.counts)
        return ranks(self.table, score, self.generator) < wanted[self.table.graph]

    def scores(
        self, measure: Measure, keep: Keep, samples: int = 1, *, drop_isolated: bool = False
    ) -> GraphScores:
        """Mean measure over the samples of every graph; arguments as in :func:`outputs`."""
        if samples < 1:
            raise InputError(f"samples must be at least 1, got {samples}")
        values = torch.full((self.total,), torch.nan, dtype=torch.double, device=self.score.device)
        if self.judge is None:
            return GraphScores(values, self.why)
        replicas = outputs(
            self.adapter, self.store, self.table, keep, samples, drop_isolated=drop_isolated
        )
        parts = [measure(self.judge, output, ids) for ids, output in replicas]
        values[self.numbers] = torch.cat(parts).view(-1, samples).mean(1)
        return GraphScores(values, "the model's outputs on perturbed graphs give no number")


@contextmanager
def examine(model: Model, explanations: Sequence[Any], **options: Any) -> Iterator[Examined]:
    """Freezes a model and runs it once on the graphs of explanations."""
    own = {name: options.pop(name) for name in ("labels", "scale", "seed") if name in options}
    explained = ExplainedModel.of(model, **options)
    with explained.frozen(), torch.no_grad():
        yield Examined(explained, explanations, **own)
