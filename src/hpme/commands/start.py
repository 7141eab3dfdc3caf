"""What makes commands start sooner: modules that others import and no command needs are left out.

PyG imports PyTorch's compiler and all of its datasets, which takes longer than PyTorch itself.
Inside commands something stands in their place that imports them as soon as they are asked for
anything; where this package is imported, nothing does.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

UNUSED = ("torch._dynamo", "torch_geometric.datasets")
_IMPORTING = ("__path__", "__all__")
"""Of names with underscores those by which parts of a module are imported."""


class Deferred(ModuleType):
    """Stands in place of a module until it is asked for something."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in _IMPORTING:
            raise AttributeError(name)  # whoever looks through all modules needs none of them
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def defer(*names: str) -> None:
    """Puts off the import of modules until they are used; those that are there stay."""
    for name in names:
        sys.modules.setdefault(name, Deferred(name))
