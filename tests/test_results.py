"""Published tables are what the published records give."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hpme.bench import Record
from hpme.cli import app

RESULTS = Path(__file__).parents[1] / "docs" / "results"
NUMBER = r"(?<![\d.])-?\d\.\d{3}(?!\d)"


def test_tables_and_figures_regenerate_from_the_records():
    arguments = ["report", str(RESULTS / "records"), "--check", str(RESULTS / "paper")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output


def test_records_are_written_as_they_were_read():
    """Also those from when HPME by gradient was an option."""
    kinds = set()
    for path in sorted((RESULTS / "records" / "results").glob("*.json")):
        content = path.read_bytes()
        record = Record.from_bytes(content)
        assert record.to_bytes() == content
        assert path.stem == record.experiment.key
        kinds.add(record.experiment.explainer)
    assert {"hpme", "hpme-gradient"} <= kinds


@pytest.mark.parametrize("page", ["README.md", "docs/choosing.md", "docs/results/findings.md"])
def test_what_is_said_about_results_is_in_the_tables(page):
    """Numbers with three digits, in the text of these pages, are those of a table."""
    root = RESULTS.parents[1]
    tables = "\n".join(path.read_text() for path in sorted((RESULTS / "paper").glob("*.md")))
    printed = set(re.findall(NUMBER, tables))
    said = set(re.findall(NUMBER, (root / page).read_text()))
    assert said, "a page about results has numbers"
    assert said <= printed, f"in no table: {sorted(said - printed)}"
