"""The hpme command as a whole, in this process and, where it matters, as one of its own."""

import subprocess
import sys

import torch
from typer.testing import CliRunner

from hpme import __version__
from hpme.cli import app

PROGRAM = "from hpme.cli import main; main()"


def test_version():
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout == f"hpme {__version__}\n"


def test_one_thread_unless_asked(monkeypatch):
    given = []
    monkeypatch.setattr(torch, "set_num_threads", given.append)
    CliRunner().invoke(app, ["list", "models"])
    CliRunner().invoke(app, ["--threads", "3", "list", "models"])
    assert given == [1, 3]


def test_help_comes_at_once():
    """What takes seconds to import is imported when there is work for it."""
    heavy = ("torch", "matplotlib", "sklearn", "scipy", "rdkit", "ray")
    program = (
        "import sys; from typer.testing import CliRunner; from hpme.cli import app\n"
        "for command in ([], ['bench'], ['run'], ['explain'], ['tables'], ['demo'], ['list']):\n"
        "    assert CliRunner().invoke(app, [*command, '--help']).exit_code == 0\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"


def test_the_installed_command():
    """Exit code and streams as a shell sees them."""
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, "run", "--graphs", "0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert result.stdout == ""
    assert "--graphs" in result.stderr
