"""Files that are whole and checked, whatever ends the process that writes them.

Tensors with a description (safetensors with JSON metadata), JSON values with their digest, lines
of a file that grows; and files that are made once, by one process at a time.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor

from hpme.errors import InputError, StorageError

CACHE_DIR_VARIABLE = "HPME_CACHE_DIR"
logger = logging.getLogger("hpme")
_META, _DIGEST, _SEAL = "hpme", "digest", "sha256"
_Content = TypeVar("_Content")


@contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Keeps other processes from making the same file at the same time; whether it could.

    The system frees the lock when its holder ends. Where locks are not to be had, work goes on.
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
        yield lock.is_locked
    finally:
        if lock.is_locked:
            # Whoever waits for a file that is gone makes a new one.
            with suppress(OSError):
                os.unlink(lock.lock_file)
            lock.release()


def write_atomically(path: Path, content: bytes) -> None:
    """Writes a whole file or nothing: a kill at any moment leaves the old file or none."""
    _make_room(path)
    # Not from tempfile, whose files only their owner may read.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def append_line(path: Path, line: bytes) -> None:
    """Adds a line to a file, behind a torn one if need be, and returns when it is on the disk."""
    _make_room(path)
    with locked(path), path.open("ab+", buffering=0) as file:
        torn = False
        if file.tell():
            file.seek(-1, os.SEEK_END)
            torn = file.read(1) != b"\n"
        rest = b"\n" * torn + line + b"\n"
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())


def _make_room(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise StorageError(f"'{path}' is a folder; remove it, a file belongs there")


def read_or_make(
    path: Path,
    read: Callable[[], _Content],
    make: Callable[[], _Content],
    write: Callable[[_Content], None],
    *,
    what: str,
    making: str,
) -> _Content:
    """What a file of the cache holds; one that cannot be used is made, by one process at a time."""
    with locked(path):
        if path.exists():
            try:
                return read()
            except (OSError, ValueError, KeyError, TypeError) as error:
                text = "cached %s '%s' cannot be used (%s); %s anew"
                logger.warning(text, what, path, error, making)
        made = make()
        try:
            write(made)
        except OSError as error:
            text = "%s not cached at '%s' (%s); set %s"
            logger.warning(text, what, path, error, CACHE_DIR_VARIABLE)
        return made


def canonical_json(content: Any) -> bytes:
    """The same bytes for the same content, whatever the order of keys."""
    text = json.dumps(content, sort_keys=True, indent=1, allow_nan=False)
    return text.encode() + b"\n"


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """JSON values with a digest of all of them."""
    return {**content, _SEAL: hashlib.sha256(canonical_json(content)).hexdigest()}


def unsealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """The values that :func:`sealed` was given; refused if they were changed since."""
    values = {name: value for name, value in content.items() if name != _SEAL}
    if sealed(values) != content:
        raise InputError(f"its content does not fit its {_SEAL}")
    return values


def json_values(value: Any) -> Any:
    """Plain JSON values; a number that is not finite becomes ``None``."""
    if isinstance(value, Mapping):
        return {str(key): json_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_values(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


def read_json(text: str | bytes) -> Any:
    """What JSON text holds; what is nested too deeply is no JSON that we write."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def write_tensors(path: str | Path, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
    """Saves tensors with a JSON description, and a digest of both, in the header of one file."""
    copies = {  # safetensors refuses tensors that share memory
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    described = {**meta, _DIGEST: _digest(sorted(copies.items()), meta)}
    # One entry: safetensors writes several in any order.
    content = save(copies, metadata={_META: json.dumps(described, sort_keys=True)})
    write_atomically(Path(path), content)


@dataclass(frozen=True)
class FileContent:
    """What a file holds, to be read where the file is not."""

    name: str  # for messages
    content: bytes

    def __str__(self) -> str:
        return self.name


def read_tensors(
    path: str | Path | FileContent, *, undigested: bool = False
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Loads what :func:`write_tensors` saved."""
    if isinstance(path, FileContent):
        with _checked(path):
            size = int.from_bytes(path.content[:8], "little")
            tensors, header = load(path.content), read_json(path.content[8 : 8 + size])
            meta = _description(header.get("__metadata__"))
    else:
        with open_tensors(path) as (file, meta):
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if checked_digest(path, sorted(tensors.items()), meta) is None and not undigested:
        raise StorageError(
            f"'{path}' has no digest: it is damaged, or of an older version of hpme; save it again"
        )
    return tensors, meta


def checked_digest(
    path: str | Path | FileContent, tensors: Iterable[tuple[str, Tensor]], meta: dict[str, Any]
) -> str | None:
    """Takes the digest, if there is one, out of a description; refuses tensors it does not fit."""
    digest: str | None = meta.pop(_DIGEST, None)
    if digest is not None and digest != _digest(tensors, meta):
        raise StorageError(f"'{path}' is damaged: its content does not fit its digest")
    return digest


@contextmanager
def open_tensors(path: str | Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """What :func:`write_tensors` saved, to read parts of it: a safetensors file, and its meta."""
    path = Path(path)
    if not path.is_file():
        raise StorageError(f"no file '{path}'; check the path, or save again")
    with _checked(path), safe_open(path, framework="pt") as file:
        yield file, _description(file.metadata())


@contextmanager
def _checked(source: Path | FileContent) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise StorageError(f"'{source}' is damaged or was not written by hpme: {error}") from error


def _description(metadata: Mapping[str, str] | None) -> dict[str, Any]:
    text = (metadata or {})[_META]
    meta = read_json(text)
    if not isinstance(meta, dict):
        raise ValueError("its description is no JSON object")
    if text != json.dumps(meta, sort_keys=True):
        raise ValueError("its description is spelled in another way")
    return meta


def _digest(tensors: Iterable[tuple[str, Tensor]], meta: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
    for name, tensor in tensors:
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
