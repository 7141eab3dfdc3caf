import pytest

from hpme.bench import Experiment, Target
from hpme.data import load_dataset
from hpme.models import Recipe
from inline import Inline


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("bench-cache")


@pytest.fixture
def own_cache(cache, monkeypatch):
    """The cache for code that takes no root."""
    monkeypatch.setenv("HPME_CACHE_DIR", str(cache))
    return cache


@pytest.fixture(scope="session")
def dataset(cache):
    return load_dataset("ba-2motifs", size=40, root=cache)


@pytest.fixture(scope="session")
def target(cache, dataset):
    recipe = Recipe(max_steps=3, batch_size=16)
    return Target.prepare(dataset, "gcn", 1, recipe=recipe, root=cache)


@pytest.fixture
def tiny():
    """Makes experiments that take a moment."""

    def make(explainer="random", seed=0, dataset="ba-2motifs", **changes):
        settings = {"size": 40, "graphs": 6, "train_steps": 3, **changes}
        return Experiment(dataset, explainer, seed, **settings)

    return make


@pytest.fixture
def inline():
    return Inline
