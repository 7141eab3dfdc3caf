"""All datasets by name, the one function that loads them, and the cache it reads them from."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import platformdirs

from hpme.data import links
from hpme.data.dataset import GraphDataset
from hpme.data.info import DatasetInfo, DatasetLevel
from hpme.data.links import LinkDataset
from hpme.data.molecules import datasets as molecules
from hpme.data.nodes import NodeDataset
from hpme.data.synthetic import ba, hetero, nodes, others
from hpme.errors import InputError, UnknownNameError
from hpme.graphs import GraphStore
from hpme.graphs.transforms import from_tensors, to_tensors
from hpme.limits import MAX_SEED, MAX_SIZE
from hpme.storage import CACHE_DIR_VARIABLE, read_or_make, read_tensors, write_tensors

DATASETS: dict[str, DatasetInfo] = {
    info.name: info
    for family in (ba, others, molecules, nodes, links, hetero)
    for info in family.INFOS
}
"""Every known dataset; a new entry can be loaded like the others."""
KINDS: dict[DatasetLevel, type[GraphDataset]] = {
    "graph": GraphDataset,
    "node": NodeDataset,
    "link": LinkDataset,
}


def load_dataset(
    name: str,
    *,
    variant: str | None = None,
    seed: int = 0,
    root: str | Path | None = None,
    size: int | None = None,
    progress: bool = True,
) -> GraphDataset:
    """Builds a dataset, or reads it from the cache.

    Args:
        name: A key of :data:`DATASETS`.
        variant: ``"paper"``, as the paper states it, or ``"published"``, as released files or code
            have it, or another of the dataset's variants; by default the first of them.
        seed: Seed of the graphs (of the node order only, where the published data are fixed).
        root: Cache folder; by default ``$HPME_CACHE_DIR`` or the platform's cache folder.
        size: Number of graphs; by default the documented one.

    Raises:
        UnknownNameError: If there is no such dataset.
        InputError: If the variant, seed or size is invalid.
        StorageError: If a file the dataset is built from is missing and cannot be fetched.
    """
    info, request = _resolve(name, variant, seed, size)
    folder = default_root() if root is None else Path(root)
    path, meta = cached_path(folder, request), {"request": request}

    def read() -> GraphStore:
        tensors, stored = read_tensors(path)
        if stored != meta:
            raise ValueError("it is of another request")
        # Own memory, as that of what was just built: parts of a file are not aligned.
        return from_tensors({name: tensor.clone() for name, tensor in tensors.items()})

    def build() -> GraphStore:
        paths = [file.locate(folder, progress=progress) for file in info.files]
        return info.build(request["variant"], seed, request["size"], *paths)

    def write(store: GraphStore) -> None:
        write_tensors(path, to_tensors(store), meta)

    store = read_or_make(path, read, build, write, what="dataset", making="building it")
    return KINDS[info.level](store, info, request["variant"], seed)


def dataset_path(name: str, *, variant: str | None = None, size: int | None = None) -> Path:
    """Where :func:`load_dataset` keeps a dataset of seed 0; arguments as there."""
    return cached_path(default_root(), _resolve(name, variant, 0, size)[1])


def _resolve(
    name: str, variant: str | None, seed: int, size: int | None
) -> tuple[DatasetInfo, dict[str, Any]]:
    """Checks arguments and fills in defaults."""
    info = DATASETS.get(name)
    if info is None:
        raise UnknownNameError("dataset", name, list(DATASETS))
    variant = info.variants[0] if variant is None else variant
    if variant not in info.variants:
        raise InputError(
            f"'{name}' has no variant '{variant}'; valid variants: {', '.join(info.variants)}"
        )
    size = info.num_graphs if size is None else size
    if seed < 0 or size < 1:
        raise InputError(f"seed must be at least 0 and size at least 1, got {seed} and {size}")
    if size > MAX_SIZE or seed > MAX_SEED:
        raise InputError(
            f"size must be at most {MAX_SIZE:,} and seed at most {MAX_SEED}, got {size} and {seed}"
        )
    return info, {"name": name, "variant": variant, "seed": seed, "size": size}


FORMAT_VERSION = 3
"""Part of every key; raise it when a builder or the file format changes."""


def default_root() -> Path:
    """``$HPME_CACHE_DIR``, or the platform's cache folder for this package."""
    configured = os.environ.get(CACHE_DIR_VARIABLE)
    return Path(configured) if configured else Path(platformdirs.user_cache_dir("hpme"))


def cached_path(root: Path, request: Mapping[str, str | int]) -> Path:
    """Where the graphs of a request are kept; the name holds a digest of all of it."""
    content = {**request, "format": FORMAT_VERSION}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return root / "datasets" / f"{request['name']}-{request['variant']}-{digest[:16]}.safetensors"
