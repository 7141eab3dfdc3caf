"""What of a graph is enough for its prediction, by interventions on real graphs; no labels."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hpme.explainers.hpme.method.mixup import GOLDEN_RATIO
from hpme.explainers.hpme.method.selection import Selection, by_boundary, top_nodes
from hpme.explainers.hpme.search.criterion import closeness
from hpme.explainers.hpme.search.hardmix import HardMix

TOLERANCE = 0.1
"""By how much less the smallest sufficient subgraph may keep the prediction than the whole pool."""
DRAWS = 4
"""Hosts every graph meets."""
MISSED = 2.0
"""How many nodes too many weigh as much as one that is needed and left out."""


@dataclass(frozen=True)
class Trials:
    """Transplants between some graphs and hosts that stay the same for each of them.

    Every graph meets the hosts whose predictions are farthest from its own. Nothing is drawn at
    random and no graph knows of another, so the answer for a graph is the same in any company.

    Args:
        mix: The graphs, followed by the hosts.
        count: Number of graphs that are not hosts.
        score: Scores of all nodes.
        hosts: Numbers of the hosts of every graph, ``[D, count]``.
        pooled: Nodes that explanations show, boolean ``[N]``.
    """

    mix: HardMix
    count: int
    score: Tensor
    hosts: Tensor
    pooled: Tensor

    @classmethod
    def of(
        cls, mix: HardMix, count: int, score: Tensor, pooled: Tensor, *, draws: int = DRAWS
    ) -> Trials:
        """Trials of the first ``count`` graphs of a mix; the others are hosts."""
        values = mix.context.values.double()
        distance = torch.cdist(values[:count], values[count:])
        nearest_last = distance.argsort(dim=1, descending=True, stable=True)
        hosts = count + nearest_last[:, : min(draws, distance.shape[1])].T
        return cls(replace(mix, drawn=False), count, score, hosts, pooled)

    @classmethod
    def among(cls, mix: HardMix, score: Tensor, hosts: Tensor | None = None) -> Trials:
        """Trials of all graphs of a mix, which host one another; by default hosts are drawn."""
        hosts = mix.draw(DRAWS) if hosts is None else hosts
        everything = top_nodes(score, mix.graphs, mix.m).keep[0]
        return cls(replace(mix, drawn=False), hosts.shape[1], score, hosts, everything)

    def bound(self) -> Selection:
        """The whole pool of every graph."""
        return top_nodes(self.score, self.mix.graphs, self.mix.m)

    def inserted(self, keep: Tensor) -> Tensor:
        """How well nodes of the graphs keep their predictions in the hosts, ``[count]``.

        Args:
            keep: Boolean ``[N]``, or ``[D, N]`` with other nodes for every host.
        """
        own = torch.arange(self.count, device=self.hosts.device).expand_as(self.hosts)
        pooled = self._selection(self.bound().keep[0])
        output = self.mix.predict(own, self._selection(keep), self.hosts, pooled)
        return closeness(self.mix.context, output, own).mean(0)

    def without(self, keep: Tensor) -> Tensor:
        """How well graphs keep their predictions where neutral nodes replace ``keep``, ``[count]``.

        Neutral are the nodes of the hosts that the pool ranks lowest, as many as are replaced.

        Args:
            keep: As in :meth:`inserted`.
        """
        graphs = self.mix.graphs
        removed = self._selection(keep)
        count = self.score.new_zeros(len(self.hosts), graphs.num_graphs)
        count = count.index_add(1, graphs.batch, removed.keep.to(count))[:, : self.count]
        order = top_nodes(-self.score, graphs, graphs.sizes).order
        kept = self.score.new_zeros(self.count)
        for row, hosts in enumerate(self.hosts):
            # A host serves graphs that replace different numbers of nodes.
            for size in set(count[row].tolist()):
                ids = (count[row] == size).nonzero().view(1, -1)
                neutral = by_boundary(order < size, graphs, None)
                output = self.mix.predict(hosts[ids], neutral, ids, removed[row : row + 1])
                kept[ids[0]] += closeness(self.mix.context, output, ids)[0].to(kept)
        return kept / max(1, len(self.hosts))

    def random(self, keep: Tensor) -> Tensor:
        """As many nodes of every graph as ``keep`` has, others for every host, ``[D, N]``.

        Pseudo-random by node number: the same in any company.
        """
        graphs = self.mix.graphs
        local = (
            torch.arange(graphs.num_nodes, device=graphs.batch.device) - graphs.ptr[graphs.batch]
        )
        draw = torch.arange(1, len(self.hosts) + 1, device=local.device).unsqueeze(1)
        noise = ((local + 1).double() * (GOLDEN_RATIO * draw**1.5)).frac()
        sizes = torch.bincount(graphs.batch[keep], minlength=graphs.num_graphs)
        return top_nodes(noise.float(), graphs, sizes).keep

    def _selection(self, keep: Tensor) -> Selection:
        stacked = keep if keep.dim() == 2 else keep.expand(len(self.hosts), -1)
        return by_boundary(stacked, self.mix.graphs, None)


def smallest_prefix(trials: Trials, allowed: Tensor | None = None) -> Tensor:
    """The first nodes of every graph's ranking, as few as keep the prediction, boolean ``[N]``.

    Few enough that one less would not keep it to within :data:`TOLERANCE` of what the whole pool
    keeps, found by halving; anchors are always among them. Hosts of the trials keep their pool.

    Args:
        trials: The graphs.
        allowed: Boolean ``[N]``: other nodes come last; by default all nodes are allowed.
    """
    graphs, m = trials.mix.graphs, trials.mix.m
    score = trials.score
    if allowed is not None:
        score = torch.where(allowed, score, score.min() - 1)
    order = top_nodes(score, graphs, m).order[0]
    low = m.clamp(max=max(1, graphs.anchors_per_graph))
    high = m.clone()
    low[trials.count :] = m[trials.count :]
    wanted = trials.inserted(order < m[graphs.batch]) - TOLERANCE
    own = slice(None, trials.count)
    while bool((low < high).any()):
        middle = (low + high) // 2
        enough = trials.inserted(order < middle[graphs.batch]) >= wanted
        unsettled = low[own] < high[own]
        high[own] = torch.where(enough & unsettled, middle[own], high[own])
        low[own] = torch.where(~enough & unsettled, middle[own] + 1, low[own])
    return order < high[graphs.batch]


def least_needed(importance: Tensor, needed: Tensor) -> float:
    """The importance that tells nodes that are needed from others with the least error.

    One that is needed and left out counts :data:`MISSED` times.

    What one graph needs is found with few hosts; over all graphs the noise averages out, so the
    bound picks more truly than a prefix of each graph does, and it costs no mix.

    Args:
        importance: Importance of pooled nodes of many graphs.
        needed: Whether they are in the smallest prefix of theirs.
    """
    if not bool(needed.any()):
        return 0.0
    order = importance.argsort()
    missed = MISSED * needed[order].double().cumsum(0)
    spared = (~needed[order]).double().cumsum(0)
    place = int((missed - spared).argmin())
    if float(missed[place]) >= float(spared[place]):
        return 0.0
    # Half-way to the next one, so that rounding does not decide about the node it was taken from.
    return float(importance[order][place : place + 2].mean())
