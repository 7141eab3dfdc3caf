"""Chemprop's modules, imported when they are first needed."""

from __future__ import annotations

import importlib
from typing import Any

from hpme.errors import MissingPackageError


def chemprop_module(name: str) -> Any:
    """A module of Chemprop, such as ``"nn"``.

    Raises:
        MissingPackageError: If it cannot be imported, or is of version 1.
    """
    try:
        return importlib.import_module(f"chemprop.{name}")
    except ImportError as error:
        raise MissingPackageError(
            f"this needs Chemprop 2 ({error}); install it with: pip install 'hpme[chemprop]'"
        ) from error
