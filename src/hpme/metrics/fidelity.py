"""Fidelity: what deleting the explanation, or everything else, does to the prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from hpme.data.info import Level
from hpme.errors import InputError
from hpme.metrics.judge import Judge, Scale
from hpme.metrics.selection import Size
from hpme.metrics.subject import examine
from hpme.metrics.value import GraphScores
from hpme.models.explained import ExplainedModel, Model
from hpme.models.task import Mode

Form = Literal["probability", "accuracy"]


@dataclass(frozen=True)
class Fidelity:
    """Both sides of fidelity.

    Args:
        plus: What is lost without the explanation; the higher, the better.
        minus: What is lost with little but the explanation; the lower, the better.
    """

    plus: GraphScores
    minus: GraphScores


def fidelity(
    model: Model,
    explanations: Sequence[Any],
    size: Size,
    *,
    form: Form = "probability",
    labels: Tensor | None = None,
    scale: Scale = "spread",
    mode: Mode | None = None,
    model_config: Any = None,
    level: Level | None = None,
    seed: int = 0,
) -> Fidelity:
    r"""Fidelity of hard explanations :math:`G^*`, with edges deleted and nodes kept.

    :math:`Fid_+ = f(G)_y - f(G \setminus G^*)_y` and :math:`Fid_- = f(G)_y - f(G^*)_y`; in
    regression :math:`|f(G) - f(\cdot)|` in units of ``scale``, with the prediction on :math:`G` in
    place of a label. Undefined for graphs without edges and for NaN scores.

    Args:
        model: The explained model; it is left exactly as it was.
        explanations: What an explainer returned, with ``x``, ``edge_index`` and ``edge_mask``.
        size: Number of pairs in :math:`G^*`, see :obj:`~hpme.metrics.selection.Size`.
        form: ``"probability"``, or ``"accuracy"`` for
            :math:`1[\hat y(G) = y] - 1[\hat y(\cdot) = y]` (classification only).
        labels: Class :math:`y` of every graph; by default the predicted one.
        scale: Unit in regression, see :obj:`~hpme.metrics.judge.Scale`.
        mode, model_config: As in :class:`~hpme.models.ExplainedModel`.
        level: ``"node"`` if the model returns one row per node; then graphs need ``anchors``.
        seed: Decides between pairs with the same score.
    """
    if form not in get_args(Form):
        raise InputError(f"form must be 'probability' or 'accuracy', got {form!r}")
    generator = torch.Generator().manual_seed(seed)
    explained = ExplainedModel.of(model, mode=mode, level=level, model_config=model_config)
    with examine(explained, explanations, labels, scale) as subject:
        chosen = subject.choose(size, generator)

        def verdict(judge: Judge) -> Any:
            return judge.lost if form == "probability" else judge.lost_accuracy

        return Fidelity(
            plus=subject.scores(verdict, lambda replicas: ~chosen[replicas.pairs]),
            minus=subject.scores(verdict, lambda replicas: chosen[replicas.pairs]),
        )
