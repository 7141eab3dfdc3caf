"""Pairs of graphs as one, and graphs with edges they do not have, with all their attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from hpme.graphs.batch import GraphBatch
from hpme.graphs.segment import at


def side_by_side(first: GraphBatch, second: GraphBatch) -> tuple[GraphBatch, Tensor]:
    """Each graph of ``first`` and the graph of the same number in ``second`` as one, unconnected.

    Attributes of nodes and edges that both have stay with them; those of graphs, and the anchors,
    are those of ``first``. Edges are those of ``first``, then those of ``second``.

    Returns:
        The graphs, and the new number of every node of ``first``, then of ``second``.
    """
    # A node moves by as many places as graphs of the other batch come before it.
    moved = at(second.ptr, first.batch), at(first.ptr + first.sizes, second.batch)
    place = torch.cat([_numbers(first) + moved[0], _numbers(second) + moved[1]])
    origin = torch.empty_like(place).scatter_(
        0, place, torch.arange(len(place), device=place.device)
    )
    batch = torch.cat([first.batch, second.batch])
    edges = [at(place, first.edge_index), at(place, second.edge_index + first.num_nodes)]
    graphs = GraphBatch(
        x=torch.cat([first.x, second.x]).index_select(0, origin),
        edge_index=torch.cat(edges, dim=1),
        batch=at(batch, origin),
        num_graphs=first.num_graphs,
        edge_attr=_both(first.edge_attr, second.edge_attr),
        edge_weight=_both(first.edge_weight, second.edge_weight),
        anchors=None if first.anchors is None else place[first.anchors],
        node={name: value[origin] for name, value in _common(first.node, second.node).items()},
        edge=_common(first.edge, second.edge),
        graph=first.graph,
    )
    return graphs, place


def with_edges(graphs: GraphBatch, edge_index: Tensor, generator: torch.Generator) -> GraphBatch:
    """The graphs with further edges after their own.

    Their attributes are those of random edges, so that they are real; they weigh 1.
    """
    count, total = edge_index.shape[1], graphs.num_edges
    like: Tensor | None = None
    if total and (graphs.edge_attr is not None or graphs.edge):
        like = torch.randint(total, (count,), generator=generator).to(edge_index.device)

    def longer(value: Tensor) -> Tensor:
        more = value.new_zeros((count, *value.shape[1:])) if like is None else value[like]
        return torch.cat([value, more])

    attr, weight = graphs.edge_attr, graphs.edge_weight
    return replace(
        graphs,
        edge_index=torch.cat([graphs.edge_index, edge_index], dim=1),
        edge_attr=None if attr is None else longer(attr),
        edge_weight=None if weight is None else torch.cat([weight, weight.new_ones(count)]),
        edge={name: longer(value) for name, value in graphs.edge.items()},
        known_pairs=None,
    )


def _numbers(graphs: GraphBatch) -> Tensor:
    return torch.arange(graphs.num_nodes, device=graphs.batch.device)


def _both(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    return None if first is None or second is None else torch.cat([first, second])


def _common(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: torch.cat([first[name], second[name]]) for name in first if name in second}
