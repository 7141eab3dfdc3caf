"""What the documentation says about options and messages is so, and it says so in plain words."""

import ast
import json
import re
from pathlib import Path

import pytest
import typer

from hpme.cli import app

ROOT = Path(__file__).parents[1]
COMMANDS = {
    name: command
    for name, command in typer.main.get_command(app).commands.items()
    if not command.hidden  # a former name of another command
}
SECTION = re.compile(r"^## hpme ([\w, ]+)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)


def _sections():
    """Text about every command; one heading may name several."""
    text = (ROOT / "docs/cli.md").read_text()
    return {
        name: body for names, body in SECTION.findall(text) for name in re.split(r", | and ", names)
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name):
    section = _sections()[name]
    for parameter in COMMANDS[name].params:
        if isinstance(parameter.help, str) and parameter.name != "help":
            assert len(parameter.help) > 10 or parameter.param_type_name == "argument"
        if parameter.param_type_name == "option" and parameter.name != "help":
            option = max(parameter.opts, key=len)
            assert f"`{option}`" in section, f"docs/cli.md: {option} of hpme {name}"


def test_no_option_is_made_up():
    for name, section in _sections().items():
        known = {o for p in COMMANDS[name].params for o in (*p.opts, *p.secondary_opts)}
        others = {option for one in COMMANDS.values() for p in one.params for option in p.opts}
        table = "\n".join(line.split("|")[1] for line in section.splitlines() if line[:2] == "| ")
        shared = name in ("rules", "counterfactual", "audit", "judge", "pairs")
        assert set(re.findall(r"`(--[\w-]+)`", table)) <= (others if shared else known)


def _texts():
    """All texts in the source, those of messages among them."""
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_quoted_messages_exist():
    page = (ROOT / "docs/troubleshooting.md").read_text()
    quoted = [
        q
        for bold in re.findall(r"^\*\*(.+?)\*\*", page, re.M)
        for q in re.findall(r'"(.+?)"', bold)
    ]
    assert len(quoted) > 8
    texts = "\n".join(_texts())
    assert [message for message in quoted if message not in texts] == []


PRIVATE = (
    "no answer is an answer",
    "needs company",
    "keep it company",
    "keep them company",
    "keeps it company",
    "keeps them company",
    "keep the explained ones company",
    "show themselves",
    "shows itself",
    "draw themselves",
    "without a word",
    "stands in its place",
    "say so, by",
    "any question",
    "beyond one graph",
    "rests on",
    "rest on",
    "goes on where it was",
    "a page of their own",
    "of its own choice",
    "the line to beat",
    "target model",
    "hpme-gradient",
    "hpmegradientexplainer",
    "hpme report",
    "report.html",
    "typed graph",
    "graphs with types",
)
"""Phrases that only this project used, and names that are gone. A textbook has ordinary ones."""


def _pages():
    """Pages that people write, and the text cells of notebooks."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        name = page.relative_to(ROOT).as_posix()
        if not name.startswith(("docs/results/paper/", "docs/results/records/", "docs/api/")):
            yield name, page.read_text("utf-8")
    for page in (ROOT / "examples" / "notebooks").glob("*.ipynb"):
        cells = json.loads(page.read_text("utf-8"))["cells"]
        text = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        yield page.relative_to(ROOT).as_posix(), "\n".join(text)


PAGES = dict(_pages())


@pytest.mark.parametrize("name", PAGES)
def test_pages_are_in_plain_english(name):
    words = " ".join(PAGES[name].lower().split())
    found = [phrase for phrase in PRIVATE if re.search(rf"\b{re.escape(phrase)}\b", words)]
    assert found == []


def _how_to():
    """Names of the how-to pages in the navigation, and of the quickstart."""
    nav = (ROOT / "mkdocs.yml").read_text("utf-8")
    section = re.search(r"^  - How to:\n((?:      .*\n)+)", nav, re.MULTILINE)
    assert section
    return ["quickstart.md", *re.findall(r"[\w-]+\.md", section[1])]


@pytest.mark.parametrize("name", _how_to())
def test_how_to_pages_begin_with_a_picture_or_code(name):
    assert len(_how_to()) > 10
    beginning = (ROOT / "docs" / name).read_text("utf-8").splitlines()[:25]
    assert any(line.startswith(("![", "```")) for line in beginning)


def test_the_glossary_is_short():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = text.partition("## Glossary")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert 10 <= len(rows) <= 20
