"""Several answers: distinct subgraphs each of which is enough for the prediction."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hpme.explainers.hpme.quality import BEYOND_CHANCE, CARRIES
from hpme.explainers.hpme.search.sufficient import Trials, smallest_prefix


@dataclass(frozen=True)
class Alternative:
    """A subgraph that carries the prediction of its graph.

    Args:
        nodes: Boolean mask of the graph's nodes.
        kept: How near it brings graphs of other predictions to the explained one, see
            :class:`~hpme.explainers.hpme.quality.Quality`.
        chance: How near as many random nodes of the graph do.
    """

    nodes: Tensor
    kept: float
    chance: float


@torch.no_grad()
def alternatives_of(trials: Trials, count: int) -> list[list[Alternative]]:
    """At most ``count`` subgraphs of every graph, the first as in its explanation.

    Each is the smallest sufficient prefix of the ranking without the nodes of those before, so no
    two share a node but anchors. None if nothing in the graph carries the prediction.
    """
    graphs = trials.mix.graphs
    allowed = torch.ones_like(graphs.batch, dtype=torch.bool)
    going = torch.ones(trials.count, dtype=torch.bool, device=allowed.device)
    found: list[list[Alternative]] = [[] for _ in range(trials.count)]
    sizes = graphs.sizes[: trials.count].tolist()
    for _ in range(count):
        keep = smallest_prefix(trials, allowed)
        if graphs.anchors is None:
            keep &= allowed
        near, chance = trials.inserted(keep), trials.inserted(trials.random(keep))
        going &= (near >= CARRIES) & (near - chance >= BEYOND_CHANCE)
        if not bool(going.any()):
            break
        rows = keep[: sum(sizes)].split(sizes)  # type: ignore[no-untyped-call]
        for number in going.nonzero().view(-1).tolist():
            values = (float(near[number]), float(chance[number]))
            found[number].append(Alternative(rows[number], *values))
        allowed &= ~keep
    return found
