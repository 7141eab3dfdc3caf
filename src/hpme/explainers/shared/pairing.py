"""Pairs of graphs joined into one, as mixup explainers show them to the model."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hpme.graphs import GraphBatch


@dataclass(frozen=True)
class Union:
    r"""Every graph :math:`G_a` of a batch joined with a partner :math:`G_b` into one graph.

    Args:
        graphs: The joined graphs; edges come as all of :math:`G_a`, all of :math:`G_b`, all
            bridges between them. Anchors are those of :math:`G_a`.
        num_bridges: Number of directed edges between :math:`G_a` and :math:`G_b`.
        other_anchors: Anchors of :math:`G_b` in the joined graphs.
    """

    graphs: GraphBatch
    num_bridges: int
    other_anchors: Tensor | None = None

    @property
    def about_second(self) -> GraphBatch:
        r"""The joined graphs with the anchors of :math:`G_b`."""
        return replace(self.graphs, anchors=self.other_anchors)

    def per_edge(self, first: Tensor, second: Tensor) -> Tensor:
        """Weights of the edges of both graphs at the edges of the union; bridges weigh 1."""
        return torch.cat([first, second, first.new_ones(self.num_bridges)])


def unite(first: GraphBatch, second: GraphBatch, bridges: int, generator: torch.Generator) -> Union:
    r"""Joins each graph of ``first`` with the graph of the same number in ``second``.

    Pooling over the joined batch vector merges each pair, so one forward pass serves all of them.

    Args:
        first: Graphs :math:`G_a`.
        second: As many graphs :math:`G_b`.
        bridges: Undirected random edges :math:`\eta` between the two graphs of each pair.
        generator: Draws the ends of the bridges.
    """
    batch = torch.cat([first.batch, second.batch])
    origin = torch.argsort(batch, stable=True)
    place = torch.empty_like(origin)
    place[origin] = torch.arange(origin.numel(), device=origin.device)
    ends = torch.stack([_random_nodes(first, bridges, generator),
                        _random_nodes(second, bridges, generator) + first.num_nodes])  # fmt: skip
    bridge_index = torch.cat([ends, ends.flip(0)], dim=1)
    edges = torch.cat([first.edge_index, second.edge_index + first.num_nodes, bridge_index], dim=1)
    num_bridges = bridge_index.shape[1]
    attr = None
    if first.edge_attr is not None and second.edge_attr is not None:
        attr = torch.cat([first.edge_attr, second.edge_attr])
        attr = torch.cat([attr, borrow_edge_attr(attr, num_bridges, generator)])
    weight = None
    if first.edge_weight is not None and second.edge_weight is not None:
        ones = first.edge_weight.new_ones(num_bridges)
        weight = torch.cat([first.edge_weight, second.edge_weight, ones])
    graphs = GraphBatch(
        x=torch.cat([first.x, second.x])[origin],
        edge_index=place[edges],
        batch=batch[origin],
        num_graphs=first.num_graphs,
        edge_attr=attr,
        edge_weight=weight,
        anchors=None if first.anchors is None else place[first.anchors],
    )
    other = None if second.anchors is None else place[second.anchors + first.num_nodes]
    return Union(graphs, num_bridges, other)


def draw_partners(ids: Tensor, total: int, generator: torch.Generator) -> Tensor:
    """A random other graph for each of ``ids``; the graph itself if it is the only one."""
    step = torch.randint(1, max(total, 2), ids.shape, generator=generator).to(ids.device)
    return (ids + step) % total


def borrow_edge_attr(attr: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Features for ``count`` edges that no graph has: those of random edges, so they are real."""
    if attr.shape[0] == 0:
        return attr.new_zeros((count, *attr.shape[1:]))
    return attr[torch.randint(attr.shape[0], (count,), generator=generator).to(attr.device)]


def _random_nodes(graphs: GraphBatch, count: int, generator: torch.Generator) -> Tensor:
    """``count`` random nodes of every graph, graph by graph."""
    share = torch.rand(graphs.num_graphs, count, generator=generator).to(graphs.x)
    inside = (share * graphs.sizes.unsqueeze(1)).long()
    inside = torch.minimum(inside, graphs.sizes.unsqueeze(1) - 1)  # a share may round up to 1
    return (inside + graphs.ptr.unsqueeze(1)).flatten()
