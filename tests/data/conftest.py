import os
from pathlib import Path

import pytest
from hypothesis import settings

from hpme.data import load_dataset

# No deadline: on a busy machine a slow example is not a wrong one.
settings.register_profile("hpme", deadline=None, max_examples=50)
settings.load_profile("hpme")

SHARED = Path(__file__).parents[2] / ".." / "shared" / "data"


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
