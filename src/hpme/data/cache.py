"""Built datasets on disk, found again by all that decides about them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import platformdirs

from hpme.graphs import GraphStore
from hpme.graphs.tensors import from_tensors, to_tensors
from hpme.storage import CACHE_DIR_VARIABLE, read_or_make, read_tensors, write_tensors

FORMAT_VERSION = 3
"""Part of every key; raise it when a builder or the file format changes."""

Request = Mapping[str, str | int]


def default_root() -> Path:
    """``$HPME_CACHE_DIR``, or the platform's cache folder for this package."""
    configured = os.environ.get(CACHE_DIR_VARIABLE)
    return Path(configured) if configured else Path(platformdirs.user_cache_dir("hpme"))


def cached(root: Path, request: Request, build: Callable[[], GraphStore]) -> GraphStore:
    """The graphs of a request, from the cache if they are intact there, else built and stored."""
    path, meta = cached_path(root, request), {"request": dict(request)}

    def read() -> GraphStore:
        tensors, stored = read_tensors(path)
        if stored != meta:
            raise ValueError("it is of another request")
        # Own memory, as that of what was just built: parts of a file are not aligned.
        return from_tensors({name: tensor.clone() for name, tensor in tensors.items()})

    def write(store: GraphStore) -> None:
        write_tensors(path, to_tensors(store), meta)

    return read_or_make(path, read, build, write, what="dataset", making="building it")


def cached_path(root: Path, request: Request) -> Path:
    """Where :func:`cached` keeps the graphs of a request; its name holds a digest of all of it."""
    content = {**request, "format": FORMAT_VERSION}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return root / "datasets" / f"{request['name']}-{request['variant']}-{digest[:16]}.safetensors"
