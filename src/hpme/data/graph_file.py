"""Graphs of one's own in a file: flat tensors with a JSON header, in safetensors."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from hpme.errors import InputError, StorageError
from hpme.graphs import GraphStore
from hpme.graphs.tensors import from_tensors, to_tensors
from hpme.storage import open_tensors, read_tensors, write_tensors

KIND, VERSION = "graphs", 1
_COUNTS = ("sizes", "edge_counts", "match_counts")


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
    store = GraphStore.from_graphs(graphs, attributes="all")
    header = {"kind": KIND, "version": VERSION, "graphs": len(store)}
    write_tensors(path, to_tensors(store), header)


def load_graphs(path: str | Path) -> list[Data]:
    """Reads what :func:`save_graphs` wrote, and checks it.

    Raises:
        StorageError: If the file is missing, damaged or holds something else.
    """
    tensors, meta = read_tensors(path, undigested=True)
    _check_kind(path, meta)
    try:
        store = from_tensors(tensors)
        _check(store, meta)
        return store.to_data_list()
    except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
        raise StorageError(f"'{path}' is damaged: {error}; write it again") from error


class GraphSlices:
    """Graphs of a file, some at a time; they are not checked.

    Args:
        path: What :func:`save_graphs` wrote.

    Raises:
        StorageError: If it is something else.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = path
        with open_tensors(path) as (file, meta):
            _check_kind(path, meta)
            names = list(file.keys())
            counts = {name: file.get_tensor(name) for name in names if name in _COUNTS}
            texts = [name for name in names if name.startswith("lengths.")]
            lengths = {name: file.get_tensor(name) for name in texts}
        if "sizes" not in counts or "edge_counts" not in counts:
            raise StorageError(f"'{path}' is damaged: it does not say how large its graphs are")
        self._names = names
        self._ends = {name: value.cumsum(0) for name, value in (counts | lengths).items()}
        self._total = counts["sizes"].numel()

    def __len__(self) -> int:
        return int(self._total)

    def read(self, first: int, last: int) -> dict[str, Tensor]:
        """The graphs from ``first`` to before ``last``, as :func:`to_tensors` gives them."""
        with open_tensors(self.path) as (file, _):  # anew: what was mapped before is let go
            return {name: self._rows(file, name, first, last) for name in self._names}

    def _rows(self, file: Any, name: str, first: int, last: int) -> Tensor:
        group, _, key = name.partition(".")
        counts = {"node": "sizes", "edge": "edge_counts", "edge_index": "edge_counts",
                  "match": "match_counts", "letters": f"lengths.{key}"}.get(group)  # fmt: skip
        if counts is not None:
            ends = self._ends[counts]
            first, last = (0 if place == 0 else int(ends[place - 1]) for place in (first, last))
        part = file.get_slice(name)
        rows: Tensor = part[:, first:last] if name == "edge_index" else part[first:last]
        return rows


def _check_kind(path: str | Path, meta: dict[str, Any]) -> None:
    if (meta.get("kind"), meta.get("version")) != (KIND, VERSION):
        raise StorageError(f"'{path}' holds no graphs; write them with hpme.data.save_graphs()")


def _check(store: GraphStore, meta: dict[str, Any]) -> None:
    counts = [store.sizes, store.edge_counts, *([store.match_counts] if store.match else [])]
    if any(c is None or c.dtype != torch.long or bool((c < 0).any()) for c in counts):
        raise InputError("counts must be whole numbers from 0 on")
    if meta.get("graphs") != len(store):
        raise InputError(f"it has {len(store)} graphs, its header says {meta.get('graphs')}")
    store.check()
