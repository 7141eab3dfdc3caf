"""SimOAR: how well the prediction survives deletions outside the explanation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hpme.data.info import Level
from hpme.errors import InputError
from hpme.graphs.segment import rank_in_segment
from hpme.metrics.deletion import Keep, Replicas
from hpme.metrics.judge import Scale
from hpme.metrics.selection import Size
from hpme.metrics.subject import Subject, examine
from hpme.metrics.value import GraphScores
from hpme.models.explained import ExplainedModel, Model
from hpme.models.task import Mode


@dataclass(frozen=True)
class SimOARReferences:
    """What SimOAR gives without any knowledge.

    Args:
        random: Explanations of the same sizes, drawn at random.
        empty: Nothing is spared from deletion.
    """

    random: GraphScores
    empty: GraphScores


def simoar(
    model: Model,
    explanations: Sequence[Any],
    size: Size,
    *,
    ratio: float = 0.1,
    samples: int = 20,
    drop_isolated: bool = True,
    labels: Tensor | None = None,
    scale: Scale = "spread",
    mode: Mode | None = None,
    model_config: Any = None,
    level: Level | None = None,
    seed: int = 0,
) -> GraphScores:
    r"""Mean probability :math:`f(G')_y` on graphs without some pairs outside the explanation.

    From each :math:`G'`, ``ratio`` of all pairs of the graph (rounded to the nearest number) are
    deleted, uniformly without replacement among the pairs outside the explanation, or all of those
    if they are fewer. In regression :math:`\exp(-|f(G) - f(G')|)`, in units of ``scale``. The
    higher, the better, but few deletions hurt little: compare with :func:`simoar_references`.
    Undefined for graphs without edges and for NaN scores.

    Args:
        model: The explained model; it is left exactly as it was.
        explanations: What an explainer returned, with ``x``, ``edge_index`` and ``edge_mask``.
        size: Number of pairs in an explanation, see :obj:`~hpme.metrics.selection.Size`.
        ratio: Deleted share of a graph's pairs.
        samples: Perturbed graphs per graph.
        drop_isolated: Whether nodes left without an edge go, too; see
            :func:`~hpme.graphs.perturb.keep_edges`.
        labels: Class :math:`y` of every graph; by default the predicted one.
        scale: Unit in regression, see :obj:`~hpme.metrics.judge.Scale`.
        mode, model_config: As in :class:`~hpme.models.ExplainedModel`.
        level: ``"node"`` if the model returns one row per node; then graphs need ``anchors``.
        seed: Seed of the deletions and of the choice between pairs with the same score; the
            global random state is not touched.
    """
    _check(ratio, samples)
    generator = torch.Generator().manual_seed(seed)
    explained = ExplainedModel.of(model, mode=mode, level=level, model_config=model_config)
    with examine(explained, explanations, labels, scale) as subject:
        keep = _deletion(subject, subject.choose(size, generator), ratio, generator)
        return subject.scores(lambda judge: judge.kept, keep, samples, drop_isolated=drop_isolated)


def simoar_references(
    model: Model,
    explanations: Sequence[Any],
    size: Size,
    *,
    ratio: float = 0.1,
    samples: int = 20,
    drop_isolated: bool = True,
    labels: Tensor | None = None,
    scale: Scale = "spread",
    mode: Mode | None = None,
    model_config: Any = None,
    level: Level | None = None,
    seed: int = 0,
) -> SimOARReferences:
    """:func:`simoar` of a random and of an empty explanation of the same graphs; arguments as there.

    Both have the same expectation unless a random explanation leaves fewer pairs than are to be
    deleted.
    """  # noqa: E501
    _check(ratio, samples)
    generator = torch.Generator().manual_seed(seed)
    explained = ExplainedModel.of(model, mode=mode, level=level, model_config=model_config)
    with examine(explained, explanations, labels, scale) as subject:
        anything = subject.choose_at_random(size, generator)
        values = [
            subject.scores(
                lambda judge: judge.kept,
                _deletion(subject, chosen, ratio, generator),
                samples,
                drop_isolated=drop_isolated,
            )
            for chosen in (anything, torch.zeros_like(anything))
        ]
        return SimOARReferences(*values)


def _deletion(subject: Subject, chosen: Tensor, ratio: float, generator: torch.Generator) -> Keep:
    deleted = (ratio * subject.table.counts.double()).round().long()

    def keep(replicas: Replicas) -> Tensor:
        noise = torch.rand(replicas.pairs.shape, generator=generator).to(chosen.device)
        spared = chosen[replicas.pairs]
        rank = rank_in_segment(noise.masked_fill(spared, -1.0), replicas.owner, replicas.ptr)
        return spared | (rank >= deleted[replicas.ids][replicas.owner])

    return keep


def _check(ratio: float, samples: int) -> None:
    if not 0 <= ratio <= 1:
        raise InputError(f"ratio must lie in [0, 1], got {ratio}")
    if samples < 1:
        raise InputError(f"samples must be at least 1, got {samples}")
