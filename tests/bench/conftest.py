import pytest
import torch

from hpme.bench import Experiment, Target
from hpme.bench.jobs import Done, work
from hpme.data import load_dataset
from hpme.models import Recipe


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


class Inline:
    """Does jobs in this process, as soon as somebody waits for them."""

    def __init__(self, function=work):
        self.function, self.jobs, self.log, self.closed = function, [], [], False

    @property
    def free(self):
        return not self.jobs

    def submit(self, job):
        self.jobs.append(job)
        self.log.append(job)

    def wait(self, timeout):
        jobs, self.jobs = self.jobs, []
        done = [self.function(job) for job in jobs]
        assert all(isinstance(item, Done) for item in done)
        torch.set_num_threads(1)
        return done

    def close(self):
        self.closed = True


@pytest.fixture
def inline():
    return Inline
