"""SimOAR: how well the prediction survives deletions outside the explanation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.graphs.segment import rank_in_segment
from hpme.metrics.deletion import DeletionOptions, Examined, Judge, PairReplicas, examine
from hpme.metrics.selection import Size
from hpme.metrics.value import GraphScores
from hpme.models.explained import Model

if TYPE_CHECKING:
    from typing_extensions import Unpack


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
    **options: Unpack[DeletionOptions],
) -> GraphScores:
    r"""Mean probability :math:`f(G')_y` on graphs without some pairs outside the explanation.

    From each :math:`G'`, ``ratio`` of all pairs of the graph (rounded to the nearest number) are
    deleted, uniformly without replacement among the pairs outside the explanation, or all of those
    if they are fewer. In regression :math:`\exp(-|f(G) - f(G')|)`, in units of ``scale``. The
    higher, the better, but few deletions hurt little: compare with :func:`simoar_references`.
    Undefined for graphs without edges and for NaN scores.

    Args:
        model, explanations, size: As in :func:`fidelity`.
        ratio: Deleted share of a graph's pairs.
        samples: Perturbed graphs per graph.
        drop_isolated: Whether nodes left without an edge go, too; see
            :func:`~hpme.graphs.transforms.keep_edges`.
        **options: ``labels``, ``scale``, ``mode``, ``model_config``, ``level`` and ``seed``, see
            :class:`DeletionOptions`.
    """
    with examine(model, explanations, **options) as examined:
        return _survival(examined, examined.choose(size), ratio, samples, drop_isolated)


def simoar_references(
    model: Model,
    explanations: Sequence[Any],
    size: Size,
    *,
    ratio: float = 0.1,
    samples: int = 20,
    drop_isolated: bool = True,
    **options: Unpack[DeletionOptions],
) -> SimOARReferences:
    """:func:`simoar` of a random and of an empty explanation of the same graphs; arguments as there.

    Both have the same expectation unless a random explanation leaves fewer pairs than are to be
    deleted.
    """  # noqa: E501
    with examine(model, explanations, **options) as examined:
        anything = examined.choose(size, at_random=True)
        return SimOARReferences(
            random=_survival(examined, anything, ratio, samples, drop_isolated),
            empty=_survival(examined, anything & False, ratio, samples, drop_isolated),
        )


def _survival(
    examined: Examined, chosen: Tensor, ratio: float, samples: int, drop_isolated: bool
) -> GraphScores:
    if not 0 <= ratio <= 1:
        raise InputError(f"ratio must lie in [0, 1], got {ratio}")
    deleted = (ratio * examined.table.counts.double()).round().long()

    def keep(replicas: PairReplicas) -> Tensor:
        noise = torch.rand(replicas.pairs.shape, generator=examined.generator).to(chosen.device)
        spared = chosen[replicas.pairs]
        rank = rank_in_segment(noise.masked_fill(spared, -1.0), replicas.owner, replicas.ptr)
        return spared | (rank >= deleted[replicas.ids][replicas.owner])

    return examined.scores(Judge.kept, keep, samples, drop_isolated=drop_isolated)
