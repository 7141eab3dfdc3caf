"""Commands with ``--chemprop``: ensembles, names, a background file, a saved explainer."""

import json
import logging
import re
import warnings

import pytest
import torch
from typer.testing import CliRunner

from hpme.cli import app

pytest.importorskip("chemprop")
pytest.importorskip("torchmetrics")

from chemprop.models.utils import save_model
from rdkit import Chem

from chemprop_networks import CHEAP, SMILES, ours, points, trained
from hpme.explainers import OcclusionExplainer
from hpme.metrics import explanation_auc
from hpme.models.chemprop import explained, molecules, read_model

OPTIONS = [part for key, value in CHEAP.items() for part in ("-o", f"{key}={value}")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two networks for two tasks, a library, and three molecules to ask about."""
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    path = tmp_path_factory.mktemp("models")
    (path / "models").mkdir()
    for number in range(2):
        torch.manual_seed(number)
        model = trained(points(tasks=2), head="BinaryClassificationFFN", n_tasks=2)
        save_model(path / "models" / f"model_{number}.pt", model, ["amide", "fluoride"])
    (path / "library.csv").write_text("smiles\n" + "\n".join(SMILES))
    (path / "few.csv").write_text("smiles,name\nCC(=O)NC,one\nFCCC,two\nCCCC,three\n")
    return path


def run(folder, command, *more, data="few.csv", model=("--chemprop", "models")):
    model = [folder / part if part == "models" else part for part in model]
    arguments = [command, *model, "--data", folder / data, *more]
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def page_of(path):
    text = path.read_text("utf-8")
    return {
        name: json.loads(re.search(rf'"{name}":("[^"]*"|\[[^\]]*\])', text)[1])
        for name in ("model", "title", "classes", "names")
    } | {"text": text}


def test_an_ensemble_against_a_library(folder, tmp_path):
    out = tmp_path / "page.html"
    result = run(
        folder, "explain", "--background", folder / "library.csv", "--target", "amide",
        "--name-column", "name", "--out", out, "--save-explainer", tmp_path, *OPTIONS,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "3 graphs; 3 explained, learning from 72" in result.output
    assert "networks of the ensemble differ by" in " ".join(result.output.split())
    page = page_of(out)
    assert page["names"] == ["one", "two", "three"] and "spread of the ensemble" in page["text"]
    assert page["model"] == "ensemble of 2 Chemprop networks, amide"
    assert page["title"] == f"Explanations of {page['model']}"
    assert page["classes"] == ["not amide", "amide"]
    parquet = pytest.importorskip("pyarrow.parquet")
    shards = tmp_path / "shards"
    applied = run(
        folder, "apply", tmp_path / "hpme.safetensors", "--out", shards, data="library.csv"
    )
    assert applied.exit_code == 0, applied.output
    table = parquet.read_table(next(shards.glob("*.parquet"))).to_pydict()
    known = explained(read_model(folder / "models")[0], target="amide")
    own = ours(known, molecules(SMILES, known)).sigmoid()[:, 0]
    assert torch.allclose(torch.tensor(table["prediction"])[:, 1], own, atol=1e-5)


def test_several_flags_are_an_ensemble_and_classes_have_names(folder, tmp_path):
    out = tmp_path / "page.html"
    files = sorted((folder / "models").glob("*.pt"))
    flags = [part for file in files for part in ("--chemprop", file)]
    result = run(
        folder, "explain", "--target", "1", "--classes", "without, with", "--out", out, "-q",
        *OPTIONS, data="library.csv", model=flags,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    page = page_of(out)
    assert page["classes"] == ["without", "with"]
    assert page["model"] == "ensemble of 2 Chemprop networks, fluoride"


@pytest.mark.parametrize(
    ("command", "more", "text"),
    [
        ("rules", [], "OTHERWISE"),
        ("audit", ["--should", "C(=O)N"], "verdict"),
        ("counterfactual", ["-n", "1", "--donors", "library.csv"], "the answer was changed"),
    ],
)
def test_beyond_one_graph(folder, tmp_path, command, more, text):
    more = [folder / part if part == "library.csv" else part for part in more]
    result = run(folder, command, *more, "--target", "amide", *OPTIONS, data="library.csv")
    assert result.exit_code == 0, result.output
    assert text in result.output


def test_counterfactuals_on_the_page_have_the_features_of_the_model(folder, tmp_path):
    out = tmp_path / "page.html"
    result = run(
        folder, "explain", "--with", "counterfactuals", "--target", "amide", "--out", out, "-q",
        "--graphs", "6", *OPTIONS, data="library.csv",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert out.is_file()


def test_the_page_is_written_if_something_else_fails(folder, tmp_path, monkeypatch):
    from hpme.errors import InputError
    from hpme.explainers import HPMEExplainer

    def fail(*_, **__):
        raise InputError("nothing to edit")

    monkeypatch.setattr(HPMEExplainer, "counterfactuals", fail)
    out = tmp_path / "page.html"
    result = run(
        folder, "explain", "--with", "counterfactuals", "--target", "amide", "--out", out, *OPTIONS
    )
    assert result.exit_code == 1 and "nothing to edit" in result.output
    assert "counterfactuals: left out of the page" in result.output
    assert page_of(out)["classes"] == ["not amide", "amide"]


def test_a_wrong_task_lists_all(folder):
    result = run(folder, "explain", "--target", "third")
    assert result.exit_code == 1
    assert "unknown task 'third'; valid: amide, fluoride" in " ".join(result.output.split())


@pytest.mark.parametrize("command", ["rules", "explain", "counterfactual"])
def test_one_model_is_needed(folder, command):
    both = run(folder, command, "--model", "a:b")
    none = run(folder, command, model=())
    for result in (both, none):
        assert result.exit_code == 2 and "one of --model and --chemprop" in result.output


def run_own(folder, tmp_path, *more):
    rule = ["--rule", "amide=C(=O)N", "--out", tmp_path / "out", "--json", tmp_path / "r.json"]
    arguments = ["run", "--smiles", folder / "library.csv", *rule, "--graphs", "18", *more]
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def auc_of_occlusion(folder):
    """What the command says, by hand: all molecules that have an amide, and where it is."""
    known = explained(read_model(folder / "models")[0], target="amide")
    graphs = molecules([text for text in SMILES if "C(=O)N" in text], known)
    pattern = Chem.MolFromSmarts("C(=O)N")
    for graph in graphs:
        atoms = Chem.MolFromSmiles(graph.smiles).GetSubstructMatches(pattern)
        inside = torch.isin(torch.arange(graph.num_nodes), torch.tensor(atoms).view(-1))
        graph.edge_mask = inside[graph.edge_index].all(0)
    found = OcclusionExplainer().explain(known, graphs, progress=False)
    return float(explanation_auc(found, graphs))


def test_run_scores_a_network_that_was_trained_elsewhere(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    model = ["--chemprop", folder / "models", "--target", "amide", "-e", "occlusion"]
    first = run_own(folder, tmp_path, *model, "--gallery", tmp_path / "g.svg")
    assert first.exit_code == 0, first.output
    (kept,) = json.loads((tmp_path / "r.json").read_text())["runs"]
    assert kept["auc"] == pytest.approx(auc_of_occlusion(folder), abs=1e-6)
    assert kept["graphs"] == 18 and kept["size"] == 72
    assert kept["model"].startswith("chemprop-") and kept["model"].endswith(", amide")
    assert kept["target_metrics"] is None and kept["target_passes"] > 1
    assert "predicted class" in (tmp_path / "g.svg").read_text("utf-8")
    again = run_own(folder, tmp_path, *model)
    assert "from an earlier run" in " ".join(again.output.split())
    other = run_own(
        folder, tmp_path, *model[:1], next((folder / "models").glob("*.pt")), *model[2:]
    )
    assert other.exit_code == 0 and "from an earlier run" not in " ".join(other.output.split())
    hpme = run_own(folder, tmp_path, *model[:-2], *OPTIONS)
    assert hpme.exit_code == 0, hpme.output
    table = run_own(folder, tmp_path, *model, "--seeds", "400")  # a seed of the benchmark's tables
    assert table.exit_code == 0, table.output
    (run,) = json.loads((tmp_path / "r.json").read_text())["runs"]
    assert (run["graphs"], run["auc"]) == (kept["graphs"], pytest.approx(kept["auc"], abs=1e-6))


@pytest.mark.parametrize(
    ("more", "code", "text"),
    [
        (["--chemprop", "models", "--model", "gcn"], 2, "models that are trained here"),
        (["--chemprop", "models", "--train-steps", "3"], 2, "models that are trained here"),
        (["--target", "amide"], 2, "belongs to --chemprop"),
        (["--descriptors-path", "library.csv"], 2, "belongs to --chemprop"),
        (["--chemprop", "models", "--target", "third"], 1, "valid: amide, fluoride"),
        (["--chemprop", "models"], 1, "(in commands --target): amide, fluoride"),
        (["--chemprop", "nowhere.pt"], 1, "no file"),
    ],
)
def test_run_refuses(folder, tmp_path, more, code, text):
    places = ("models", "library.csv", "nowhere.pt")
    result = run_own(folder, tmp_path, *[folder / m if m in places else m for m in more])
    assert result.exit_code == code and text in " ".join(result.output.replace("│", "").split())


def test_run_needs_molecules_of_ones_own(folder):
    arguments = ["run", "--dataset", "benzene", "--chemprop", str(folder / "models")]
    result = CliRunner().invoke(app, arguments)
    said = " ".join(result.output.replace("│", "").split())
    assert result.exit_code == 2 and "give --smiles in place of --dataset" in said, said
