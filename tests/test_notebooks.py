"""Every notebook runs, with sizes made small, and is kept without outputs."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

from IPython.core.interactiveshell import InteractiveShell  # noqa: E402
from IPython.utils.capture import capture_output  # noqa: E402
from traitlets.config import Config  # noqa: E402

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"
QUICK = "SEARCH = {'restarts': 1}"
SMALL = {
    "molecules": "MOLECULES, EPOCHS = 64, 15",
    "chemprop": "ENDS, EPOCHS = 2, 4",
    "fraud_nodes": "ACCOUNTS, RINGS, EPOCHS = 120, 6, 100",
    "regression": "GRAPHS, EPOCHS, EXPLAINED = 200, 60, 40",
    "comparing_explainers": "SIZE, STEPS, EXPLAINED = 60, 60, 12",
    "alternatives_and_effects": "GRAPHS = 24",
    "rules_and_counterfactuals": "LINKS, EPOCHS = 2, 60",
    "published_model": "DRUGS, NETWORKS = 24, 2",
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
    "published_model": "assert min(probability[:8]) > 0.5 > max(probability[8:]), probability\n"
    "assert len(qualities) == 12 and len(inside) == 8\n"
    "assert 'spread of the ensemble' in page.read_text('utf-8')",
}
"""What must hold at the end, as a reader would see it."""

NEEDED = {
    "molecules": ["rdkit", "pandas"],
    "chemprop": ["chemprop"],
    "comparing_explainers": ["pandas"],
    "rules_and_counterfactuals": ["rdkit"],
    "published_model": ["chemprop", "admet_ai"],
}
HOW = {
    "chemprop": "pip install 'hpme[chemprop]'",
    "admet_ai": "pip install --no-deps admet-ai, or run make chemprop",
}


IN_A_KERNEL = "fraud_nodes"
"""The others run in this process."""


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
def test_notebook(name, tmp_path, cache_root, monkeypatch):
    for module in NEEDED.get(name, ()):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}: {HOW.get(module, f'pip install {module}')}")
    monkeypatch.setenv("HPME_CACHE_DIR", str(cache_root))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    notebook = read(name)
    (parameters,) = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", ())]
    parameters.source = f"{SMALL[name]}\n{QUICK}"
    notebook.cells.append(nbformat.v4.new_code_cell(CHECKS[name]))
    shown = in_a_kernel(notebook, tmp_path) if name == IN_A_KERNEL else in_this_process(notebook)
    assert any("text/html" in data or "image/png" in data for data in shown)


def in_a_kernel(notebook, folder):
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=600, resources=resources).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [output.data for output in outputs if "data" in output]


def in_this_process(notebook):
    """By the shell that kernels have, too; every kernel would load all libraries once more."""
    config = Config({"HistoryManager": {"enabled": False}})
    shell = InteractiveShell.instance(user_module=ModuleType("notebook"), config=config)
    shown = []
    try:
        for cell in notebook.cells:
            if cell.cell_type == "code":
                with capture_output() as captured:
                    result = shell.run_cell(cell.source)
                result.raise_error()
                shown += [output.data for output in captured.outputs]
                shown.append(shell.display_formatter.format(result.result)[0])
    finally:
        shell.restore_sys_module_state()
        InteractiveShell.clear_instance()
        sys.modules.pop("notebook", None)
    return shown
