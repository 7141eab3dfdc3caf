"""``hpme run`` on molecules: published ones and the user's own."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("rdkit", reason="molecules need RDKit: pip install 'hpme[chem]'")

from hpme.bench import ResultStore
from hpme.cli import app

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data"
SMALL = ["--explainer", "random", "--train-steps", "3", "--graphs", "6"]
SMILES = ["CC=O", "CCO", "c1ccccc1C(=O)O", "CCN", "C", "CC(C)=O", "CCC", "[Na+].[Cl-]"] * 5


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    monkeypatch.setenv("HPME_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(app, ["run", *SMALL, *map(str, arguments)])


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.csv"
    rows = [f"Stoff-ä{i},{s},{i % 2},{i / 8}" for i, s in enumerate(SMILES)]
    path.write_text("\n".join(["id,smi,active,logp", *rows, "bad,C1CC,1,0.5"]), encoding="utf-8")
    return ["--smiles", path, "--smiles-column", "smi"]


def test_rules_label_and_score(invoke, own):
    result = invoke(
        *own, "--rule", "carbonyl=[CX3]=O", "--name-column", "id",
        "--json", "r.json", "--gallery", "g.svg",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    content = json.loads(Path("r.json").read_text())
    (run,) = content["runs"]
    assert (run["dataset"], run["rule"], run["size"]) == ("own", "carbonyl", len(SMILES))
    assert 0 <= run["auc"] <= 1
    assert "Stoff-ä" in Path("g.svg").read_text(encoding="utf-8")
    assert "label: carbonyl" in result.stderr
    (skipped,) = Path("out/run").glob("own-*/skipped.csv")
    assert "1 of 41 rows are left out" in " ".join(result.stderr.split())
    assert skipped.read_text().splitlines()[1:] == ["42,C1CC,not valid SMILES"]


@pytest.mark.parametrize(
    "labels", [["--label-column", "active"], ["--label-column", "logp", "--task", "regression"]]
)
def test_without_rules_auc_is_undefined_and_says_why(invoke, own, labels):
    result = invoke(*own, *labels, "--json", "r.json")
    assert result.exit_code == 0, result.stderr
    (run,) = json.loads(Path("r.json").read_text())["runs"]
    assert run["auc"] is None and run["auc_undefined"] == "no edge is ground truth"
    assert "AUC is undefined: no edge is ground truth" in result.stdout


def test_hpme_needs_no_ground_truth(invoke, own):
    result = invoke(
        *own, "--label-column", "active", "--explainer", "hpme", "--json", "r.json",
        "-o", "restarts=1",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    (run,) = json.loads(Path("r.json").read_text())["runs"]
    assert run["pool_ratio_source"] == run["config"]["ratio"] == "auto"


@pytest.mark.parametrize("seeds", ["0-1", "400-401"])
def test_of_your_own_molecules_every_one_is_drawn(invoke, own, seeds):
    """Which numbers are for tables and which for development is a rule of the benchmark alone."""
    count = str(len(SMILES))
    result = invoke(*own, "--label-column", "active", "--graphs", count, "--seeds", seeds,
                    "--json", "r.json")  # fmt: skip
    assert result.exit_code == 0, result.stderr
    for run in json.loads(Path("r.json").read_text())["runs"]:
        assert run["graphs"] == len(SMILES) and run["seen_before"] == 0


def test_a_bad_row_stops_on_demand(invoke, own):
    result = invoke(*own, "--label-column", "active", "--on-error", "raise")
    assert result.exit_code == 1
    assert "row 42, 'C1CC': not valid SMILES" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "label-column"),
        (["--rule", "mine=[C"], 2, "rule 'mine'"),
        (["--rule", "[CX3]=O"], 2, "NAME=SMARTS"),
        (["--label-column", "activ"], 1, "no column 'activ'; its columns: id, smi, active, logp"),
        (["--rule", "a=C", "--variant", "paper"], 2, "belongs to --dataset"),
        (["--rule", "a=C", "--dataset", "benzene"], 2, "one of --dataset and --smiles"),
        (["--rule", "a=C", "--task", "regression"], 2, "needs labels"),
    ],
)
def test_wrong_usage(invoke, own, arguments, code, message):
    result = invoke(*own, *arguments)
    assert result.exit_code == code
    assert message in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    "option", [["--rule", "a=C"], ["--hydrogens"], ["--task", "regression"], ["--workers", "2"]]
)
def test_options_of_own_molecules_are_refused_elsewhere(invoke, option):
    result = invoke("--dataset", "ba-2motifs", *option)
    assert result.exit_code == 2 and "belongs to --smiles" in result.stderr
    assert option[0] in result.stderr


def test_neither_dataset_nor_molecules(invoke):
    result = invoke()
    assert result.exit_code == 2 and "--smiles" in result.stderr


def test_other_molecules_in_a_file_of_the_same_name_are_others(invoke, own):
    arguments = [*own, "--label-column", "active"]
    assert invoke(*arguments).exit_code == 0
    assert "from an earlier run" in invoke(*arguments).stderr
    lines = own[1].read_text(encoding="utf-8").splitlines()
    own[1].write_text("\n".join(lines[:-4]), encoding="utf-8")
    again = invoke(*arguments)
    assert again.exit_code == 0, again.stderr
    assert "from an earlier run" not in again.stderr
    found = [len(list(ResultStore(folder).records())) for folder in Path("out/run").iterdir()]
    assert found == [1, 1]


def test_published_molecules_run_like_any_dataset(invoke, monkeypatch):
    base = Path(os.environ.get("HPME_DATA_DIR", SHARED))
    if not any((f / "logic7_smiles.csv").is_file() for f in (base, base / "molecules")):
        pytest.skip("logic7_smiles.csv not found: set HPME_DATA_DIR to the folder that holds it")
    monkeypatch.setenv("HPME_DATA_DIR", str(base))
    result = invoke(
        "--dataset", "alkane-carbonyl", "--size", "200", "--json", "r.json", "--gallery", "g.png"
    )
    assert result.exit_code == 0, result.stderr
    (run,) = json.loads(Path("r.json").read_text())["runs"]
    assert run["rule"] == "fluoride AND carbonyl" and run["companions"] == 6
    assert run["auc"] is not None
    assert Path("g.png").stat().st_size > 10_000
