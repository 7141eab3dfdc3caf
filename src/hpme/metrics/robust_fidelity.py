"""Robust fidelity: fidelity under small random deletions, which stay near the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hpme.data.info import Level
from hpme.errors import InputError
from hpme.metrics.deletion import Replicas
from hpme.metrics.fidelity import Fidelity
from hpme.metrics.judge import Scale
from hpme.metrics.selection import Size
from hpme.metrics.subject import examine
from hpme.models.explained import ExplainedModel, Model
from hpme.models.task import Mode


def robust_fidelity(
    model: Model,
    explanations: Sequence[Any],
    size: Size,
    *,
    alpha1: float = 0.1,
    alpha2: float = 0.9,
    samples: int = 50,
    labels: Tensor | None = None,
    scale: Scale = "spread",
    mode: Mode | None = None,
    model_config: Any = None,
    level: Level | None = None,
    seed: int = 0,
) -> Fidelity:
    r"""Robust fidelity :math:`Fid_{\alpha_1,+}` and :math:`Fid_{\alpha_2,-}` of hard explanations.

    The means over samples of :math:`f(G)_y - f(G')_y`. For the first, :math:`G'` lacks each pair of
    the explanation with probability :math:`\alpha_1`; for the second, each pair outside it stays
    with probability :math:`\alpha_2`. Both directions between two nodes go together. In regression
    :math:`|f(G) - f(G')|` in units of ``scale`` takes the place of the difference. Undefined for
    graphs without edges and for NaN scores.

    Args:
        model: The explained model; it is left exactly as it was.
        explanations: What an explainer returned, with ``x``, ``edge_index`` and ``edge_mask``.
        size: Number of pairs in an explanation, see :obj:`~hpme.metrics.selection.Size`.
        alpha1: Probability that a pair of the explanation is deleted.
        alpha2: Probability that a pair outside it is kept.
        samples: Perturbed graphs per graph, for either side.
        labels: Class :math:`y` of every graph; by default the predicted one.
        scale: Unit in regression, see :obj:`~hpme.metrics.judge.Scale`.
        mode, model_config: As in :class:`~hpme.models.ExplainedModel`.
        level: ``"node"`` if the model returns one row per node; then graphs need ``anchors``.
        seed: Seed of the deletions and of the choice between pairs with the same score; the
            global random state is not touched.
    """
    if not (0 <= alpha1 <= 1 and 0 <= alpha2 <= 1):
        raise InputError(f"alpha1 and alpha2 must lie in [0, 1], got {alpha1} and {alpha2}")
    if samples < 1:
        raise InputError(f"samples must be at least 1, got {samples}")
    generator = torch.Generator().manual_seed(seed)
    explained = ExplainedModel.of(model, mode=mode, level=level, model_config=model_config)
    with examine(explained, explanations, labels, scale) as subject:
        chosen = subject.choose(size, generator)

        def drawn(replicas: Replicas, probability: float) -> Tensor:
            noise = torch.rand(replicas.pairs.shape, generator=generator)
            return (noise < probability).to(chosen.device)

        def without_some(replicas: Replicas) -> Tensor:
            return ~(chosen[replicas.pairs] & drawn(replicas, alpha1))

        def with_some(replicas: Replicas) -> Tensor:
            return chosen[replicas.pairs] | drawn(replicas, alpha2)

        return Fidelity(
            plus=subject.scores(lambda judge: judge.lost, without_some, samples),
            minus=subject.scores(lambda judge: judge.lost, with_some, samples),
        )
