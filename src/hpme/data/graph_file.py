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
from hpme.graphs.transforms import from_tensors, to_tensors
from hpme.storage import checked_digest, open_tensors, write_tensors

KIND, VERSION = "graphs", 1
_COUNTS = ("sizes", "edge_counts", "match_counts")


def save_graphs(path: str | Path, graphs: Iterable[Any]) -> None:
    """Writes graphs to one ``.safetensors`` file, with all their attributes.

    An attribute is a tensor with a row per node, per edge or for the whole graph (``y`` of shape
    ``[1]`` or ``[1, C]``), or a text (``name``, ``smiles``); those that begin with ``match_`` have
    any number of rows. All graphs must have the same attributes, among them ``x`` and
    ``edge_index``. They are a dataset or any other collection of PyG's ``Data``.

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
    slices = GraphSlices(path)
    try:
        store = from_tensors(slices.read(0, len(slices)))
        store.check()
        return store.to_data_list()
    except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
        raise StorageError(f"'{path}' is damaged: {error}; write it again") from error


class GraphSlices:
    """Graphs of a file, some at a time; that they are as they were written is checked."""

    def __init__(self, path: str | Path) -> None:
        self.path = path
        with open_tensors(path) as (file, meta):
            if (meta.get("kind"), meta.get("version")) != (KIND, VERSION):
                raise StorageError(
                    f"'{path}' holds no graphs; write them with hpme.data.save_graphs()"
                )
            self._names = sorted(file.keys())
            every = ((name, file.get_tensor(name)) for name in self._names)
            self.digest = checked_digest(path, every, meta)
            counts = (n for n in self._names if n in _COUNTS or n.startswith("lengths."))
            found = {name: file.get_tensor(name) for name in counts}
            shapes = {name: file.get_slice(name).get_shape() for name in self._names}
        try:
            self._total = found["sizes"].numel()
            if any(c.dtype != torch.long or bool((c < 0).any()) for c in found.values()):
                raise InputError("counts must be whole numbers from 0 on")
            if meta.get("graphs") != self._total:
                raise InputError(f"it has {self._total} graphs, its header says {meta['graphs']}")
            self._ends = {name: value.cumsum(0) for name, value in found.items()}
            for name, shape in shapes.items():
                if name != "schema" and shape[name == "edge_index"] != self._end(name, self._total):
                    raise InputError(f"'{name}' does not fit the sizes of its graphs")
        except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
            raise StorageError(f"'{path}' is damaged: {error}; write it again") from error

    def __len__(self) -> int:
        return int(self._total)

    def read(self, first: int, last: int) -> dict[str, Tensor]:
        """The graphs from ``first`` to before ``last``, as :func:`to_tensors` gives them."""
        with open_tensors(self.path) as (file, _):  # anew: what was mapped before is let go
            return {name: self._rows(file, name, first, last) for name in self._names}

    def _rows(self, file: Any, name: str, first: int, last: int) -> Tensor:
        if name == "schema":
            return file.get_tensor(name)  # type: ignore[no-any-return]
        first, last = self._end(name, first), self._end(name, last)
        part = file.get_slice(name)
        rows: Tensor = part[:, first:last] if name == "edge_index" else part[first:last]
        return rows

    def _end(self, name: str, graphs: int) -> int:
        """Rows of a tensor that belong to the first ``graphs``."""
        group, _, key = name.partition(".")
        counts = {"node": "sizes", "edge": "edge_counts", "edge_index": "edge_counts",
                  "match": "match_counts", "letters": f"lengths.{key}"}.get(group)  # fmt: skip
        return graphs if counts is None or not graphs else int(self._ends[counts][graphs - 1])
