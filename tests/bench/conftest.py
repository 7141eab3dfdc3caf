import pytest

from hpme.bench import Target
from hpme.data import load_dataset
from hpme.models import Recipe


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("bench-cache")


@pytest.fixture(scope="session")
def dataset(cache):
    return load_dataset("ba-2motifs", size=40, root=cache)


@pytest.fixture(scope="session")
def target(cache, dataset):
    recipe = Recipe(max_steps=3, batch_size=16)
    return Target.prepare(dataset, "gcn", 1, recipe=recipe, root=cache)
