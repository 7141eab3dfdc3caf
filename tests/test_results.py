"""Published tables are what the published records give."""

from pathlib import Path

from typer.testing import CliRunner

from hpme.cli import app

RESULTS = Path(__file__).parents[1] / "docs" / "results"


def test_tables_and_figures_regenerate_from_the_records():
    arguments = ["report", str(RESULTS / "records"), "--check", str(RESULTS / "paper")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
