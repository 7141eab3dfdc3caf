"""The first answer at once: HPME without its search."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hpme.explainers.hpme.explainer import HPMEExplainer
from hpme.models.explained import Model

QUICK: dict[str, Any] = {"restarts": 0, "search_graphs": 24, "score": "node", "epochs": 1}
"""Arguments of :class:`HPMEExplainer`: cheap attributions compete, on a few graphs."""


def quick(
    model: Model, graphs: Iterable[Any], *, progress: bool = True, seed: int = 0, **facts: Any
) -> HPMEExplainer:
    """A fitted explainer in seconds, for a first look; the full search takes minutes.

    Occlusion and gradients are distilled into a scorer each, and a few transplants choose one. All
    else is as of a full fit: the report on held-out graphs, verdicts, effects, pages, saving. For
    the full search, fit an :class:`HPMEExplainer`.

    Args:
        model: The model; it is left exactly as it was.
        graphs: Graphs to learn from: a dataset, a list of ``Data`` or a loader.
        progress: Whether to draw progress bars (on terminals only).
        seed: Seed of all that is drawn.
        **facts: As for :meth:`HPMEExplainer.fit`.
    """
    return HPMEExplainer(**QUICK, seed=seed).fit(model, graphs, progress=progress, **facts)
