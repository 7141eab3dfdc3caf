"""A store as one flat mapping of tensors, for files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from hpme.graphs.schema import Schema
from hpme.graphs.store import GROUPS, GraphStore


def to_tensors(store: GraphStore) -> dict[str, Tensor]:
    """One flat mapping, for storage; the inverse is :func:`from_tensors`."""
    tensors = {
        "sizes": store.sizes,
        "edge_counts": store.edge_counts,
        "edge_index": store.local_edge_index,
    }
    for group in GROUPS:
        tensors.update({f"{group}.{key}": value for key, value in getattr(store, group).items()})
    if store.match_counts is not None:
        tensors["match_counts"] = store.match_counts
    for key, texts in store.text.items():
        tensors[f"letters.{key}"], tensors[f"lengths.{key}"] = _pack(texts)
    if store.schema is not None:
        tensors["schema"] = _pack([store.schema.to_text()])[0]
    return {key: value.contiguous() for key, value in tensors.items()}


def from_tensors(tensors: Mapping[str, Tensor]) -> GraphStore:
    """Rebuilds the graphs from what :func:`to_tensors` gave."""
    groups: dict[str, dict[str, Tensor]] = {group: {} for group in (*GROUPS, "letters", "lengths")}
    for key, value in tensors.items():
        group, dot, name = key.partition(".")
        if dot:
            groups[group][name] = value
    anchors = groups["graph"].get("anchors")
    if anchors is not None:  # older files have a row of them if they are one per graph
        groups["graph"]["anchors"] = anchors.view(tensors["sizes"].numel(), -1)
    letters, lengths = groups.pop("letters"), groups.pop("lengths")
    schema = tensors.get("schema")
    return GraphStore(
        schema=None if schema is None else Schema.from_text(bytes(schema.tolist()).decode()),
        text={key: _unpack(value, lengths[key]) for key, value in letters.items()},
        match_counts=tensors.get("match_counts"),
        sizes=tensors["sizes"],
        edge_counts=tensors["edge_counts"],
        local_edge_index=tensors["edge_index"],
        **{group: groups[group] for group in GROUPS},  # type: ignore[arg-type]
    )


def _pack(texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    encoded = [text.encode() for text in texts]
    letters = np.frombuffer(b"".join(encoded), dtype=np.uint8).copy()
    return torch.from_numpy(letters), torch.tensor([len(t) for t in encoded], dtype=torch.long)


def _unpack(letters: Tensor, lengths: Tensor) -> list[str]:
    content, ends = letters.numpy().tobytes(), lengths.cumsum(0).tolist()
    starts = [0, *ends[:-1]]
    return [content[a:b].decode() for a, b in zip(starts, ends, strict=True)]
