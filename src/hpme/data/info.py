"""What a dataset is: its description, its builder, and where its files are found or fetched."""

from __future__ import annotations

import logging
import os
import re
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from hpme.errors import InputError, StorageError
from hpme.graphs import GraphStore

DATA_DIR_VARIABLE = "HPME_DATA_DIR"
MIRROR_VARIABLE = "HPME_MIRROR_URL"
TIMEOUT = 30.0
"""Seconds without an answer after which a download is given up."""

logger = logging.getLogger(__name__)


def read_official(name: str, needed: Sequence[str]) -> tuple[Path, dict[str, Any]]:
    """Path and arrays of a file in ``$HPME_DATA_DIR/official``, else in ``$HPME_DATA_DIR``."""
    path = _in_data_dir("official", name)
    if path is None:
        raise StorageError(f"'{name}' not found; {_where_to_put('official', name)}")
    try:
        with np.load(path, allow_pickle=False) as file:
            return path, {key: file[key] for key in {*file, *needed}}
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise StorageError(
            f"'{path}' cannot be read ({error}); replace it by an intact copy with the arrays "
            f"{', '.join(needed[:-1])} and {needed[-1]}"
        ) from error


@dataclass(frozen=True)
class DataFile:
    """A published file."""

    name: str
    folder: str  # where it is looked for, below $HPME_DATA_DIR and the cache
    base: str  # address of the repository
    path: str  # where it is in there
    sha256: str

    @property
    def url(self) -> str:
        """Where it is fetched from; ``$HPME_MIRROR_URL`` stands in for the repository."""
        base = os.environ.get(MIRROR_VARIABLE) or self.base
        return f"{base.rstrip('/')}/{self.path}"

    def locate(self, root: Path, *, progress: bool = True) -> Path:
        """Path of an intact copy: in ``$HPME_DATA_DIR``, else in the cache, else fetched."""
        own = _in_data_dir(self.folder, self.name)
        if own is not None:
            if not self._is_intact(own):
                raise StorageError(
                    f"'{own}' is not the published file (SHA-256 {self.sha256}); replace it by the "
                    f"one at {self.url}, or remove it to have it fetched"
                )
            return own
        return self._fetch(root / "files" / self.folder / self.name, progress)

    def _is_intact(self, path: Path) -> bool:
        import pooch

        try:
            return bool(pooch.file_hash(path) == self.sha256)
        except OSError as error:
            raise StorageError(f"'{path}' cannot be read: {error}") from error

    def _fetch(self, cached: Path, progress: bool) -> Path:
        """The cached file if it is intact, else a new one; a file is there as a whole or not."""
        import pooch  # with its HTTP client, too much for who has the files
        import requests

        if cached.is_file() and not self._is_intact(cached):
            logger.warning("cached file '%s' is damaged; fetching it again", cached)
        if not self.url.startswith(("http://", "https://")):
            raise StorageError(f"'{self.url}' is no web address; correct {MIRROR_VARIABLE}")
        remedy = f"{_where_to_put(self.folder, self.name)}, or at '{cached}'"
        download = pooch.HTTPDownloader(
            progressbar=progress and sys.stderr.isatty(), timeout=TIMEOUT
        )
        try:
            pooch.retrieve(self.url, self.sha256, cached.name, cached.parent, downloader=download)
        except ValueError as error:
            raise StorageError(
                f"what came from {self.url} is not '{self.name}' as published (SHA-256 "
                f"{self.sha256}); get the right file and {remedy}"
            ) from error
        except requests.RequestException as error:
            raise StorageError(
                f"'{self.name}' is not on this machine and cannot be fetched from {self.url}: "
                f"{error}; {remedy}"
            ) from error
        except OSError as error:
            raise StorageError(f"cannot write '{cached}': {error}; set HPME_CACHE_DIR") from error
        return cached


