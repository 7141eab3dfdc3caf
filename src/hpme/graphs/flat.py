"""A whole dataset as flat tensors: what builders return, the cache stores and datasets hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from hpme.errors import InputError
from hpme.graphs.segment import concatenated_ranges, exclusive_cumsum

_LEVELS = ("node", "edge", "graph", "match")
MATCH_NODE = "match_index"
"""The node of every row of the match table; PyG renumbers ``*index`` when it makes batches."""


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
        match_counts: Number of rows of every graph in the match table; by default none.
        match: The match table, one row per node of a match: ``match_index`` is the node,
            ``match_id`` numbers the matches of a graph, ``match_rule`` says what was matched.
        text: Attributes with one text per graph (``smiles``, ...).
    """

    sizes: Tensor
    edge_counts: Tensor
    edge_index: Tensor
    node: Mapping[str, Tensor] = field(default_factory=dict)
    edge: Mapping[str, Tensor] = field(default_factory=dict)
    graph: Mapping[str, Tensor] = field(default_factory=dict)
    match_counts: Tensor | None = None
    match: Mapping[str, Tensor] = field(default_factory=dict)
    text: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        counts = self._counts()
        rows = {level: int(count.sum()) for level, count in counts.items()}
        if any(count.numel() != len(self) for count in counts.values()):
            raise InputError("the counts per graph disagree on the number of graphs")
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

        for name, texts in self.text.items():
            if len(texts) != len(self):
                raise InputError(f"'{name}' has {len(texts)} texts, expected {len(self)}")

    def __len__(self) -> int:
        return self.sizes.numel()

    def _counts(self) -> dict[str, Tensor]:
        """Rows of every graph, by level."""
        match = torch.zeros_like(self.sizes) if self.match_counts is None else self.match_counts
        graph = torch.ones_like(self.sizes)
        return {"node": self.sizes, "edge": self.edge_counts, "graph": graph, "match": match}

    def slices(self) -> dict[str, Tensor]:
        """Start positions per attribute, as PyG's in-memory datasets keep them."""
        pointers = {level: _pointer(count) for level, count in self._counts().items()}
        slices = {"edge_index": pointers["edge"], **dict.fromkeys(self.text, pointers["graph"])}
        for level in _LEVELS:
            slices.update(dict.fromkeys(getattr(self, level), pointers[level]))
        return slices

    def with_attributes(self, *, x: Tensor, y: Tensor) -> FlatGraphs:
        """The same graphs with node features and labels."""
        return replace(self, node={**self.node, "x": x}, graph={**self.graph, "y": y})

    def subset(self, ids: Tensor) -> FlatGraphs:
        """The graphs with the given numbers, in that order."""
        counts = self._counts()
        rows = {
            level: concatenated_ranges(exclusive_cumsum(count)[ids], count[ids])[0]
            for level, count in counts.items()
        }
        return FlatGraphs(
            sizes=self.sizes[ids],
            edge_counts=self.edge_counts[ids],
            edge_index=self.edge_index[:, rows["edge"]],
            match_counts=counts["match"][ids],
            text={name: [texts[i] for i in ids.tolist()] for name, texts in self.text.items()},
            **{
                level: {name: value[rows[level]] for name, value in getattr(self, level).items()}
                for level in _LEVELS
            },
        )

    @classmethod
    def concatenate(cls, parts: Sequence[FlatGraphs]) -> FlatGraphs:
        """The graphs of several collections with the same attributes, in a row."""
        tensors = [part.to_tensors() for part in parts]
        along = {"edge_index": 1}
        return cls.from_tensors(
            {
                key: torch.cat([tensor[key] for tensor in tensors], dim=along.get(key, 0))
                for key in tensors[0]
            }
        )

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
        match = dict(self.match)
        if MATCH_NODE in match:
            owner = torch.repeat_interleave(self._counts()["match"])
            match[MATCH_NODE] = new_number[match[MATCH_NODE] + start[owner]]
        return replace(
            self,
            match=match,
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
        if self.match_counts is not None:
            tensors["match_counts"] = self.match_counts
        for key, texts in self.text.items():
            encoded = [text.encode() for text in texts]
            letters = np.frombuffer(b"".join(encoded), dtype=np.uint8).copy()
            tensors[f"letters.{key}"] = torch.from_numpy(letters)
            tensors[f"lengths.{key}"] = torch.tensor([len(t) for t in encoded], dtype=torch.long)
        return {key: value.contiguous() for key, value in tensors.items()}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> FlatGraphs:
        """Rebuilds the graphs from what :meth:`to_tensors` gave."""
        levels: dict[str, dict[str, Tensor]] = {
            level: {} for level in (*_LEVELS, "letters", "lengths")
        }
        for key, value in tensors.items():
            level, dot, name = key.partition(".")
            if dot:
                levels[level][name] = value
        letters, lengths = levels.pop("letters"), levels.pop("lengths")
        return cls(
            text={key: _texts(value, lengths[key]) for key, value in letters.items()},
            match_counts=tensors.get("match_counts"),
            sizes=tensors["sizes"],
            edge_counts=tensors["edge_counts"],
            edge_index=tensors["edge_index"],
            **levels,
        )


def _pointer(counts: Tensor) -> Tensor:
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def _texts(letters: Tensor, lengths: Tensor) -> list[str]:
    content, ends = letters.numpy().tobytes(), lengths.cumsum(0).tolist()
    starts = [0, *ends[:-1]]
    return [content[a:b].decode() for a, b in zip(starts, ends, strict=True)]
