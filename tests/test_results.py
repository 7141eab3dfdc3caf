"""Published tables are what the published records give."""

import pytest
from typer.testing import CliRunner

from claims import RESULTS, ROOT, Claim, match, read_claims, read_tables, updated
from hpme.bench import Record, ResultStore
from hpme.cli import app
from hpme.paper.shared.cells import wanted_by
from hpme.paper.shared.document import Column, Entry, Table
from hpme.paper.suites import REPORTED

PAGES = ["README.md", "docs/choosing.md", "docs/results/findings.md"]


def test_tables_and_figures_regenerate_from_the_records():
    arguments = ["tables", str(RESULTS / "records"), "--check", str(RESULTS / "paper")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output


def test_records_are_written_as_they_were_read():
    kinds, keys = set(), set()
    for name, suite in REPORTED.items():
        lines = ResultStore(RESULTS / "records").path(name).read_bytes().splitlines()
        records = [Record.from_bytes(line) for line in lines]
        assert [record.to_bytes() for record in records] == lines
        own = [record.key for record in records]
        assert own == sorted(set(own) - keys), "in order, and stored once"
        assert all(wanted_by(suite, record.experiment) for record in records)
        kinds |= {record.experiment.explainer for record in records}
        keys |= set(own)
    assert {"hpme", "hpme-printed", "ground-truth", None} <= kinds
    assert len(list((RESULTS / "records").rglob("*"))) == 1 + len(REPORTED)


@pytest.fixture(scope="module")
def tables():
    return read_tables()


@pytest.mark.parametrize("page", PAGES)
def test_what_is_said_about_results_is_in_the_tables(page, tables):
    """Every number with three digits is that of the cell ``docs/results/claims.toml`` names."""
    said, problems = match((ROOT / page).read_text("utf-8"), read_claims()[page], tables)
    assert said, "a page about results has numbers"
    assert not problems, "\n".join([page, *problems])


def test_every_page_with_claims_is_looked_at():
    assert set(read_claims()) == set(PAGES)


SMALL = Table(
    "small",
    "",
    "Method",
    (Column("AUC ↑", "Motifs"), Column("Fid- ↓", "Motifs"), Column("AUC ↑", "Rings")),
    (
        ("Grad", (Entry("0.700 ± 0.100"), Entry("0.250"), Entry("0.800"))),
        ("Random", (Entry("0.500"), Entry("0.125"), Entry("—"))),
        ("HPME (r=1)", (Entry("0.950"), Entry("0.010"), Entry("0.990"))),
        (
            "HPME",
            (
                Entry("0.900 ± 0.020", paper="0.850 ± 0.030"),
                Entry("0.300 ± 0.010", paper="0.200"),
                Entry("0.600", paper="0.600"),
            ),
        ),
    ),
)


def problems_of(page, *texts):
    return match(page, [Claim(text, ["small"]) for text in texts], {"small": SMALL})[1]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("HPME / Motifs / AUC ↑", "0.900"),
        ("±: HPME / Motifs / AUC ↑", "0.900 ± 0.020"),
        ("HPME / Fid- ↓", "0.300"),
        ("paper: HPME / Motifs / AUC ↑", "0.850"),
        ("paper ±: HPME / Motifs / AUC ↑", "0.850 ± 0.030"),
        ("±: best other / Motifs / AUC ↑", "0.700 ± 0.100"),
        ("name: best other / Motifs / AUC ↑", "Grad"),
        ("name: best other / Motifs / Fid- ↓", "Random"),
        ("name: best other / Rings / AUC ↑", "Grad"),
        ("reaches paper: HPME", "2"),
        ("above paper: HPME", "1"),
        ("beside paper: HPME", "3"),
        ("above paper: HPME (r=1)", "3"),
        ("HPME / Fid- ↓ @ small", "0.300"),
    ],
)
def test_a_source_leads_to_its_cell(source, text):
    claim = f"It is {{{source}}}, here."
    assert not problems_of(f"It is {text}, here.", claim)
    assert not problems_of(f"It\nis **{text.replace(' ', chr(10), 1)}**, here.", claim)


@pytest.mark.parametrize(
    ("page", "source", "problem"),
    [
        ("0.901", "HPME / Motifs / AUC ↑", "says 0.901; HPME / Motifs / AUC ↑ is 0.900"),
        ("0.900", "Grad / Motifs / AUC ↑", "is 0.700"),
        ("0.900", "paper: HPME / Motifs / AUC ↑", "is 0.850"),
        ("0.900 ± 0.030", "±: HPME / Motifs / AUC ↑", "is 0.900 ± 0.020"),
        ("0.900 ± 0.020", "HPME / Motifs / AUC ↑", "is 0.900"),
        ("0.500", "paper: Random / Motifs / AUC ↑", "is —"),
        ("0.900", "Hpme / Motifs / AUC ↑", "in no row; there are Grad, Random"),
        ("0.900", "HPME / AUC ↑", "in 2 columns"),
        ("0.900", "HPME / Motifs", "in 0 columns"),
        ("0.300", "HPME / Fid- ↓ @ large", "in 0 columns"),
        ("0.900", "median: HPME / Motifs / AUC ↑", "that is mean, ±"),
    ],
)
def test_a_wrong_number_and_a_wrong_cell_are_found(page, source, problem):
    (found,) = problems_of(f"It is {page}, here.", f"It is {{{source}}}, here.")
    assert problem in found


def test_numbers_without_a_source_or_with_two_are_found():
    claim, page = "Motifs {HPME / Motifs / AUC ↑}", "Motifs 0.900, Rings 0.6"
    assert not problems_of(page, claim)
    assert not problems_of(f"{page}\n\n```\n0.600\n```\n", claim)
    (found,) = problems_of(f"{page}00", claim)
    assert found == "0.600 has 0 sources: Motifs 0.900, Rings 0.600"
    (found,) = problems_of(page, claim, "s {HPME / Motifs / AUC ↑}, R")
    assert "0.900 has 2 sources" in found


def test_a_claim_is_on_its_page_once_and_in_a_table_there_is():
    claim = "Motifs {HPME / Motifs / AUC ↑}"
    assert "0 times" in problems_of("Nothing", claim)[0]
    assert "2 times" in problems_of("Motifs 0.900, Motifs 0.800", claim)[0]
    _, (found,) = match("Motifs 0.900", [Claim(claim, ["big"])], {"small": SMALL})
    assert "in no table 'big'" in found


def test_pages_take_the_numbers_of_other_results():
    claims = [
        Claim("{±: best other / Rings / AUC ↑} {name: best other / Rings / AUC ↑} |", ["small"]),
        Claim("Random {Random / Rings / AUC ↑} |", ["small"]),
        Claim("| {name: best other / Cycles} leads", ["small"]),
    ]
    page = "| **0.7** Tag | Random 0.400 | Tag leads"
    said, _ = match(page, claims, {"small": SMALL})
    # Of the last two the tables know nothing; that takes other words.
    assert updated(page, said) == "| **0.800** Grad | Random 0.400 | Tag leads"
