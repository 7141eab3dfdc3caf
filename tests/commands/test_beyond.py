"""``hpme rules``, ``hpme counterfactual`` and ``hpme audit``."""

import csv
import json
import sys
from pathlib import Path

import pytest

from pages import page_data

MODULE = """
import torch
from torch_geometric.nn import global_add_pool


class Fluorine(torch.nn.Module):
    def forward(self, x, edge_index, batch):
        count = global_add_pool(x, batch)[:, 4:5]
        return torch.cat([1 - 2 * count, 2 * count - 1], 1)


build = Fluorine
call = lambda model, batch: model(batch.x, batch.edge_index, batch.batch)
"""
NAMES = ["restarts=1", "k=1"]
QUICK = [word for name in NAMES for word in ("-o", name)]


@pytest.fixture
def ask(invoke):
    Path("fluorine_models.py").write_text(MODULE)
    ends = ("F", "O", "(=O)C", "Cl")
    rows = [f"{'C' * n}{end}" for n in range(2, 17) for end in ends]
    Path("table.csv").write_text("\n".join(["smiles", *rows]) + "\n")
    yield lambda name, *more: invoke(
        name, "--data", "table.csv", "--model", "fluorine_models:build", *QUICK, *more
    )
    sys.modules.pop("fluorine_models", None)


def test_rules_are_printed_written_and_drawn(ask):
    result = ask("rules", "--out", "rules.json", "--picture", "rules.svg")
    assert result.exit_code == 0, result.output
    assert "1. IF F THEN class 1" in result.stdout
    found = json.loads(Path("rules.json").read_text())
    assert (found["rules"][0]["if"], found["fidelity"]) == (["F"], 1.0)
    assert Path("rules.svg").read_text().startswith("<?xml")


def test_counterfactuals_are_a_table(ask):
    rows = Path("table.csv").read_text().split()[1:]
    table = ["smiles,id", *(f"{text},molecule {number}" for number, text in enumerate(rows))]
    Path("table.csv").write_text("\n".join(table) + "\n")
    named = ("--name-column", "id", "--classes", "plain,with fluorine")
    result = ask("counterfactual", "--graphs", "8", "-n", "1", "--out", "found.csv", *named)
    assert result.exit_code == 0, result.output
    assert result.output.count("molecule ") >= 8
    assert "plain -> with fluorine (p(plain) 0." in result.output
    assert "changed nodes" not in result.output and ":1]" not in result.output
    with open("found.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    assert all(("F" in row["original"]) != ("F" in row["smiles"]) for row in rows)
    assert "changed for 8 of 8 graphs" in result.stderr
    for row in rows:
        assert float(row["output"]) > 0.5 > float(row["new_output"])
        assert "fluoro" in row["exchanged"] or row["known"] == "True"
        assert 1 <= float(row["accessibility"]) <= 10


def test_an_audit_has_a_verdict(ask):
    result = ask("audit", "--should", "F", "--should-not", "Cl", "--out", "audit.json")
    assert result.exit_code == 0, result.output
    assert json.loads(Path("audit.json").read_text())["verdict"] == "reads it"
    ask("audit", "--should", "F", "--out", "audit.csv")
    with open("audit.csv", newline="") as file:
        row = next(csv.DictReader(file))
    assert float(row["inserted_low"]) > 0.1 > float(row["inserted_random"])


def test_donors_give_regions(ask):
    """Without molecules of the other class nothing can be found, and that is said."""
    rows = ["smiles", *(f"{'C' * n}{end}" for n in range(2, 12) for end in ("O", "Cl"))]
    Path("plain.csv").write_text("\n".join(rows) + "\n")
    words = ("counterfactual", "--data", "plain.csv", "--graphs", "4", "-n", "1")
    alone = ask(*words)
    assert "changed for 0 of 4 graphs" in alone.stderr and alone.exit_code == 0, alone.output
    given = ask(*words, "--donors", "table.csv")
    assert "changed for 4 of 4 graphs" in given.stderr, given.output


def test_answers_stand_on_a_page(ask):
    result = ask("audit", "--should", "F", "--graphs", "20", "--page", "audit.html")
    assert result.exit_code == 0, result.output
    found = page_data(Path("audit.html"))
    assert found["insight"]["audit"]["verdict"] == "reads it"
    assert found["insight"]["rules"] is None and len(found["names"]) == 20
    words = ("--with", "rules,counterfactuals", "--should", "F", "--graphs", "20")
    result = ask("explain", *words, "--classes", "no,yes", "--out", "all.html")
    assert result.exit_code == 0, result.output
    found = page_data(Path("all.html"))["insight"]
    assert {rule["label"] for rule in found["rules"]["rules"]} <= {"no", "yes"}
    assert len(found["changes"]) == 20 and any(found["changes"])
    assert found["audit"]["passed"]


def test_options_of_models_and_tables_are_those_of_explain(ask):
    words = ("--should", "F", "--graphs", "20", "--hydrogens", "--rule", "fluorine=CF")
    more = ("--call", "fluorine_models:call", "--device", "cpu", "--page", "audit.html")
    result = ask("audit", *words, *more)
    assert result.exit_code == 0, result.output
    found = page_data(Path("audit.html"))
    assert found["truth"] is not None and found["insight"]["audit"]["verdict"] == "reads it"
    words = ("--hydrogens", "--donors", "table.csv", "--graphs", "4", "-n", "1")
    result = ask("counterfactual", *words)
    assert "changed for 4 of 4 graphs" in result.stderr, result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rules", "--page", "rules.pdf"], "must end in .html"),
        (["explain", "--with", "poems"], "poems"),
        (["explain", "--with", "rules", "-e", "grad"], "need the explainer hpme"),
        (["explain", "--should-not", "C"], "needs --should"),
        (["explain", "--threshold", "1"], "belongs to --with counterfactuals"),
        (["rules", "--out", "rules.txt"], "must end in .json or .csv"),
        (["rules", "--picture", "rules.gif"], "must end in .png or .svg"),
        (["audit", "--should", "C1CC"], "no SMARTS pattern"),
        (["explain", "--classes", "a,b,c"], "3 names for 2 classes"),
        (["rules", "--classes", "a", "--mode", "regression"], "1 names for 0 classes"),
        (["counterfactual", "--mode", "regression"], "give the number to get past"),
        (["explain", "--with", "counterfactuals", "--mode", "regression"], "to get past"),
        (["counterfactual", "--threshold", "1"], "classes need no threshold"),
        (["counterfactual", "--mode", "regression", "--threshold", "nan"], "number to get past"),
    ],
)
def test_wrong_usage_is_refused_before_any_work(ask, flat, words, message):
    result = ask(*words)
    assert result.exit_code == 2
    assert message in flat(result.output)


