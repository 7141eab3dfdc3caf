"""Fidelity and SimOAR: what deleting the explanation, or anything else, does to predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.graphs.segment import rank_in_segment
from hpme.metrics.deletion import DeletionOptions, Examined, Judge, PairReplicas, examine
from hpme.metrics.shared import GraphScores, Size
from hpme.models.explained import Model

if TYPE_CHECKING:
    from typing_extensions import Unpack

Form = Literal["probability", "accuracy"]


@dataclass(frozen=True)
class Fidelity:
    """What is lost without the explanation, the more the better, and with little else, the less."""

    plus: GraphScores  # without it
    minus: GraphScores  # with little but it


def fidelity(
    model: Model,
    explanations: Sequence[Any],
    size: Size,
    *,
    form: Form = "probability",
    **options: Unpack[DeletionOptions],
) -> Fidelity:
    r"""Fidelity of hard explanations :math:`G^*`, with edges deleted and nodes kept.

    :math:`Fid_+ = f(G)_y - f(G \setminus G^*)_y` and :math:`Fid_- = f(G)_y - f(G^*)_y`; in
    regression :math:`|f(G) - f(\cdot)|` in units of ``scale``, with the prediction on :math:`G` in
    place of a label. Undefined for graphs without edges and for NaN scores.

    Args:
        model: The explained model; it is left exactly as it was.
        explanations: What an explainer returned, with ``x``, ``edge_index`` and ``edge_mask``.
        size: Number of pairs in :math:`G^*`, see :obj:`~hpme.metrics.shared.Size`.
        form: ``"probability"``, or ``"accuracy"`` for
            :math:`1[\hat y(G) = y] - 1[\hat y(\cdot) = y]` (classification only).
        **options: ``labels``, ``scale``, ``mode``, ``model_config``, ``level`` and ``seed``, see
            :class:`DeletionOptions`.
    """
    if form not in get_args(Form):
        raise InputError(f"form must be 'probability' or 'accuracy', got {form!r}")
    measure = Judge.lost if form == "probability" else Judge.lost_accuracy
    with examine(model, explanations, **options) as examined:
        chosen = examined.choose(size)
        return Fidelity(
            plus=examined.scores(measure, lambda replicas: ~chosen[replicas.pairs]),
            minus=examined.scores(measure, lambda replicas: chosen[replicas.pairs]),
        )


def robust_fidelity(
    model: Model,
    explanations: Sequence[Any],
    size: Size,
    *,
    alpha1: float = 0.1,
    alpha2: float = 0.9,
    samples: int = 50,
    **options: Unpack[DeletionOptions],
) -> Fidelity:
    r"""Robust fidelity :math:`Fid_{\alpha_1,+}` and :math:`Fid_{\alpha_2,-}` of hard explanations.

    The means over samples of :math:`f(G)_y - f(G')_y`, in regression of :math:`|f(G) - f(G')|`. For
    the first, :math:`G'` lacks each pair of the explanation with probability :math:`\alpha_1`; for
    the second, each pair outside it stays with probability :math:`\alpha_2`.

    Args:
        model, explanations, size, **options: As in :func:`fidelity`.
        alpha1: Probability that a pair of the explanation is deleted.
        alpha2: Probability that a pair outside it is kept.
        samples: Perturbed graphs per graph, for either side.
    """
    if not (0 <= alpha1 <= 1 and 0 <= alpha2 <= 1):
        raise InputError(f"alpha1 and alpha2 must lie in [0, 1], got {alpha1} and {alpha2}")
    with examine(model, explanations, **options) as examined:
        chosen = examined.choose(size)

        def drawn(replicas: PairReplicas, probability: float) -> Tensor:
            noise = torch.rand(replicas.pairs.shape, generator=examined.generator)
            return (noise < probability).to(chosen.device)

        def without_some(replicas: PairReplicas) -> Tensor:
            return ~(chosen[replicas.pairs] & drawn(replicas, alpha1))

        def with_some(replicas: PairReplicas) -> Tensor:
            return chosen[replicas.pairs] | drawn(replicas, alpha2)

        return Fidelity(
            plus=examined.scores(Judge.lost, without_some, samples),
            minus=examined.scores(Judge.lost, with_some, samples),
        )


@dataclass(frozen=True)
class SimOARReferences:
    """What SimOAR gives without any knowledge."""

    random: GraphScores  # explanations of the same sizes, drawn at random
    empty: GraphScores  # nothing is spared from deletion


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
        model, explanations, size, **options: As in :func:`fidelity`.
        ratio: Deleted share of a graph's pairs.
        samples: Perturbed graphs per graph.
        drop_isolated: Whether nodes left without an edge go, too; see
            :func:`~hpme.graphs.transforms.keep_edges`.
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
