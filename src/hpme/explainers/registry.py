"""All explainers by slug. Packages register theirs by an entry point, and this one does the same.

The entry point names a class, or a module that names several; worker processes see it, too::

    [project.entry-points."hpme.explainers"]
    mine = "my_package.my_module:MyExplainer"
"""

from __future__ import annotations

import logging
from collections import UserDict
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from hpme.data.dataset import DEFAULT_POOL_RATIO, GraphDataset
from hpme.errors import InputError, StorageError, UnknownNameError
from hpme.explainers.shared.base import GraphExplainer
from hpme.storage import FileContent, read_tensors

GROUP = "hpme.explainers"
"""Entry point group of explainers."""
OURS = EntryPoint("hpme", "hpme.explainers", GROUP)
"""The module whose imports are the explainers of this package."""
DESCRIPTION = ("slug", "title", "summary")
"""What an explainer says about itself."""
logger = logging.getLogger("hpme")


class Registry(UserDict[str, type[GraphExplainer]]):
    """Explainers by slug; packages, which import this module, are asked for theirs on first use."""

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


def load_explainer(path: str | Path | FileContent) -> GraphExplainer:
    """Reads a saved explainer, whichever it is, from a file or the content of one."""
    name = read_tensors(path)[1].get("explainer")
    if not isinstance(name, str):
        raise StorageError(f"'{path}' holds no explainer; write one with explainer.save()")
    if name not in EXPLAINERS:
        raise StorageError(
            f"'{path}' holds a '{name}' explainer, which is not installed; known: "
            f"{', '.join(EXPLAINERS)}"
        )
    return EXPLAINERS[name].load(path)


def option_names(name: str) -> list[str]:
    """Names of the options an explainer takes, without the seed."""
    return [option for option in explainer_class(name).option_names() if option != "seed"]


def make_explainer(
    name: str, dataset: GraphDataset | None, seed: int, options: Mapping[str, Any] | None = None
) -> tuple[GraphExplainer, str | None]:
    """An unfitted explainer, and where its pool ratio comes from (``None`` if it has none).

    The ratio of explainers that pool nodes is the dataset's
    :attr:`~hpme.data.GraphDataset.pool_ratio` unless ``ratio`` or ``k`` is among the options; it is
    all that any explainer is told about the ground truth. Where there is none, those that can
    choose the ratio without labels do (``"auto"``) and others get a default.
    """
    explainer, options = explainer_class(name), dict(options or {})
    valid = option_names(name)
    unknown = [option for option in options if option not in valid]
    if unknown:
        raise InputError(
            f"'{name}' has no option '{unknown[0]}'; valid options: {', '.join(valid)}"
        )
    source = None
    if "ratio" in valid:
        source = "option"
        if not {"ratio", "k"} & options.keys():
            told = dataset is not None and dataset.has_ground_truth
            source = "ground truth" if told else "default"
            options["ratio"] = DEFAULT_POOL_RATIO if dataset is None else dataset.pool_ratio
            if source == "default" and explainer.chooses_size:
                source = options["ratio"] = "auto"
        elif options.get("ratio") == "auto":
            source = "auto"
    try:
        return explainer(seed=seed, **options), source
    except TypeError as error:  # a comparison of the wrong types, such as 'high' < 1
        raise InputError(f"an option of '{name}' has the wrong type: {error}") from error
