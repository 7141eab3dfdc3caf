import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from hpme.bench import Experiment, Record
from hpme.data import load_dataset
from markers import markers_of

# Timings vary too much between machines for a deadline; the same examples in every run.
settings.register_profile("hpme", deadline=None, derandomize=True, max_examples=20)
# Fifty times as many, and others every night: HYPOTHESIS_PROFILE=nightly, or make nightly.
settings.register_profile("nightly", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "hpme"))

SHARED = Path(__file__).parents[1] / ".." / "shared" / "data"


def pytest_collection_modifyitems(items):
    """Markers stand in one place, ``tests/support/markers.py``."""
    for item in items:
        for marker in markers_of(item):
            item.add_marker(marker)


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Small tensors: more threads only wait for each other."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def same_random_numbers():
    """A test that draws numbers draws the same ones in every run."""
    torch.default_generator.manual_seed(0)


@pytest.fixture
def make_record():
    """Makes results of experiments that nobody ran."""

    def make(dataset="ba-2motifs", explainer="hpme", seed=0, *, values=None, **more):
        parts = {name: more.pop(name, {}) for name in ("spread", "undefined", "context", "cost")}
        context = {
            "variant": more.get("variant") or "paper",
            "rule": "",
            "size": 1000,
            "graphs": more.get("graphs", 200),
            "pool_ratio_source": None,
            "config": {},
            "target_metrics": {"test": {"accuracy": 0.9}},
            "target_model_metrics": None,
        }
        cost = {"fit_seconds": 1.0, "explain_seconds": 0.5, "peak_memory_mib": 100.0}
        return Record(
            experiment=Experiment(dataset, explainer, seed, **more),
            values={"auc": 0.5} if values is None else values,
            spread=parts["spread"],
            undefined=parts["undefined"],
            context={**context, **parts["context"]},
            cost={**cost, **parts["cost"]},
            versions={"hpme": "0"},
        )

    return make


@pytest.fixture(scope="session")
def cache_root(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def load(cache_root):
    """Loads a dataset through a cache shared by all tests of the session."""

    def load_cached(name, **options):
        return load_dataset(name, root=cache_root, **options)

    return load_cached


@pytest.fixture
def official(monkeypatch):
    """Points $HPME_DATA_DIR at the published files; their folder."""
    base = Path(os.environ.get("HPME_DATA_DIR", SHARED))
    folder = next((f for f in (base / "official", base) if (f / "ba_2motifs.npz").is_file()), None)
    if folder is None:
        pytest.skip("ba_2motifs.npz not found: set HPME_DATA_DIR to the folder that holds it")
    monkeypatch.setenv("HPME_DATA_DIR", str(base))
    return folder


@pytest.fixture(scope="session")
def molecule_folder():
    """Folder of the published SMILES files."""
    pytest.importorskip("rdkit", reason="molecules need RDKit: pip install 'hpme[chem]'")
    base = Path(os.environ.get("HPME_DATA_DIR", SHARED))
    for folder in (base / "molecules", base):
        if (folder / "benzene_smiles.csv").is_file():
            return folder
    pytest.skip("benzene_smiles.csv not found: set HPME_DATA_DIR to the folder that holds it")


@pytest.fixture
def molecules(molecule_folder, monkeypatch):
    """Points $HPME_DATA_DIR at the published SMILES files; their folder."""
    monkeypatch.setenv("HPME_DATA_DIR", str(molecule_folder))
    return molecule_folder
