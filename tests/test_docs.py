"""The documentation builds, and what it tells people to type works.

Python blocks of a page run one after the other, as a reader would type them; so do its commands.
Where that would take long, the tables below make it smaller, in sight. A block that is not run says
so in the line above it: ``<!-- not run: reason -->``.
"""

import re
import runpy
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import click.testing
import pytest
from safetensors.torch import save_model
from typer.testing import CliRunner

from hpme.bench import ResultStore
from hpme.cli import app

ROOT = Path(__file__).parents[1]
FENCE = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]+) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
QUICK = "restarts=1"
FEW = 'load_dataset("ba-2motifs", size=40)'

SMALLER = {
    "docs/benchmark.md": [
        ('options={"restarts": 1}', 'size=40, graphs=6, train_steps=3, options={"restarts": 1}'),
    ],
    "docs/datasets.md": [('load_dataset("ba-2motifs")', FEW)],
    "docs/hetero.md": [
        ('load_dataset("hetero-motifs", size=200)', 'load_dataset("hetero-motifs", size=20)'),
        ("load_or_train(dataset)", "load_or_train(dataset, recipe=SHORT)"),
        ("load_or_train(fraud)", "load_or_train(fraud, recipe=SHORT)"),
        ("HPMEExplainer()", f"HPMEExplainer(k=5, {QUICK})"),
        ("count=60", "count=6"),
    ],
    "docs/links.md": [
        ('load_or_train(dataset, "dgcnn")', 'load_or_train(dataset, "dgcnn", recipe=SHORT)'),
        ("ratio=dataset.pool_ratio", f"ratio=dataset.pool_ratio, {QUICK}"),
    ],
    "docs/metrics.md": [
        ('load_dataset("ba-2motifs", size=500)', FEW),
        ("max_steps=1000", "max_steps=3"),
        ("count=50", "count=6"),
        ("ratio=dataset.pool_ratio", f"ratio=dataset.pool_ratio, {QUICK}"),
    ],
    "docs/nodes.md": [
        ('load_or_train(dataset, "gcn")', 'load_or_train(dataset, "gcn", recipe=SHORT)'),
        ("ratio=0.5", f"ratio=0.5, {QUICK}"),
    ],
    "docs/calls-and-classes.md": [
        ("HPMEExplainer(k=3)", f"HPMEExplainer(k=3, {QUICK})"),
        ("range(40)", "range(12)"),
    ],
    "docs/index.md": [
        ('load_dataset("ba-2motifs", size=500)', FEW),
        ('load_or_train(dataset, "gcn")', 'load_or_train(dataset, "gcn", recipe=SHORT)'),
        ("HPMEExplainer(k=5)", f"HPMEExplainer(k=5, {QUICK})"),
    ],
    "docs/quickstart.md": [
        ('load_dataset("ba-2motifs", size=400)', FEW),
        ("range(60)", "range(2)"),
        ("HPMEExplainer()", f"HPMEExplainer(k=5, {QUICK})"),
    ],
}
"""Texts of a page's Python blocks, and what stands in their place here."""

SHORT = "from hpme.models import Recipe; SHORT = Recipe(max_steps=3)\n"
GIVEN = {
    "docs/hetero.md": SHORT,
    "docs/index.md": SHORT,
    "docs/links.md": SHORT,
    "docs/nodes.md": SHORT,
    "docs/page.md": f"""
from hpme.data import load_dataset
from hpme.explainers import GradExplainer, HPMEExplainer
from hpme.models import GCN

graphs = list({FEW})[::7]
model = GCN(10, 2)
explainer = HPMEExplainer(k=5, {QUICK}).fit(model, graphs)
other = GradExplainer()
""",
}
"""What a page takes for granted."""

TINY = "--size 40 --graphs 6 --train-steps 3"
TINY_HPME = "-o restarts=1"
APPENDED = {
    "hpme run --dataset ba-2motifs --explainer hpme": f"{TINY} {TINY_HPME} --seeds 0",
    "hpme run --dataset ba-2motifs --explainer grad": TINY,
    "hpme run --smiles": f"--graphs 6 --train-steps 3 {TINY_HPME} -o k=2",
    "hpme run -d tree-grid-links": f"{TINY} -o epochs=2",
    "hpme bench table1 --datasets": f"{TINY} --explainers random",
    "hpme explain": f"--graphs 6 {TINY_HPME} -o k=2",
    "hpme apply": "",
    "hpme demo": TINY,
    "hpme list": "",
    "hpme tables": "",
    "hpme bench table1 --dry-run": "",
    "hpme bench table1 --workers 8 --dry-run": "",
    "hpme --version": "",
}
"""Beginnings of commands, and the options that make them small."""


