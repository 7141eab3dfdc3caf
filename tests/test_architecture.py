"""The listing of ``src/hpme`` is the architecture; CONTRIBUTING.md describes what this checks."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

from hpme.explainers import HPMEExplainer

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
ROOMS = ("execute", "graphs", "data", "models", "explainers", "metrics", "bench", "viz", "paper",
         "page", "apply", "serve", "commands", "cli")  # fmt: skip
BELOW = {room: set(ROOMS[:place]) for place, room in enumerate(ROOMS)} | {
    "viz": set(ROOMS[: ROOMS.index("bench")]),
    "page": set(ROOMS[: ROOMS.index("paper")]) - {"bench"},
    "apply": set(ROOMS[: ROOMS.index("bench")]),
}
"""Rooms that a room may import."""
FOUNDATION = {"errors", "limits", "progress", "storage", "text", "__init__"}
"""Modules everything may import; they import nothing but each other."""
ALIASES = {
    ("hpme.viz", "hpme.page"),
    ("hpme.explainers.shared.explanation", "hpme.viz.gallery"),
    ("hpme.explainers.hpme.rulebook", "hpme.viz.gallery"),
    ("hpme.explainers.hpme.rulebook", "hpme.viz.sheets"),
    ("hpme.explainers.hpme.proof", "hpme.viz.gallery"),
    ("hpme.explainers.hpme.proof", "hpme.viz.sheets"),
    ("hpme.explainers.hpme.report", "hpme.viz.charts"),
    ("hpme.explainers.hpme.report", "hpme.viz.style"),
}
"""Users find the page as ``hpme.viz.write_page``, and explanations, proofs, reports and rulebooks
draw themselves;
these names are looked up when they are asked for."""


def modules():
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


MODULES = dict(modules())


@cache
def parsed(path):
    return ast.parse(path.read_text("utf-8"))


def imports(path, *, lazy):
    """Modules of the package that a file imports; ``lazy`` for those in functions, too."""
    tree = parsed(path)
    nodes = ast.walk(tree) if lazy else _at_import(tree.body)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in MODULES else node.module


def _at_import(body):
    """Statements that run when the module is imported; those for type checkers do not."""
    for node in body:
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        for part in ("body", "orelse", "handlers", "finalbody"):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _at_import(getattr(node, part, []))


def room(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


@pytest.mark.parametrize("module", sorted(MODULES))
def test_no_module_imports_a_higher_room(module):
    own = room(module)
    allowed = FOUNDATION | ({own} | BELOW[own] if own in BELOW else set())
    higher = {
        name
        for name in imports(MODULES[module], lazy=True)
        if room(name) not in allowed and (module, name) not in ALIASES
    }
    assert not higher, f"{module} ({own}) may import {sorted(allowed)}"


def test_no_cycles():
    graph = nx.DiGraph()
    for module, path in MODULES.items():
        graph.add_edges_from((module, name) for name in imports(path, lazy=False) if name != module)
    # A package's __init__ only names what its modules offer; nothing inside imports it.
    assert [sorted(part) for part in nx.strongly_connected_components(graph) if len(part) > 1] == []


def test_every_room_is_listed():
    listed = {path.stem for path in (SOURCE / "hpme").iterdir() if path.name != "__pycache__"}
    assert listed - {"py"} == set(ROOMS) | FOUNDATION
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert all(re.search(rf"^\s*{name}(/|\.py)", text, re.MULTILINE) for name in ROOMS)


def test_no_file_is_long():
    files = [*SOURCE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    lengths = {str(file.relative_to(ROOT)): len(file.read_text().splitlines()) for file in files}
    assert {name: lines for name, lines in lengths.items() if lines > 400} == {}


def test_the_house_does_not_grow_unnoticed():
    assert len(MODULES) <= 240
    assert sum(len(path.read_text("utf-8").splitlines()) for path in MODULES.values()) <= 36_000
    assert len(list((SOURCE / "hpme" / "explainers" / "shared").glob("*.py"))) <= 14
    records = (ROOT / "docs" / "results" / "records").rglob("*")
    assert sum(path.is_file() for path in records) <= 60


def test_a_public_class_has_a_name_of_its_own():
    trees = [parsed(path) for path in MODULES.values()]
    names = Counter(
        node.name
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_hpme_is_composed_not_inherited():
    own = [kind for kind in HPMEExplainer.__mro__ if kind.__module__.startswith("hpme.")]
    assert len(own) <= 5, own
