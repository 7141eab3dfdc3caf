"""Arguments as people write them."""

import logging
import warnings

import pytest
import typer
from typer.testing import CliRunner

from hpme.commands.options import QuietOption
from hpme.commands.shared import command, parse_options, parse_rules, refuse, say, tell
from hpme.errors import InputError

ESCAPES = "\x1b[2J \x9b31m \x07"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("0.5", 0.5),
        ("true", True),
        ("False", False),
        ("None", None),
        ("[1, 2]", [1, 2]),
        ("near", "near"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_option_values(text, value):
    assert parse_options([f"some-key={text}"]) == {"some_key": value}


@pytest.mark.parametrize("pairs", [["x"], ["=1"], ["x=1", "x=2"]])
def test_malformed_options(pairs):
    with pytest.raises(InputError):
        parse_options(pairs)


def test_parse_rules():
    pytest.importorskip("rdkit", reason="molecules need RDKit: pip install 'hpme[chem]'")
    assert parse_rules(["a b=[CX3]=O", "c-1=N"]) == {"a b": "[CX3]=O", "c-1": "N"}
    with pytest.raises(InputError, match="twice"):
        parse_rules(["a=C", "a=N"])


@pytest.fixture
def run(monkeypatch):
    """Runs a function as a command."""
    monkeypatch.setenv("COLUMNS", "200")

    def invoke(function, *words):
        app = typer.Typer()
        app.command()(command(function))
        return CliRunner().invoke(app, list(words))

    return invoke


def everywhere(quiet: QuietOption = False) -> None:
    logging.getLogger("hpme").warning("logged %s", ESCAPES)
    warnings.warn(f"warned of {ESCAPES}", stacklevel=1)
    if not quiet:
        say(f"said {ESCAPES}")
    tell(f"told {ESCAPES}", quiet=quiet)


def refused() -> None:
    refuse(f"refused {ESCAPES}", "--data")


def test_escapes_of_data_do_not_reach_the_terminal(run):
    for function, words in ((everywhere, ("logged", "said", "told")), (refused, ("refused",))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = run(function)
        assert all(word in result.output for word in words)
        assert not any(letter in result.output for letter in ESCAPES if not letter.isprintable())
    assert logging.getLogger("hpme").handlers == []


def test_quiet_silences_warnings(run):
    with warnings.catch_warnings(record=True) as caught:
        result = run(everywhere, "--quiet")
    assert (result.output, result.exit_code, caught) == ("", 0, [])


def test_memory_that_is_short_is_told_in_a_line(run):
    def hungry() -> None:
        raise RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes")

    result = run(hungry)
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit)
    assert "error: DefaultCPUAllocator: not enough memory" in result.output
