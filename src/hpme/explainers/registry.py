"""All explainers by slug. Packages register theirs by an entry point, and this one does the same.

The entry point names a class, or a module that names several; worker processes see it, too::

    [project.entry-points."hpme.explainers"]
    mine = "my_package.my_module:MyExplainer"
"""

from __future__ import annotations

import logging
from collections import UserDict
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from hpme.errors import StorageError, UnknownNameError
from hpme.explainers.shared.base import GraphExplainer
from hpme.storage import read_tensors

GROUP = "hpme.explainers"
"""Entry point group of explainers."""
OURS = EntryPoint("hpme", "hpme.explainers", GROUP)
"""The module whose imports are the explainers of this package."""
DESCRIPTION = ("slug", "title", "summary")
"""What an explainer says about itself."""
logger = logging.getLogger("hpme")


class Registry(UserDict[str, type[GraphExplainer]]):
    """Explainers by slug; packages are asked for theirs on first use.

    Not when this module is imported: a package that registers an explainer imports this one.
    """

    def __init__(self) -> None:
        self._found: dict[str, type[GraphExplainer]] | None = None

    @property
    def data(self) -> dict[str, type[GraphExplainer]]:  # type: ignore[override]
        """All explainers, ours first."""
        if self._found is None:
            self._found = {}
            for point in (OURS, *entry_points(group=GROUP)):
                _register(point, self._found)
        return self._found


def built_in() -> dict[str, type[GraphExplainer]]:
    """The explainers of this package alone."""
    found: dict[str, type[GraphExplainer]] = {}
    _register(OURS, found)
    return found


def _register(point: EntryPoint, known: dict[str, type[GraphExplainer]]) -> None:
    """Adds the explainers of an entry point to those that are known, in the order of a module."""
    try:
        found = point.load()
    except Exception as error:  # a broken package must not take the others with it
        logger.warning("explainer '%s' (%s) cannot be loaded: %s", point.name, point.value, error)
        return
    named = [one for one in vars(found).values() if hasattr(one, "slug")]
    for kind in named if isinstance(found, ModuleType) else [found]:
        if not (isinstance(kind, type) and issubclass(kind, GraphExplainer)):
            logger.warning("'%s' (%s) is no GraphExplainer; left out", point.name, point.value)
        elif missing := [name for name in DESCRIPTION if not hasattr(kind, name)]:
            logger.warning("%s has no %s; left out", point.value, " and no ".join(missing))
        elif known.setdefault(kind.slug, kind) is not kind:
            logger.warning("'%s' is registered twice; %s is left out", kind.slug, point.value)


EXPLAINERS = Registry()
"""Every known explainer."""


def explainer_class(name: str) -> type[GraphExplainer]:
    """The explainer registered under a slug."""
    if name not in EXPLAINERS:
        raise UnknownNameError("explainer", name, list(EXPLAINERS))
    return EXPLAINERS[name]


def load_explainer(path: str | Path) -> GraphExplainer:
    """Reads a saved explainer, whichever it is.

    Raises:
        StorageError: If the file is missing, damaged, or holds no explainer that is known here.
    """
    name = read_tensors(path)[1].get("explainer")
    if not isinstance(name, str):
        raise StorageError(f"'{path}' holds no explainer; write one with explainer.save()")
    if name not in EXPLAINERS:
        raise StorageError(
            f"'{path}' holds a '{name}' explainer, which is not installed; known: "
            f"{', '.join(EXPLAINERS)}"
        )
    return EXPLAINERS[name].load(path)
