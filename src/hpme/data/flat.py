"""A whole dataset as flat tensors: what builders return, the cache stores and datasets hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from hpme.data.segment import exclusive_cumsum
from hpme.errors import InputError

_LEVELS = ("node", "edge", "graph")


@dataclass(frozen=True)
class FlatGraphs:
    r"""All graphs of a dataset, attributes laid end to end.

    Args:
        sizes: Number of nodes of every graph.
        edge_counts: Number of directed edges of every graph.
        edge_index: Edges :math:`[2, E]`, numbered from each graph's first node.
        node: Attributes with one row per node, by name (``x``, ``node_mask``, ...).
        edge: Attributes with one row per directed edge (``edge_mask``, ``edge_attr``, ...).
        graph: Attributes with one row per graph (``y``, ...).
    """

    sizes: Tensor
    edge_counts: Tensor
    edge_index: Tensor
    node: Mapping[str, Tensor] = field(default_factory=dict)
    edge: Mapping[str, Tensor] = field(default_factory=dict)
    graph: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows = {"node": int(self.sizes.sum()), "edge": int(self.edge_counts.sum())}
        rows["graph"] = self.sizes.numel()
        if self.edge_counts.numel() != rows["graph"]:
            raise InputError("sizes and edge_counts disagree on the number of graphs")
        if tuple(self.edge_index.shape) != (2, rows["edge"]):
            raise InputError(
                f"edge_index has shape {tuple(self.edge_index.shape)}, expected (2, {rows['edge']})"
            )
        for level in _LEVELS:
            for name, value in getattr(self, level).items():
                if value.shape[0] != rows[level]:
                    raise InputError(
                        f"{level} attribute '{name}' has {value.shape[0]} rows, "
                        f"expected {rows[level]}"
                    )

    def __len__(self) -> int:
        return self.sizes.numel()

    def slices(self) -> dict[str, Tensor]:
        """Start positions per attribute, as PyG's in-memory datasets keep them."""
        counts = {"node": self.sizes, "edge": self.edge_counts}
        counts["graph"] = torch.ones_like(self.sizes)
        pointers = {level: _pointer(count) for level, count in counts.items()}
        slices = {"edge_index": pointers["edge"]}
        for level in _LEVELS:
            slices.update(dict.fromkeys(getattr(self, level), pointers[level]))
        return slices

    def with_attributes(self, *, x: Tensor, y: Tensor) -> FlatGraphs:
        """The same graphs with node features and labels."""
        return replace(self, node={**self.node, "x": x}, graph={**self.graph, "y": y})

    def shuffled(self, rng: np.random.Generator) -> FlatGraphs:
        """Renumbers the nodes of every graph at random and sorts its edges.

        Generators put motif nodes last and motif edges in a row; after this neither the number of
        a node nor the position of an edge says anything about it.
        """
        graph = torch.repeat_interleave(self.sizes)
        start = exclusive_cumsum(self.sizes)
        order = torch.from_numpy(np.lexsort((rng.random(graph.numel()), graph.numpy())))
        new_number = torch.empty_like(order)
        new_number[order] = torch.arange(order.numel()) - start[graph]
        offset = start[torch.repeat_interleave(self.edge_counts)]
        edge_index = new_number[self.edge_index + offset]
        widest = int(self.sizes.max()) if len(self) else 0
        edge_order = torch.argsort((edge_index[0] + offset) * widest + edge_index[1], stable=True)
        return replace(
            self,
            edge_index=edge_index[:, edge_order],
            node={name: value[order] for name, value in self.node.items()},
            edge={name: value[edge_order] for name, value in self.edge.items()},
        )

    def to_tensors(self) -> dict[str, Tensor]:
        """One flat mapping, for storage; the inverse is :meth:`from_tensors`."""
        tensors = {
            "sizes": self.sizes,
            "edge_counts": self.edge_counts,
            "edge_index": self.edge_index,
        }
        for level in _LEVELS:
            tensors.update({f"{level}.{key}": val for key, val in getattr(self, level).items()})
        return {key: value.contiguous() for key, value in tensors.items()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> FlatGraphs:
        """Rebuilds the graphs from what :meth:`to_tensors` gave."""
        levels: dict[str, dict[str, Tensor]] = {level: {} for level in _LEVELS}
        for key, value in tensors.items():
            level, dot, name = key.partition(".")
            if dot:
                levels[level][name] = value
        return cls(
            sizes=tensors["sizes"],
            edge_counts=tensors["edge_counts"],
            edge_index=tensors["edge_index"],
            **levels,
        )


def _pointer(counts: Tensor) -> Tensor:
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])
