"""The errors a user of :mod:`hpme` can meet; each message names the cause and the remedy."""

import importlib
from typing import Any


class HPMEError(Exception):
    """Base class of all errors raised on purpose by this package."""


class InputError(HPMEError, ValueError):
    """Graphs, tensors or arguments that cannot be used as they are."""


class ModelError(HPMEError, TypeError):
    """A model that cannot be called, or returns something of the wrong shape."""


class NotFittedError(HPMEError, RuntimeError):
    """An explainer was asked to explain before :meth:`fit` or :meth:`load`."""


class UnknownNameError(HPMEError, KeyError):
    """A dataset, model or explainer name that is not registered."""

    def __init__(self, kind: str, name: str, valid: list[str]) -> None:
        self.kind, self.name, self.valid = kind, name, sorted(valid)
        super().__init__(f"unknown {kind} '{name}'; valid names: {', '.join(self.valid)}")

    def __str__(self) -> str:  # KeyError would show the message's repr
        return str(self.args[0])


class StorageError(HPMEError, OSError):
    """A saved file that is missing, damaged or written by an incompatible version."""


class MissingPackageError(HPMEError, ImportError):
    """An optional package that is needed now and cannot be imported."""


def optional_module(name: str, need: str, extra: str) -> Any:
    """A module of a package that not everybody has, for a ``need``; ``extra`` installs it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingPackageError(
            need.format(error=error) + f"; install it with: pip install 'hpme[{extra}]'"
        ) from error


class ClusterError(HPMEError, RuntimeError):
    """A cluster that cannot be reached."""


_NO_MEMORY = ("enough memory", "out of memory", "allocate memory", "bad_alloc")


def short_of_memory(error: BaseException | None) -> bool:
    """Whether memory ran out; PyTorch has its own words for that, which others wrap."""
    while error is not None:
        told = isinstance(error, RuntimeError | OSError)
        if isinstance(error, MemoryError) or (told and any(t in str(error) for t in _NO_MEMORY)):
            return True
        error = error.__cause__
    return False
