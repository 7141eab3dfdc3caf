"""All datasets by name, and the one function that loads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hpme.data import links
from hpme.data.cache import cached, cached_path, default_root
from hpme.data.dataset import GraphDataset
from hpme.data.info import DatasetInfo, DatasetLevel
from hpme.data.links import LinkDataset
from hpme.data.molecules import datasets as molecules
from hpme.data.nodes import NodeDataset
from hpme.data.synthetic import ba, hetero, nodes, spmotif, triangles
from hpme.errors import InputError, UnknownNameError
from hpme.graphs import GraphStore
from hpme.limits import MAX_SEED, MAX_SIZE

DATASETS: dict[str, DatasetInfo] = {
    info.name: info
    for family in (ba, spmotif, triangles, molecules, nodes, links, hetero)
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
        progress: Whether to draw a progress bar while files are fetched (on terminals only).

    Raises:
        UnknownNameError: If there is no such dataset.
        InputError: If the variant, seed or size is invalid.
        StorageError: If a file the dataset is built from is missing and cannot be fetched.
    """
    info, request = _resolve(name, variant, seed, size)
    folder = default_root() if root is None else Path(root)

    def build() -> GraphStore:
        paths = [file.locate(folder, progress=progress) for file in info.files]
        return info.build(request["variant"], seed, request["size"], *paths)

    return KINDS[info.level](cached(folder, request, build), info, request["variant"], seed)


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
