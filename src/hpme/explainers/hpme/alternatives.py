"""Several answers: distinct subgraphs each of which is enough for the prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hpme.explainers.hpme.method.selection import top_nodes
from hpme.explainers.hpme.quality import BEYOND_CHANCE, CARRIES
from hpme.explainers.hpme.search.sufficient import Trials, smallest_prefix
from hpme.graphs import GraphBatch


@dataclass(frozen=True)
class Alternative:
    """A subgraph that carries the prediction of its graph.

    Args:
        nodes: Boolean mask of the graph's nodes; where these have types, one mask for each type.
        kept: How near it brings graphs of other predictions to the explained one, see
            :class:`~hpme.explainers.hpme.quality.Quality`.
        chance: How near as many random nodes of the graph do.
    """

    nodes: Any
    kept: float
    chance: float


@torch.no_grad()
def alternatives_of(trials: Trials, count: int) -> list[list[Alternative]]:
    """At most ``count`` subgraphs of every graph, the first as in its explanation.

    The next are the smallest sufficient prefixes of the ranking without the nodes of those before,
    as long as there are any. Then each goes without every other node of the first, so that what
    else could take part in the reason is seen; such a one shares at most half of its nodes with
    one before. None if nothing in the graph carries the prediction.
    """
    found = _Found(trials, count)
    everything = torch.ones_like(trials.pooled)
    if not found.add(trials.pooled):
        return found.lists
    for _ in range(count - 1):
        if not found.add(_prefix(trials, everything & ~found.used)):
            break
    rank = top_nodes(trials.score, trials.mix.graphs, trials.mix.m).order[0]
    for odd in (0, 1):
        spared = trials.pooled & (rank % 2 == odd)
        found.add(_prefix(trials, ~spared))
    return found.lists


def _prefix(trials: Trials, allowed: Tensor) -> Tensor:
    """The smallest sufficient prefix of allowed nodes; anchors are always there."""
    keep = smallest_prefix(trials, allowed)
    return keep if trials.mix.graphs.anchors is not None else keep & allowed


class _Found:
    """Alternatives of all graphs, as they are found.

    Args:
        trials: The graphs.
        count: At most as many per graph.
    """

    def __init__(self, trials: Trials, count: int) -> None:
        self.trials, self.count = trials, count
        self.lists: list[list[Alternative]] = [[] for _ in range(trials.count)]
        self.rows: list[Tensor] = []
        self.used = torch.zeros_like(trials.pooled)

    def add(self, keep: Tensor) -> bool:
        """Takes the subgraphs that carry their predictions and are new; false if there is none."""
        trials, graphs = self.trials, self.trials.mix.graphs
        near, chance = trials.inserted(keep), trials.inserted(trials.random(keep))
        good = (near >= CARRIES) & (near - chance >= BEYOND_CHANCE)
        own = torch.bincount(graphs.batch[keep], minlength=graphs.num_graphs)
        for before in self.rows:
            shared = torch.bincount(graphs.batch[keep & before], minlength=graphs.num_graphs)
            good &= (2 * shared <= own)[: trials.count]
        full = torch.tensor([len(some) >= self.count for some in self.lists])
        good &= ~full.to(good.device)
        taken = keep & torch.cat([good, good.new_zeros(len(own) - len(good))])[graphs.batch]
        self.rows.append(taken)
        self.used |= taken
        sizes = graphs.sizes[: trials.count].tolist()
        parts = keep[: sum(sizes)].split(sizes)  # type: ignore[no-untyped-call]
        for number in good.nonzero().view(-1).tolist():
            values = (float(near[number]), float(chance[number]))
            nodes = _by_type(parts[number], graphs, number)
            self.lists[number].append(Alternative(nodes, *values))
        return bool(good.any())


def _by_type(nodes: Tensor, graphs: GraphBatch, number: int) -> Tensor | dict[str, Tensor]:
    """A mask of the nodes of a graph as users see them."""
    if graphs.schema is None or graphs.node_type is None:
        return nodes
    kind = graphs.node_type[graphs.batch == number]
    return {name: nodes[kind == i] for i, name in enumerate(graphs.schema.node_types)}
