"""Built datasets on disk: a safetensors file, and a JSON file that says what it must contain."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import platformdirs
import safetensors.torch
from safetensors import SafetensorError

from hpme.errors import InputError
from hpme.graphs import GraphStore
from hpme.graphs.tensors import from_tensors, to_tensors
from hpme.storage import locked, read_json, write_atomically

FORMAT_VERSION = 2
"""Part of every key; raise it when a builder or the file format changes."""
CACHE_DIR_VARIABLE = "HPME_CACHE_DIR"

logger = logging.getLogger(__name__)

Request = Mapping[str, str | int]


def default_root() -> Path:
    """``$HPME_CACHE_DIR``, or the platform's cache folder for this package."""
    configured = os.environ.get(CACHE_DIR_VARIABLE)
    return Path(configured) if configured else Path(platformdirs.user_cache_dir("hpme"))


def cached(root: Path, request: Request, build: Callable[[], GraphStore]) -> GraphStore:
    """The graphs of a request, from the cache if they are there and intact, else built and stored.

    A cache that cannot be written is worth a warning, not a failure.
    """
    path = cached_path(root, request)
    request = {**request, "format": FORMAT_VERSION}
    with locked(path):
        stored = _read(path, request)
        if stored is not None:
            return stored
        store = build()
        try:
            _write(path, request, store)
        except OSError as error:
            logger.warning(
                "dataset not cached at '%s' (%s); set %s", path, error, CACHE_DIR_VARIABLE
            )
        return store


def cached_path(root: Path, request: Request) -> Path:
    """Where :func:`cached` keeps the graphs of a request; its name holds a digest of all of it."""
    request = {**request, "format": FORMAT_VERSION}
    digest = hashlib.sha256(json.dumps(dict(request), sort_keys=True).encode()).hexdigest()
    return root / "datasets" / f"{request['name']}-{request['variant']}-{digest[:16]}.safetensors"


def _read(path: Path, request: Request) -> GraphStore | None:
    """``None`` if nothing is stored, or what is stored is damaged."""
    try:
        note = read_json(path.with_suffix(".json").read_bytes())
        payload = path.read_bytes()
        if note == _note(request, payload):
            return from_tensors(safetensors.torch.load(payload))
        logger.warning("cached dataset '%s' is damaged; building it anew", path)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, SafetensorError, KeyError, InputError) as error:
        logger.warning("cached dataset '%s' is unreadable (%s); building it anew", path, error)
    return None


def _write(path: Path, request: Request, store: GraphStore) -> None:
    payload = safetensors.torch.save(to_tensors(store))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, payload)
    note = json.dumps(_note(request, payload), indent=2)
    write_atomically(path.with_suffix(".json"), note.encode())


def _note(request: Request, payload: bytes) -> dict[str, Any]:
    return {"request": dict(request), "sha256": hashlib.sha256(payload).hexdigest()}
