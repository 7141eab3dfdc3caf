"""Finding data files that are not part of the package, and fetching those that may be fetched."""

from __future__ import annotations

import logging
import os
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hpme.errors import StorageError

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
    """A file published at ``path`` of the repository ``base``, with the digest it must have.

    It is looked for in ``folder`` below ``$HPME_DATA_DIR`` and the cache.
    """

    name: str
    folder: str
    base: str
    path: str
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
