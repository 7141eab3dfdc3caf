"""Every example runs as it stands and says what it should."""

import re
import runpy
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import pytest

from hpme.explainers import EXPLAINERS

EXAMPLES = Path(__file__).parents[1] / "examples"
AUC = r"edge ROC-AUC:? (\d\.\d+)"
EXPECTED = {
    "quickstart": (AUC, 0.8),
    "gine_molecules": (r"edge ROC-AUC of C=O: (\d\.\d+)", 0.9),
    "gat": (r"hpme: " + AUC, 0.9),
    "fraud_nodes": (r"heaviest edge inside a ring: (\d+) of 48", 43),
    "fraud_hetero": (r"heaviest edge at a device: (\d+) of", 36),
    "hierarchical_pooling": (AUC, 0.8),
    "regression": (AUC, 0.9),
    "reuse_explainer": (r"(\d+) edge weights, identical: True", 100),
    "any_forward": (AUC, 0.8),
    "why_not": (r"sign as expected in (\d+) of 40 graphs", 36),
    "habits": (r"(\d+) rows, picture of", 40),
    "link_predictor": (r"links explained: (\d+)", 8),
    "chemprop_molecules": (r"atom ROC-AUC of amides: (\d\.\d+)", 0.8),
    "pretrained_admet": (r"most important atom inside the group: (\d+) of 8", 5),
    "ogb_style": (r"edge ROC-AUC of nitriles: (\d\.\d+)", 0.9),
    "confounded_series": (r"rules say what the model says: (\d\.\d+)", 0.95),
    "own_explainer": (r"hpme +" + AUC, 0.9),
    "answers": (r"share of the fluorine: (\d\.\d+)", 0.99),
}
"""What each example prints, and a bound for the number in it."""

NEEDED = {
    "answers": ["rdkit"],
    "gine_molecules": ["rdkit"],
    "confounded_series": ["rdkit"],
    "habits": ["pandas"],
    "chemprop_molecules": ["chemprop"],
    "pretrained_admet": ["chemprop", "admet_ai"],
    "ogb_style": ["rdkit"],
}
"""Packages of extras."""


def test_none_is_forgotten():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_example(name, tmp_path, monkeypatch, capfd):
    for module in NEEDED.get(name, ()):
        if find_spec(module) is None:
            pytest.skip(f"needs {module}")
    monkeypatch.setenv("HPME_CACHE_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)  # some write files
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    path = str(EXAMPLES / f"{name}.py")
    monkeypatch.setattr("sys.argv", [path])
    with patch.dict(EXPLAINERS):  # an example adds one of its own
        runpy.run_path(path, run_name="__main__")
    text = capfd.readouterr().out
    pattern, bound = EXPECTED[name]
    found = re.search(pattern, text)
    assert found, text
    assert float(found[1]) >= bound, text