def test_quiet_answers_print_nothing(ask):
    for words in (["rules"], ["counterfactual", "-n", "1"], ["audit", "--should", "F"]):
        result = ask(*words, "--graphs", "8", "--quiet", "--out", "found.json")
        assert (result.exit_code, result.output) == (0, "")
        assert json.loads(Path("found.json").read_text())


def test_a_file_of_somebody_else_is_not_taken_for_a_list_of_rows(ask, flat):
    Path("graphs.skipped.csv").write_text("mine\n")
    result = ask("audit", "--should", "F")
    assert result.exit_code == 1 and "move it elsewhere" in flat(result.output)
    assert Path("graphs.skipped.csv").read_text() == "mine\n"


def test_masks_of_others_are_judged(ask):
    """Fluorine is what the model reads; a mask of chlorine says nothing about it."""
    rows = Path("table.csv").read_text().splitlines()[1:]
    for name, letter in (("good", "F"), ("bad", "Cl")):
        lines = ["graph,node,importance"]
        for number, smiles in enumerate(rows):
            last = smiles.count("C") - 1 if letter == "Cl" else smiles.count("C")
            lines += [f"{number},{last},1"] if smiles.endswith(letter) else []
        Path(f"{name}.csv").write_text("\n".join(lines) + "\n")
    words = ("judge", "--masks", "good.csv", "--masks", "bad.csv", "--graphs", "60")
    result = ask(*words, "--out", "judged.csv", "--page", "judged.html")
    assert result.exit_code == 0, result.output
    assert "good: accepted" in result.stdout and "bad: rejected" in result.stdout
    with open("judged.csv", newline="") as file:
        found = {row["masks"]: row for row in csv.DictReader(file)}
    assert found["good"]["accepted"] == "True" and list(found) == ["good", "bad", "hpme", "random"]
    names = [one["name"] for one in page_data(Path("judged.html"))["explainers"]]
    assert names[:4] == ["good", "bad", "hpme", "random"]
    wrong = ask("judge", "--masks", "table.csv")
    assert wrong.exit_code == 2 and "no column" in wrong.output


def test_pairs_say_why_twins_differ(ask, invoke):
    def pairs(data, *more):
        return invoke("pairs", "--data", data, "--model", "fluorine_models:build", *more)

    rows = [("CCCF", "CCCO"), ("Oc1ccccc1", "Fc1ccccc1"), ("CC(F)CCl", "CC(C)CCl")]
    text = "\n".join(["smiles_a,smiles_b", *(",".join(row) for row in rows)])
    Path("pairs.csv").write_text(text + "\n")
    result = pairs("pairs.csv", "--out", "found.csv", "--page", "pairs.html")
    assert result.exit_code == 0, result.output
    assert "pair 0: p(class 1)" in result.stdout and "1 nodes in place of 1" in result.stdout
    with open("found.csv", newline="") as file:
        found = list(csv.DictReader(file))
    assert [row["first_nodes"] for row in found] == ["[3]", "[0]", "[2]"]
    assert all(abs(float(row["share"]) - 1) < 1e-6 for row in found)
    assert len(page_data(Path("pairs.html"))["smiles"]) == 6
    wrong = pairs("pairs.csv", "--second-column", "none")
    assert wrong.exit_code == 2 and "none" in wrong.output
    Path("pairs.csv").write_text("smiles_a,smiles_b\nCC,C1CC\n")
    bad = pairs("pairs.csv")
    assert bad.exit_code == 1 and "cannot be read" in bad.output
    assert pairs("fluorine_models:build").exit_code == 2
