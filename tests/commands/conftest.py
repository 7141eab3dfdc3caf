import pytest
from typer.testing import CliRunner

from hpme.cli import app


@pytest.fixture(scope="session")
def command_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("command-cache")


@pytest.fixture
def invoke(command_cache, tmp_path, monkeypatch):
    """Runs the command in an empty folder; the result has stdout, stderr and exit_code."""
    monkeypatch.setenv("HPME_CACHE_DIR", str(command_cache))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture
def flat():
    """Text of a message without the frame and line breaks around it."""
    return lambda text: " ".join(text.replace("│", " ").split())
