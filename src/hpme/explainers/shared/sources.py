"""Where the graphs of an explanation come from: a collection, or ego graphs of one large graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hpme.data.info import Level
from hpme.errors import InputError
from hpme.explainers.shared.context import batches
from hpme.graphs import GraphStore
from hpme.graphs.ego import WholeGraph, link_index, node_index
from hpme.graphs.schema import Schema


@dataclass(frozen=True)
class Collection:
    """Graphs as they were given.

    Args:
        store: The graphs.
        copied: Whether the store is a copy, so that what is shown of it may be the store itself.
    """

    store: GraphStore
    copied: bool = False

    def __len__(self) -> int:
        return len(self.store)

    @property
    def anchors(self) -> Tensor | None:
        """Nodes the graphs are about, if any."""
        return self.store.anchors

    def shown(self, store: GraphStore) -> GraphStore:
        """Graphs as users see them."""
        return store

    def parts(self, numbers: Tensor, batch_size: int) -> Iterator[tuple[Tensor, GraphStore]]:
        """Numbers of a few graphs at a time, and these graphs."""
        for ids in batches(numbers, batch_size):
            everything = self.copied and ids.equal(torch.arange(len(self)))
            yield ids, self.store if everything else self.store.subset(ids)


@dataclass(frozen=True)
class Rooted:
    """Ego graphs of nodes or links, cut out a few at a time.

    Args:
        whole: The graph.
        roots: Target nodes ``[L]``, or both ends of links ``[L, 2]``.
        schema: How the types of ego graphs are numbered; by default as in the graph.
    """

    whole: WholeGraph
    roots: Tensor
    schema: Schema | None = None

    @classmethod
    def of(
        cls,
        graph: Any,
        index: Any,
        level: Level | None,
        *,
        num_hops: int,
        everything: bool = False,
        node_type: str | None = None,
    ) -> Rooted:
        """From a PyG graph, all of its attributes or those usually read, and users' index."""
        whole = WholeGraph.of(graph, num_hops=num_hops, everything=everything)
        if index is None and level == "edge" and whole.schema is None:
            index = graph.get("edge_label_index")
        return cls.at(whole, index, level, node_type)

    @classmethod
    def at(
        cls, whole: WholeGraph, index: Any, level: Level | None, node_type: str | None = None
    ) -> Rooted:
        """From a whole graph, and what users pass as index; with types it numbers one of them."""
        nodes, device = whole.numbers(node_type), whole.x.device
        if (level or index_level(index)) != "edge":
            return cls(whole, nodes[node_index(index, len(nodes), device)])
        if whole.schema is not None:
            raise InputError(
                "links of heterogeneous graphs are not explained; explain nodes, or the links as "
                "graphs of their own"
            )
        return cls(whole, link_index(index, len(nodes), device))

    def __len__(self) -> int:
        return len(self.roots)

    @property
    def anchors(self) -> Tensor:
        """One column for nodes, two for links."""
        return self.roots.view(len(self.roots), -1)

    @property
    def store(self) -> GraphStore:
        """All ego graphs together."""
        return self._known(self.whole.ego_graphs(self.roots).store)

    def _known(self, store: GraphStore) -> GraphStore:
        return store if self.schema is None else store.conformed(self.schema)

    def shown(self, store: GraphStore) -> GraphStore:
        """Ego graphs as users see them."""
        return self.whole.numbered(store)

    def parts(self, numbers: Tensor, batch_size: int) -> Iterator[tuple[Tensor, GraphStore]]:
        """Numbers of a few roots at a time, and their ego graphs."""
        done = 0
        for egos in self.whole.parts(self.roots[numbers], batch_size):
            yield numbers[done : done + len(egos.store)], self._known(egos.store)
            done += len(egos.store)

    def spread(
        self, store: GraphStore, masks: Mapping[str, Tensor], columns: dict[str, Tensor]
    ) -> None:
        """Puts masks of ego graphs where they belong in the whole graph; the highest stays."""
        for name, value in masks.items():
            per_edge = name == "edge_mask"
            place = store.edge["edge_ids"] if per_edge else store.node["node_ids"]
            rows = self.whole.edge_index.shape[1] if per_edge else len(self.whole.x)
            if name not in columns:
                columns[name] = value.new_zeros((rows, *value.shape[1:]))
            place = place.view(-1, *[1] * (value.dim() - 1)).expand_as(value)
            columns[name].scatter_reduce_(0, place, value, "amax")


def index_level(index: Any) -> Level:
    """Whether an index names nodes or links ``[2, L]``."""
    shape = tuple(index.shape) if isinstance(index, Tensor) else ()
    return "edge" if len(shape) == 2 and shape[0] == 2 else "node"
