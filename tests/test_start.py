"""Help, lists and errors in arguments come without loading what they do not need."""

import json
import subprocess
import sys

import pytest

from hpme.commands import catalog

HEAVY = ("torch", "torch_geometric", "numpy", "sklearn", "scipy", "matplotlib", "networkx", "rdkit",
         "pyarrow", "ray")  # fmt: skip
SCRIPT = """
import json, sys
import hpme
loaded = {"import": [name for name in HEAVY if name in sys.modules]}
from typer.testing import CliRunner
from hpme.cli import app
for line in LINES:
    code = CliRunner().invoke(app, line.split()).exit_code
    loaded[line] = [code, *(name for name in HEAVY if name in sys.modules)]
print(json.dumps(loaded))
"""
LINES = {
    "--version": 0,
    "--help": 0,
    "apply --help": 0,
    "bench --help": 0,
    "explain --help": 0,
    "run --help": 0,
    "serve --help": 0,
    "list datasets": 0,
    "list explainers": 0,
    "list models": 0,
    "list nothing": 2,
    "nothing": 2,
    "run --nothing": 2,
    "run --dataset nothing": 2,
    "run --dataset ba-2motifs --explainer nothing": 2,
    "run --dataset ba-2motifs --model nothing": 2,
    "run": 2,
    "bench nothing": 2,
    "bench table1 --address 1:1": 2,
    "explain --data a.csv": 2,
    "explain --data a.csv --explainer nothing": 2,
    "apply a --model b:c --data d --out e --workers 2 --ray f:1": 2,
    "serve a": 2,
    "report . --suite nothing": 2,
}


def test_nothing_heavy_is_loaded_for_help_lists_and_wrong_usage():
    script = f"HEAVY = {HEAVY!r}\nLINES = {list(LINES)!r}\n{SCRIPT}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    assert found.pop("import") == []
    assert found == {line: [code] for line, code in LINES.items()}


@pytest.mark.parametrize("kind", catalog.HEADERS)
def test_the_catalog_is_what_is_registered(kind):
    known = catalog.current(ours=True)[kind]  # tests and other packages may have added some
    assert catalog.kept()[kind] == known, "run: python -m hpme.commands.catalog"
    assert all(len(row) == len(catalog.HEADERS[kind]) for row in known)
