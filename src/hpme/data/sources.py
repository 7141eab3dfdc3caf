"""Finding data files that are not part of the package."""

from __future__ import annotations

import os
from pathlib import Path

from hpme.errors import StorageError

DATA_DIR_VARIABLE = "HPME_DATA_DIR"


def find_data_file(folder: str, name: str) -> Path:
    """Path of ``name``, looked for in ``$HPME_DATA_DIR/folder``, then in ``$HPME_DATA_DIR``.

    Raises:
        StorageError: If the file is in neither place; the message says where to put it.
    """
    base = os.environ.get(DATA_DIR_VARIABLE)
    if base:
        for path in (Path(base, folder, name), Path(base, name)):
            if path.is_file():
                return path
    seen = f"it is '{base}'" if base else "it is not set"
    raise StorageError(
        f"'{name}' not found; put the file at ${DATA_DIR_VARIABLE}/{folder}/{name} or "
        f"${DATA_DIR_VARIABLE}/{name} and set the environment variable {DATA_DIR_VARIABLE} to that "
        f"folder ({seen})"
    )
