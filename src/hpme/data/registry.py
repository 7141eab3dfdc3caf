"""All datasets by name, and the one function that loads them."""

from __future__ import annotations

from pathlib import Path

from hpme.data import ba, ba_cycles, molecules, spmotif, triangles
from hpme.data.cache import cached, default_root
from hpme.data.dataset import GraphDataset
from hpme.data.flat import FlatGraphs
from hpme.data.info import DatasetInfo
from hpme.errors import InputError, UnknownNameError

DATASETS: dict[str, DatasetInfo] = {
    info.name: info
    for family in (ba_cycles, ba, spmotif, triangles, molecules)
    for info in family.INFOS
}
"""Every known dataset; a new entry can be loaded like the others."""


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
    folder = default_root() if root is None else Path(root)

    def build() -> FlatGraphs:
        paths = [file.locate(folder, progress=progress) for file in info.files]
        return info.build(variant, seed, size, *paths)

    flat = cached(folder, {"name": name, "variant": variant, "seed": seed, "size": size}, build)
    return GraphDataset(flat, info, variant, seed)
