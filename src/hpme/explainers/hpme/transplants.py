"""Transplants between real graphs: what an explainer can say without labels rests on them.

Nodes of a graph are put into hosts of other predictions, or neutral nodes of hosts take their
place in the graph; both times the model is asked how much of the prediction is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from hpme.explainers.hpme.method.boundary import GOLDEN_RATIO
from hpme.explainers.hpme.method.pool import Selection, by_boundary, top_nodes
from hpme.explainers.hpme.search.criterion import closeness
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.shared.context import Context
from hpme.graphs import GraphBatch, GraphStore
from hpme.graphs.edges import connected_parts
from hpme.graphs.transforms import from_tensors, to_tensors

HOST = "host_"
"""What names of tensors of kept hosts begin with."""
SEEN = "seen_graphs"
"""Codes of all graphs of a fit, lest a guarantee be calibrated on them."""
TOLERANCE = 0.1
"""By how much less the smallest sufficient subgraph may keep the prediction than the whole pool."""
DRAWS = 4
"""Hosts every graph meets."""
SPURTS = 8
"""A random region grows by this part of what is missing at a time, by one node at least."""
MISSED = 2.0
"""How many nodes too many weigh as much as one that is needed and left out."""


def spread_over(values: Tensor, count: int = 32) -> Tensor:
    """Numbers of at most ``count`` graphs whose predictions ``[B, C]`` cover those of all."""
    classes = values.shape[1] > 1
    order = (values.argmax(1) if classes else values[:, 0]).argsort(stable=True)
    place = torch.linspace(0, len(order) - 1, min(count, len(order))).round().long()
    return order[place]


def host_tensors(store: GraphStore) -> dict[str, Tensor]:
    """Graphs without their labels, as tensors that are saved and moved with an explainer."""
    node, graph = (
        {k: v for k, v in part.items() if k != "y"} for part in (store.node, store.graph)
    )
    parts = (store.sizes, store.edge_counts, store.local_edge_index, node, store.edge, graph)
    tensors = to_tensors(GraphStore(*parts, schema=store.schema))
    return {HOST + name.replace(".", "__"): value for name, value in tensors.items()}


def hosts_from(tensors: Mapping[str, Tensor]) -> GraphStore:
    """The graphs of :func:`host_tensors`; tensors of other names are ignored."""
    kept = {name.removeprefix(HOST): v for name, v in tensors.items() if name.startswith(HOST)}
    return from_tensors({name.replace("__", ".", 1): value for name, value in kept.items()})


@dataclass(frozen=True)
class Transplants:
    """Transplants between some graphs and hosts that stay the same for each of them.

    Every graph meets the hosts whose predictions are farthest from its own. Nothing is drawn at
    random and no graph knows of another, so the answer for a graph does not depend on the others.
    """

    mix: HardMix  # the graphs, followed by the hosts
    count: int  # of graphs that are not hosts
    score: Tensor  # of all nodes [1, N]
    hosts: Tensor  # numbers of the hosts of every graph, [D, count]
    pooled: Tensor  # nodes that explanations show, boolean [N]

    @classmethod
    def of(
        cls, mix: HardMix, count: int, score: Tensor, pooled: Tensor, *, draws: int = DRAWS
    ) -> Transplants:
        """Transplants of the first ``count`` graphs of a mix; the others are hosts."""
        values = mix.context.values.double()
        distance = torch.cdist(values[:count], values[count:])
        nearest_last = distance.argsort(dim=1, descending=True, stable=True)
        hosts = count + nearest_last[:, : min(draws, distance.shape[1])].T
        return cls(mix, count, score, hosts, pooled)

    @classmethod
    def among(cls, mix: HardMix, score: Tensor, hosts: Tensor | None = None) -> Transplants:
        """Transplants of all graphs of a mix, which host one another; hosts are drawn or given."""
        hosts = mix.draw(DRAWS) if hosts is None else hosts
        return cls(mix, hosts.shape[1], score, hosts, top_nodes(score, mix.graphs, mix.m).keep[0])

    @property
    def context(self) -> Context:
        """The frozen model on the graphs and the hosts."""
        return self.mix.context

    @property
    def graphs(self) -> GraphBatch:
        """The graphs, followed by the hosts."""
        return self.mix.graphs

    @cached_property
    def pool(self) -> Tensor:
        """The whole pool of every graph, boolean ``[N]``; explanations may show less of it."""
        return top_nodes(self.score, self.graphs, self.mix.m).keep[0]

    def sizes(self, keep: Tensor) -> Tensor:
        """Number of nodes of every graph in a mask ``[N]``."""
        return torch.bincount(self.graphs.batch[keep], minlength=self.graphs.num_graphs)

    def of_graphs(self, chosen: Tensor) -> Tensor:
        """All nodes of some of the graphs, boolean ``[count]``, as a mask ``[N]``."""
        none = chosen.new_zeros(self.graphs.num_graphs - self.count)
        return torch.cat([chosen, none])[self.graphs.batch]

    def split(self, nodes: Tensor) -> list[Tensor]:
        """Values of nodes ``[N]`` by graph, without those of hosts."""
        sizes = self.graphs.sizes[: self.count].tolist()
        return list(nodes[: sum(sizes)].split(sizes))  # type: ignore[no-untyped-call]

    def with_hosts(self, keep: Tensor) -> Tensor:
        """A mask of the graphs' own nodes, continued over the hosts' nodes, none of them in it."""
        return torch.cat([keep, keep.new_zeros(self.graphs.num_nodes - len(keep))])

    def inserted(self, keep: Tensor, ids: Tensor | None = None) -> Tensor:
        """How well nodes of graphs, by default of all, keep their predictions in hosts ``[B]``.

        They are a mask ``[N]``, or ``[D, N]`` with others for every host.
        """
        if ids is None:
            ids = torch.arange(self.count, device=self.hosts.device)
        output = self.into_hosts(keep, ids)
        return closeness(self.context, output, ids.expand(output.shape[:2])).mean(0)

    def into_hosts(self, keep: Tensor, ids: Tensor) -> Tensor:
        """Outputs ``[D, len(ids), C]`` of hosts with nodes of graphs; as :meth:`inserted`."""
        hosts = self.hosts[:, ids]
        chosen, gaps = self._selection(keep), self._selection(self.pool)
        return self.mix.predict(ids.expand_as(hosts), chosen, hosts, gaps, drawn=False)

    def without(self, keep: Tensor) -> Tensor:
        """How well graphs keep predictions where neutral nodes replace ``keep``, ``[count]``."""
        output = self.replaced(keep)
        ids = torch.arange(self.count, device=output.device).expand(output.shape[:2])
        return closeness(self.context, output, ids).mean(0)

    def replaced(self, keep: Tensor) -> Tensor:
        """Outputs ``[D, count, C]`` of graphs with neutral nodes of hosts in place of ``keep``.

        Neutral are the nodes that the pool ranks lowest, as many as are replaced.
        """
        graphs, removed = self.graphs, self._selection(keep)
        count = self.score.new_zeros(len(self.hosts), graphs.num_graphs)
        count = count.index_add(1, graphs.batch, removed.keep.to(count))[:, : self.count]
        order = top_nodes(-self.score, graphs, graphs.sizes).order
        found = []
        for row, hosts in enumerate(self.hosts):
            parts, numbers = [], []
            # A host serves graphs that replace different numbers of nodes.
            for size in set(count[row].tolist()):
                ids = (count[row] == size).nonzero().view(1, -1)
                neutral = by_boundary(order < size, graphs, None)
                gaps = removed[row : row + 1]
                parts.append(self.mix.predict(hosts[ids], neutral, ids, gaps, drawn=False)[0])
                numbers.append(ids[0])
            found.append(torch.cat(parts)[torch.cat(numbers).argsort()])
        return torch.stack(found)

    def random(self, keep: Tensor) -> Tensor:
        """As many nodes of every graph as ``keep`` has, others for every host, ``[D, N]``.

        Pseudo-random by node number: the same whatever the other graphs are.
        """
        return top_nodes(self.noise().float(), self.graphs, self.sizes(keep)).keep

    def noise(self) -> Tensor:
        """Numbers from 0 to 1 by node number, others for every host, ``[D, N]``."""
        draw = torch.arange(1, len(self.hosts) + 1, device=self.hosts.device).unsqueeze(1)
        return ((self.node_number + 1).double() * (GOLDEN_RATIO * draw**1.5)).frac()

    def random_regions(self, keep: Tensor, *, beside: bool = True) -> Tensor:
        """Regions as large and as connected as ``keep``, others for every host, ``[D, N]``.

        Each grows from as many nodes as ``keep`` has connected parts, if ``beside`` by nodes that
        are not in ``keep`` where there are any. Nodes that a graph is about are in all regions.
        """
        graphs = self.graphs
        if graphs.anchors is not None:
            return self.random(keep)
        inner = graphs.edge_index[:, keep[graphs.edge_index].all(0)]
        first = torch.unique(connected_parts(inner, graphs.num_nodes)[keep])
        parts = torch.bincount(graphs.batch[first], minlength=graphs.num_graphs)
        left = self.sizes(keep).expand(len(self.hosts), -1)
        noise = self.noise() - keep.double() * beside
        found = torch.zeros_like(noise, dtype=torch.bool)
        step = parts.expand_as(left)
        near = torch.ones_like(found)
        while bool((left > 0).any()):
            # Neighbours first; where there are none left, a new part begins.
            rank = torch.where(found, -4.0, noise - 2.0 * ~near)
            new = top_nodes(rank.float(), graphs, graphs.sizes).order < step[:, graphs.batch]
            found |= new
            left = left - step
            step = ((left + SPURTS - 1) // SPURTS).clamp(min=0)
            near = torch.zeros_like(noise).index_add(
                1, graphs.edge_index[1], found[:, graphs.edge_index[0]].double()
            ) > 0  # fmt: skip
        return found

    def carried(self, keep: Tensor, ids: Tensor) -> Tensor:
        """How much nearer graphs' own nodes bring hosts to predictions than as many random ones."""
        nodes = self.with_hosts(keep)
        return self.inserted(nodes, ids) - self.inserted(self.random(nodes), ids)

    @property
    def node_number(self) -> Tensor:
        """Number of every node in its own graph."""
        batch = self.graphs.batch
        return torch.arange(len(batch), device=batch.device) - self.graphs.ptr[batch]

    def smallest_prefix(self, allowed: Tensor | None = None) -> Tensor:
        """The first nodes of every graph's ranking, as few as keep the prediction, boolean ``[N]``.

        One less would not keep it to within :data:`TOLERANCE` of what the whole pool keeps. Anchors
        are always among them, nodes that are not allowed come last. Hosts keep their pool.
        """
        graphs, m, score = self.graphs, self.mix.m, self.score
        if allowed is not None:
            score = torch.where(allowed, score, score.min() - 1)
        order = top_nodes(score, graphs, m).order[0]
        low = m.clamp(max=max(1, graphs.anchors_per_graph))
        high = m.clone()
        low[self.count :] = m[self.count :]
        wanted = self.inserted(order < m[graphs.batch]) - TOLERANCE
        own = slice(None, self.count)
        while bool((low < high).any()):
            middle = (low + high) // 2
            enough = self.inserted(order < middle[graphs.batch]) >= wanted
            # Where they are equal, neither changes any more.
            high[own] = torch.where(enough, middle[own], high[own])
            low[own] = torch.where(enough, low[own], (middle[own] + 1).minimum(high[own]))
        return order < high[graphs.batch]

    def _selection(self, keep: Tensor) -> Selection:
        stacked = keep if keep.dim() == 2 else keep.expand(len(self.hosts), -1)
        return by_boundary(stacked, self.graphs, None)


def least_needed(importance: Tensor, needed: Tensor) -> float:
    """The importance that tells nodes that are needed from others with the least error.

    One that is needed and left out counts :data:`MISSED` times. Over all graphs the noise of few
    hosts averages out, so the bound picks more truly than a prefix of each graph does.
    """
    if not bool(needed.any()):
        return 0.0
    order = importance.argsort()
    missed = MISSED * needed[order].double().cumsum(0)
    left_out = (~needed[order]).double().cumsum(0)
    place = int((missed - left_out).argmin())
    if float(missed[place]) >= float(left_out[place]):
        return 0.0
    # Half-way to the next one, so that rounding does not decide about the node it was taken from.
    return float(importance[order][place : place + 2].mean())
