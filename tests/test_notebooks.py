"""Every notebook runs, with sizes made small, and is kept without outputs."""

import importlib
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"
QUICK = "SEARCH = {'restarts': 1, 'rounds': 1, 'subsets': 8, 'combine': 1, 'epochs': 20}"
SMALL = {
    "molecules": "MOLECULES, EPOCHS = 64, 15",
    "chemprop": "ENDS, EPOCHS = 2, 4",
    "fraud_nodes": "ACCOUNTS, RINGS, EPOCHS = 120, 6, 100",
    "regression": "GRAPHS, EPOCHS, EXPLAINED = 200, 60, 40",
    "comparing_explainers": "SIZE, STEPS, EXPLAINED = 60, 60, 12",
    "alternatives_and_effects": "GRAPHS = 24",
    "rules_and_counterfactuals": "LINKS, EPOCHS = 2, 60",
}
"""What stands in the place of the cell with the tag "parameters"."""

CHECKS = {
    "molecules": "assert auc > 0.8, auc",
    "chemprop": "assert len(explanations) == len(points) and auc > 0",
    "fraud_nodes": "assert share > 0.7, share",
    "regression": "assert auc > 0.8, auc",
    "comparing_explainers": "assert list(scores.index) == list(explainers)",
    "alternatives_and_effects": "assert right > 0.8, right",
    "rules_and_counterfactuals": "assert book.fidelity > 0.9 and any(changes), book",
}
"""What must hold at the end, as a reader would see it."""

NEEDED = {
    "molecules": ["rdkit", "pandas"],
    "chemprop": ["chemprop"],
    "comparing_explainers": ["pandas"],
    "rules_and_counterfactuals": ["rdkit"],
}


def read(name):
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def test_none_is_forgotten():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(SMALL) == set(CHECKS)


@pytest.mark.parametrize("name", SMALL)
def test_kept_without_outputs(name):
    notebook = read(name)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs") and cell.get("execution_count") is None
    assert notebook.cells[0].source.startswith("# ")


@pytest.mark.parametrize("name", SMALL)
def test_notebook(name, tmp_path, monkeypatch):
    for module in NEEDED.get(name, ()):
        try:
            importlib.import_module(module)
        except ImportError:
            pytest.skip(f"needs {module}")
    monkeypatch.setenv("HPME_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = read(name)
    (parameters,) = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", ())]
    parameters.source = f"{SMALL[name]}\n{QUICK}"
    notebook.cells.append(nbformat.v4.new_code_cell(CHECKS[name]))
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=300, resources=resources).execute()
    shown = [
        output.data
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "data" in output
    ]
    assert any("text/html" in data or "image/png" in data for data in shown)