def _in_data_dir(folder: str, name: str) -> Path | None:
    base = os.environ.get(DATA_DIR_VARIABLE)
    places = (Path(base, folder, name), Path(base, name)) if base else ()
    return next((path for path in places if path.is_file()), None)


def _where_to_put(folder: str, name: str) -> str:
    base = os.environ.get(DATA_DIR_VARIABLE)
    now = f"it is '{base}'" if base else "it is not set"
    return (
        f"put the file at ${DATA_DIR_VARIABLE}/{folder}/{name} or ${DATA_DIR_VARIABLE}/{name} and "
        f"set the environment variable {DATA_DIR_VARIABLE} to that folder ({now})"
    )


TaskKind = Literal["classification", "regression"]
DatasetLevel = Literal["graph", "node", "link"]
Level = Literal["graph", "node", "edge"]
Builder = Callable[..., GraphStore]
"""``(variant, seed, size)`` to graphs with ``x``, ``node_mask``, ``edge_mask`` and ``y``; the paths
of the dataset's files follow, if it has any."""

PAPER, PUBLISHED = "paper", "published"


@dataclass(frozen=True)
class GraphStats:
    """Counts of nodes, ground-truth nodes and directed ground-truth edges, and label, per graph."""

    sizes: Tensor
    truth_nodes: Tensor
    truth_edges: Tensor
    y: Tensor


def has_ground_truth(stats: GraphStats) -> Tensor:
    """Graphs with a ground-truth edge; without one no explanation can be right or wrong."""
    return stats.truth_edges > 0


def ground_truth_or_all(stats: GraphStats) -> Tensor:
    """The graphs with ground truth; where none has any, all of them."""
    truth = has_ground_truth(stats)
    return truth if bool(truth.any()) else torch.ones_like(truth)


@dataclass(frozen=True)
class DatasetInfo:
    """One entry of :data:`hpme.data.DATASETS`.

    What has a label is every graph; or every node of a single graph, whose ego graphs are then the
    graphs of the dataset; or pairs of its nodes, as enclosing subgraphs.
    """

    name: str  # that load_dataset takes
    title: str  # as the paper prints it
    task: TaskKind
    num_classes: int | None  # None for regression
    num_graphs: int  # the default size
    description: str
    build: Builder
    variants: tuple[str, ...] = (PAPER, PUBLISHED)  # the default first
    explainable: Callable[[GraphStats], Tensor] = has_ground_truth
    # Variants with a fixed explained set: its positions in the permutation behind the split.
    explained_positions: Mapping[str, tuple[range, ...]] = field(default_factory=dict)
    files: tuple[DataFile, ...] = ()
    rules: Mapping[str, str] = field(default_factory=dict)  # of variants: what the label says
    level: DatasetLevel = "graph"
    own_motif: bool = False  # of nodes: whether the ground truth is the motif of the node alone

    @property
    def own(self) -> bool:
        """Whether a user's own graphs are meant, not a set of the benchmark."""
        return isinstance(self.build, partial) and self.build.func is made_by

    @property
    def model_level(self) -> Level:
        """What a model has an output for; a link is judged by a graph, its subgraph."""
        return "node" if self.level == "node" else "graph"

    @property
    def num_outputs(self) -> int:
        """Number of values a model returns per graph."""
        return self.num_classes or 1


def made_by(function: str, *_: Any) -> GraphStore:
    """In place of the builder of a user's own dataset."""
    raise InputError(f"a dataset of your own is made by {function}, not by its name")


def entry(
    title: str,
    description: str,
    build: Builder,
    *,
    num_classes: int | None = None,
    level: DatasetLevel = "graph",
    **more: Any,
) -> DatasetInfo:
    """An entry whose slug is its title in small letters; without classes it is for regression."""
    return DatasetInfo(
        name=re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or f"{level}s",
        title=title,
        task="regression" if num_classes is None else "classification",
        num_classes=num_classes,
        description=description,
        build=build,
        level=level,
        **more,
    )