@dataclass(frozen=True)
class Block:
    """A block of code in a page."""

    page: str
    language: str
    text: str
    reason: str | None


def _blocks() -> list[Block]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [
        Block(page.relative_to(ROOT).as_posix(), found["language"], found["text"], found["reason"])
        for page in pages
        for found in FENCE.finditer(page.read_text())
    ]


BLOCKS = _blocks()


def _pages(language: str) -> list[str]:
    return sorted({b.page for b in BLOCKS if b.language == language and b.reason is None})


def _code(page: str, language: str) -> str:
    return "\n".join(
        b.text for b in BLOCKS if (b.page, b.language, b.reason) == (page, language, None)
    )


@pytest.fixture
def folder(tmp_path, cache_root, monkeypatch, make_record):
    """Where a reader would be: a model, tables of molecules, and a result of the benchmark."""
    monkeypatch.setenv("HPME_CACHE_DIR", str(cache_root))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)
    smiles = ["CC(=O)CF", "CCO", "CC(C)=O", "CCF", "CC(=O)C", "CCCO", "FCC(=O)C", "CCN"] * 4
    for name, header in (("molecules", "smiles"), ("hits", "smiles"), ("solubility", "SMILES")):
        rows = [f"{text},{number / 10}" for number, text in enumerate(smiles)]
        Path(f"{name}.csv").write_text("\n".join([f"{header},logS", *rows]))
    Path("my_models.py").write_text(
        "from hpme.models import GCN\n\n\ndef build():\n    return GCN(14, 2)\n"
    )
    monkeypatch.delitem(sys.modules, "my_models", raising=False)
    save_model(runpy.run_path("my_models.py")["build"](), "model.safetensors")
    ResultStore("out/bench").put(make_record(seed=100, cost={"metric_seconds": 0.1}))
    return tmp_path


def test_blocks_are_run_or_say_why_not():
    for block in BLOCKS:
        assert block.language in ("", "sh", "python"), f"{block.page}: '{block.language}'"
        commands = re.search(r"^(hpme|pip|python|make) ", block.text, re.MULTILINE)
        assert block.language or not commands, f"{block.page}: commands without 'sh'"


@pytest.mark.parametrize("page", [p for p in _pages("python") if p != "README.md"])
def test_python(page, folder):
    """The README has a test of its own."""
    code = _code(page, "python")
    if "smiles" in code:
        pytest.importorskip("rdkit")
    for old, new in SMALLER.get(page, []):
        assert old in code, f"{page} no longer has {old!r}; correct the table"
        code = code.replace(old, new)
    script = folder / "page.py"
    script.write_text(GIVEN.get(page, "") + code)
    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.parametrize("page", _pages("sh"))
def test_commands(page, folder):
    code = _code(page, "sh").replace("\\\n", " ")
    for line in filter(None, (shlex.split(line, comments=True) for line in code.splitlines())):
        command = " ".join(line)
        known = [start for start in APPENDED if command.startswith(start)]
        assert known, f"{page}: '{command}' is neither run nor marked"
        if ".csv" in command:
            pytest.importorskip("rdkit")
        if command.startswith("hpme apply"):
            pytest.importorskip("pyarrow")
        arguments = [*line[1:], *shlex.split(APPENDED[max(known, key=len)])]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, f"{page}: {command}\n{result.output}"


def test_the_site_builds_without_warnings_and_needs_no_network(tmp_path, monkeypatch):
    for name in ("mkdocs", "material", "mkdocstrings_handlers.python", "latex2mathml"):
        pytest.importorskip(name)
    from mkdocs.__main__ import cli

    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    arguments = ["build", "--strict", "--site-dir", str(tmp_path)]
    result = click.testing.CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert "WARNING" not in result.output
    pages = {
        path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.html")
    }
    for name, text in pages.items():
        loaded = re.findall(r'<(?:script|img|iframe)[^>]+src="(https?:[^"]+)', text)
        styles = re.findall(
            r'<link[^>]+rel="(?:stylesheet|preconnect)"[^>]+href="(https?:[^"]+)', text
        )
        assert not loaded + styles, name
        assert not re.search(r":(?:class|func|meth|math):", text), f"{name}: a role is left over"
        assert "arithmatex" not in text, f"{name}: an equation is left over"
        assert not re.search(r"<m[ion]>\\", text), f"{name}: an equation has an unknown command"
    assert "<math" in pages["concepts/index.html"]
    assert 'id="hpme.explainers.HPMEExplainer"' in pages["api/explainers/index.html"]
