"""Graphs of one's own in a file: flat tensors with a JSON header, in safetensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from hpme.errors import InputError, StorageError
from hpme.graphs.batch import GraphStore
from hpme.graphs.flat import FlatGraphs
from hpme.storage import read_tensors, write_tensors

KIND, VERSION = "graphs", 1
_FIXED = {"x": "node", "pos": "node", "node_mask": "node", "y": "graph"}


def save_graphs(path: str | Path, graphs: Iterable[Any]) -> None:
    """Writes graphs to one ``.safetensors`` file, with all their attributes.

    An attribute is a tensor with a row per node, per edge or for the whole graph (``y`` of shape
    ``[1]`` or ``[1, C]``), or a text (``name``, ``smiles``); those that begin with ``match_`` have
    any number of rows. All graphs must have the same attributes, among them ``x`` and
    ``edge_index``.

    Args:
        path: The file.
        graphs: A dataset or any other collection of PyG's ``Data``.

    Raises:
        InputError: If the graphs differ in attributes, or one cannot be stored.
    """
    items = list(graphs)
    GraphStore.from_graphs(items)  # says what is wrong with features or edges
    levels: dict[str, dict[str, Any]] = {
        level: {} for level in ("node", "edge", "graph", "match", "text")
    }
    names = [name for name in items[0].keys() if name not in ("edge_index", "num_nodes")]  # noqa: SIM118
    for name in names:
        values = [graph.get(name) for graph in items]
        level = _level(name, values, items)
        levels[level][name] = values if level == "text" else torch.cat(values)
    for number, graph in enumerate(items):
        odd = set(graph.keys()) - {*names, "edge_index", "num_nodes"}
        if odd:
            raise InputError(f"graph {number} has '{min(odd)}', which graph 0 has not")
    rows = [len(graph[min(levels["match"])]) for graph in items] if levels["match"] else None
    flat = FlatGraphs(
        sizes=torch.tensor([graph.num_nodes for graph in items]),
        edge_counts=torch.tensor([graph.num_edges for graph in items]),
        edge_index=torch.cat([graph.edge_index for graph in items], dim=1),
        match_counts=None if rows is None else torch.tensor(rows),
        **levels,
    )
    write_tensors(path, flat.to_tensors(), {"kind": KIND, "version": VERSION, "graphs": len(flat)})


def load_graphs(path: str | Path) -> list[Data]:
    """Reads what :func:`save_graphs` wrote, and checks it.

    Raises:
        StorageError: If the file is missing, damaged or holds something else.
    """
    tensors, meta = read_tensors(path)
    if (meta.get("kind"), meta.get("version")) != (KIND, VERSION):
        raise StorageError(f"'{path}' holds no graphs; write them with hpme.data.save_graphs()")
    try:
        flat = FlatGraphs.from_tensors(tensors)
        _check(flat, meta)
        return _split(flat)
    except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
        raise StorageError(f"'{path}' is damaged: {error}; write it again") from error


def _level(name: str, values: Sequence[Any], graphs: Sequence[Data]) -> str:
    """Where an attribute belongs; the name decides where the number of rows does not."""
    if all(isinstance(value, str) for value in values):
        return "text"
    for number, value in enumerate(values):
        if not isinstance(value, Tensor) or value.dim() == 0:
            found = "none" if value is None else f"a {type(value).__name__} without rows"
            raise InputError(
                f"attribute '{name}' of graph {number} is {found}; every graph needs a text, or a "
                "tensor with a row per node, per edge or for the graph"
            )
    if name.startswith("match_"):
        return "match"
    rows = [len(value) for value in values]
    fitting = [
        level
        for level, counts in (
            ("node", [graph.num_nodes for graph in graphs]),
            ("edge", [graph.num_edges for graph in graphs]),
            ("graph", [1] * len(graphs)),
        )
        if rows == counts
    ]
    named = _FIXED.get(name, "edge" if name.startswith("edge") else "")
    if not fitting:
        raise InputError(
            f"attribute '{name}' has neither a row per node nor per edge, nor one row for the "
            "graph (a vector for the whole graph has shape [1, C]); change or delete it"
        )
    return named if named in fitting else fitting[0]


def _check(flat: FlatGraphs, meta: dict[str, Any]) -> None:
    counts = [flat.sizes, flat.edge_counts, *([flat.match_counts] if flat.match else [])]
    if any(c is None or c.dtype != torch.long or bool((c < 0).any()) for c in counts):
        raise InputError("counts must be whole numbers from 0 on")
    if meta.get("graphs") != len(flat):
        raise InputError(f"it has {len(flat)} graphs, its header says {meta.get('graphs')}")
    GraphStore(flat.node["x"], flat.edge_index, flat.sizes, flat.edge_counts).check()


def _split(flat: FlatGraphs) -> list[Data]:
    """The graphs one by one."""
    slices = {name: pointer.diff().tolist() for name, pointer in flat.slices().items()}
    tensors = {**flat.node, **flat.edge, **flat.graph, **flat.match}
    columns: dict[str, Sequence[Any]] = {
        name: value.split(slices[name])  # type: ignore[no-untyped-call]
        for name, value in tensors.items()
    }
    columns["edge_index"] = flat.edge_index.split(slices["edge_index"], dim=1)  # type: ignore[no-untyped-call]
    columns.update(flat.text)
    return [
        Data(**{name: values[number] for name, values in columns.items()})
        for number in range(len(flat))
    ]
