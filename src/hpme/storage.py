"""Tensors and their description in one file: safetensors with JSON metadata, written atomically."""

from __future__ import annotations

import json
import logging
import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from hpme.errors import StorageError

if sys.platform != "win32":
    import fcntl

logger = logging.getLogger("hpme")
_META = "hpme"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps other processes from making the same file at the same time.

    The system frees the lock when its holder ends in any way, so that it is never stale. Where
    locks or the folder are not to be had, work goes on without: then a file may be made twice, and
    is still whole.
    """
    lock, handle = path.with_name(f".{path.name}.lock"), None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = _acquire(lock)
    except OSError as error:
        logger.debug("no lock for '%s': %s", path, error)
    try:
        yield
    finally:
        if handle is not None:
            lock.unlink(missing_ok=True)
            os.close(handle)


def _acquire(lock: Path) -> int | None:
    """Opens and locks a file; ``None`` where that is not possible."""
    if sys.platform == "win32":
        return None
    while True:
        handle = os.open(lock, os.O_CREAT | os.O_RDWR, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("waiting for the process that holds '%s'", lock)
            fcntl.flock(handle, fcntl.LOCK_EX)
        # Whoever held it before has removed the file, and others may have made a new one.
        try:
            current = os.path.samestat(lock.stat(), os.fstat(handle))
        except FileNotFoundError:
            current = False
        if current:
            return handle
        os.close(handle)


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a whole file or nothing: a kill at any moment leaves the old file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not from tempfile, whose files only their owner may read.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_tensors(path: str | Path, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
    """Saves tensors with a JSON description in the header of the same file."""
    copies = {  # safetensors refuses tensors that share memory
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    content = save(copies, metadata={_META: json.dumps(meta, sort_keys=True)})
    write_atomically(Path(path), content)


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Loads what :func:`write_tensors` saved.

    Raises:
        StorageError: If the file is missing, damaged or of another kind.
    """
    path = Path(path)
    if not path.is_file():
        raise StorageError(f"no file '{path}'; check the path, or save again")
    try:
        with safe_open(path, framework="pt") as file:
            meta = json.loads((file.metadata() or {})[_META])
            if not isinstance(meta, dict):
                raise ValueError("its description is no JSON object")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise StorageError(f"'{path}' is damaged or was not written by hpme: {error}") from error
    return tensors, meta
