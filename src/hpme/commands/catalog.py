"""What can be run, from a file that ``python -m hpme.commands.catalog`` writes, loading nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from hpme.explainers import GraphExplainer

Kind = Literal["datasets", "explainers", "models"]
Rows = list[list[str]]
HEADERS: dict[Kind, tuple[str, ...]] = {
    "datasets": ("name", "task", "graphs", "variants", "description"),
    "explainers": ("name", "learns", "tasks", "levels", "description"),
    "models": ("name", "description"),
}
FILE = Path(__file__).with_name("catalog.json")
GROUP = "hpme.explainers"


def rows(kind: Kind) -> Rows:
    """What there is of a kind, a row of texts for each, in the order of :data:`HEADERS`."""
    loaded = "hpme.explainers.registry" in sys.modules  # then it costs nothing
    if loaded or (kind == "explainers" and entry_points(group=GROUP)):  # other packages have more
        return current()[kind]
    return kept()[kind]


def kept() -> dict[Kind, Rows]:
    """What is known without loading anything."""
    found: dict[Kind, Rows] = json.loads(FILE.read_text("utf-8"))
    return found


def names(kind: Kind) -> list[str]:
    """Names of what there is of a kind."""
    return [row[0] for row in rows(kind)]


def current(*, ours: bool = False) -> dict[Kind, Rows]:
    """What is registered, all libraries loaded; explainers of this package alone if ``ours``."""
    from hpme.data import DATASETS
    from hpme.explainers.registry import EXPLAINERS, built_in
    from hpme.models import MODELS

    def listed(values: Sequence[str]) -> str:
        return ", ".join(values)

    def learns(kind: type[GraphExplainer]) -> str:
        return ("from labels" if kind.needs_labels else "yes") if kind.needs_fit else "no"

    return {
        "datasets": [
            [i.name, i.task, f"{i.num_graphs:,}", listed(i.variants), i.description]
            for i in DATASETS.values()
        ],
        "explainers": [
            [k.slug, learns(k), listed(k.tasks), listed(k.levels), k.summary]
            for k in (built_in() if ours else EXPLAINERS).values()
        ],
        "models": [
            # By name: they are registered in the order in which their modules are loaded.
            [name, (model.__doc__ or "").strip().splitlines()[0]]
            for name, model in sorted(MODELS.items())
        ],
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(current(ours=True), indent=1, ensure_ascii=False) + "\n", "utf-8")
