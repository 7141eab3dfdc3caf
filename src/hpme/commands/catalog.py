"""What can be run, by name, so that no library is loaded for a list.

Explainers are read from the source of their classes; datasets and models from a file, which
``python -m hpme.commands.catalog`` writes, and a test says when that is due.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal

Kind = Literal["datasets", "explainers", "models"]
Rows = list[list[str]]
HEADERS: dict[Kind, tuple[str, ...]] = {
    "datasets": ("name", "task", "graphs", "variants", "description"),
    "explainers": ("name", "learns", "tasks", "levels", "description"),
    "models": ("name", "description"),
}
FILE = Path(__file__).with_name("catalog.json")
GROUP = "hpme.explainers"
FACTS = ("slug", "summary", "needs_fit", "needs_labels", "tasks", "levels")
"""What is listed of explainers."""
SOURCE = Path(__file__).parents[2]


def rows(kind: Kind) -> Rows:
    """What there is of a kind, a row of texts for each, in the order of :data:`HEADERS`."""
    loaded = "hpme.explainers.registry" in sys.modules  # then it costs nothing
    if loaded or (kind == "explainers" and entry_points(group=GROUP)):  # other packages have more
        return current()[kind]
    return kept()[kind]


def kept() -> dict[Kind, Rows]:
    """What is known without loading anything."""
    found: dict[Kind, Rows] = json.loads(FILE.read_text("utf-8"))
    classes = [(name, module) for name, module in _imports("hpme.explainers").items()]
    written = [(name, module) for name, module in classes if _written("slug", name, module)]
    found["explainers"] = [
        _row(*(_written(fact, name, module) for fact in FACTS)) for name, module in written
    ]
    return found


def _row(slug: str, summary: str, fit: bool, labels: bool, tasks: Any, levels: Any) -> list[str]:
    learns = ("from labels" if labels else "yes") if fit else "no"
    return [slug, learns, ", ".join(tasks), ", ".join(levels), summary]


@cache
def _tree(module: str) -> ast.Module:
    path = SOURCE.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_bytes())


def _imports(module: str) -> dict[str, str]:
    """Names that a module imports from this package, and from where."""
    return {
        alias.name: node.module
        for node in _tree(module).body
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("hpme.")
        for alias in node.names
    }


def _written(fact: str, name: str, module: str) -> Any:
    """A class attribute as the source of the class, or else of its bases, has it."""
    classes = {node.name: node for node in _tree(module).body if isinstance(node, ast.ClassDef)}
    if name not in classes:
        origin = _imports(module).get(name)
        return None if origin is None else _written(fact, name, origin)
    for node in classes[name].body:
        named = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(one, ast.Name) and one.id == fact for one in named):
            value = getattr(node, "value", None)
            return None if value is None else ast.literal_eval(value)
    bases = (base.id for base in classes[name].bases if isinstance(base, ast.Name))
    found = (_written(fact, base, module) for base in bases)
    return next((value for value in found if value is not None), None)


def names(kind: Kind) -> list[str]:
    """Names of what there is of a kind."""
    return [row[0] for row in rows(kind)]


def current() -> dict[Kind, Rows]:
    """What is registered, all libraries loaded."""
    from hpme.data import DATASETS
    from hpme.explainers import EXPLAINERS
    from hpme.models import MODELS

    def listed(values: Sequence[str]) -> str:
        return ", ".join(values)

    return {
        "datasets": [
            [i.name, i.task, f"{i.num_graphs:,}", listed(i.variants), i.description]
            for i in DATASETS.values()
        ],
        "explainers": [
            _row(*(getattr(kind, fact) for fact in FACTS)) for kind in EXPLAINERS.values()
        ],
        "models": [
            # By name: they are registered in the order in which their modules are loaded.
            [name, (model.__doc__ or "").strip().splitlines()[0]]
            for name, model in sorted(MODELS.items())
        ],
    }


if __name__ == "__main__":
    written = {kind: listed for kind, listed in current().items() if kind != "explainers"}
    FILE.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n", "utf-8")
