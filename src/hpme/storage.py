"""Tensors and their description in one file: safetensors with JSON metadata, written atomically."""

from __future__ import annotations

import json
import logging
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from hpme.errors import StorageError

logger = logging.getLogger("hpme")
_META = "hpme"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps other processes from making the same file at the same time.

    The system frees the lock when its holder ends in any way, so that it is never stale. Where
    locks or the folder are not to be had, work goes on without: then a file may be made twice, and
    is still whole.
    """
    lock = FileLock(path.with_name(f".{path.name}.lock"), mode=0o666)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            logger.info("waiting for the process that holds '%s'", lock.lock_file)
            lock.acquire()
    except (OSError, NotImplementedError) as error:
        logger.debug("no lock for '%s': %s", path, error)
    try:
        yield
    finally:
        if lock.is_locked:
            # Whoever waits for a file that is gone makes a new one.
            with suppress(OSError):
                os.unlink(lock.lock_file)
            lock.release()


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
