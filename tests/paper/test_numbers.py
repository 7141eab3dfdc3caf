"""The paper's numbers: a few known by heart, and all of them against its source."""

import re
from collections import Counter
from pathlib import Path

import pytest

from hpme.bench import GROUND_TRUTH
from hpme.errors import UnknownNameError
from hpme.paper.shared.names import method_title, paper_note, paper_table, paper_tables
from hpme.paper.shared.suite import CLASSIFICATION, REGRESSION
from hpme.paper.table1 import METHODS

PAPER = Path(__file__).parents[3] / "shared" / "paper" / "hpme.tex"
LABELS = {
    "table1": "classification_regression",
    "nodes": "tab:node_class",
    "links": "tab:fidelity_linkpre",
    "shift": "tab:exp_metrics",
    "shift-classification": "tab:app_ood_classification",
    "shift-regression": "tab:app_ood_regression",
    "fidelity": "tab:fidelity_based_metrics",
    "targets-classification": "tab:classification_results",
    "targets-regression": "tab:regression_results",
}
# Compares our copy of the printed tables with their source, which is not ours to ship: without it
# there is nothing to compare with. All other tests of the copy run everywhere.
needs_paper = pytest.mark.skipif(not PAPER.is_file(), reason="the paper's source is not here")


def test_spot_checks():
    main = paper_table("table1")
    assert main["ba-2motifs"]["hpme"]["auc"] == (0.971, 0.021)
    assert main["alkane-carbonyl"]["pgexplainer"]["auc"] == (0.619, 0.373)
    assert main["ba-motif-counting"]["regexplainer"]["auc"] == (0.946, 0.095)
    assert main["house-orgrid-volume"]["att"]["auc"] == (0.521, 0.003)
    assert paper_table("nodes")["tree-grid"]["mixupexplainer"]["auc"] == (0.179, 0.054)
    links = paper_table("links")["ba-shapes-links"]
    assert links["hpme"]["robust_fidelity_minus"] == (0.044, 0.077)
    assert paper_table("shift")["benzene"]["proxyexplainer"]["euclidean"] == (1.471, None)
    assert paper_table("fidelity")["ba-motif-volume"]["hpme"]["simoar"] == (0.247, 0.056)
    assert paper_table("targets-classification")["spmotif"]["gin"]["macro_f1"] == (95.89, None)
    assert paper_table("targets-regression")["crippen"]["gat"]["mape"] == (74.68, None)
    assert "mape" not in paper_table("targets-regression")["triangles"]["gcn"]


def test_what_is_compared():
    main = paper_table("table1")
    assert set(main) == {*CLASSIFICATION, *REGRESSION}
    assert all(len(main[name]) == 9 for name in CLASSIFICATION)
    assert all(len(main[name]) == 6 for name in REGRESSION)
    assert {method for methods in main.values() for method in methods} <= {*METHODS, "att"}


def test_contradictory_values_are_kept_and_named():
    main, more = paper_table("shift"), paper_table("shift-regression")
    for name, values in (("crippen", (0.653, 0.953)), ("triangles", (0.389, 0.684))):
        found = (main[name][GROUND_TRUTH]["euclidean"], more[name][GROUND_TRUTH]["euclidean"])
        assert tuple(value.mean for value in found) == values
        assert all(str(value) in paper_note("shift") for value in values)
    assert paper_note("table1") is None


def test_unknown_table():
    with pytest.raises(UnknownNameError, match="'table9'; valid names: fidelity, links"):
        paper_table("table9")
    assert set(paper_tables()) == set(LABELS)


def source_of(name):
    text = PAPER.read_text()
    start = text.index(f"\\label{{{LABELS[name]}}}")
    return text[start : text.index("\\end{table", start)]


@needs_paper
@pytest.mark.parametrize("name", LABELS)
def test_exactly_the_numbers_of_the_source(name):
    digits = 2 if name.startswith("targets") else 3
    printed = re.findall(rf"(?<![\d.])\d+\.\d{{{digits}}}(?!\d)", source_of(name))
    ours = [
        f"{number:.{digits}f}"
        for methods in paper_table(name).values()
        for metrics in methods.values()
        for value in metrics.values()
        for number in value
        if number is not None
    ]
    assert Counter(ours) == Counter(printed)


@needs_paper
def test_main_table_row_by_row():
    rows = {slug: "Ours" if slug == "hpme" else method_title(slug) for slug in (*METHODS, "att")}
    halves = source_of("table1").split("\\vspace{5pt}")
    for half, datasets in zip(halves, (CLASSIFICATION, REGRESSION), strict=True):
        for method in paper_table("table1")[datasets[0]]:
            line = next(x for x in half.splitlines() if x.startswith(f"{rows[method]} "))
            values = [paper_table("table1")[name][method]["auc"] for name in datasets]
            assert re.findall(r"[\d.]+\\pm[\d.]+", line) == [
                f"{m:.3f}\\pm{s:.3f}" for m, s in values
            ]
