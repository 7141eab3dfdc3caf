"""What the documentation says about options and messages is so."""

import ast
import re
from pathlib import Path

import pytest
import typer

from hpme.cli import app

ROOT = Path(__file__).parents[1]
COMMANDS = typer.main.get_command(app).commands
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
        known = {option for parameter in COMMANDS[name].params for option in parameter.opts}
        others = {option for one in COMMANDS.values() for p in one.params for option in p.opts}
        table = "\n".join(line.split("|")[1] for line in section.splitlines() if line[:2] == "| ")
        shared = name in ("rules", "counterfactual", "audit")
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
