"""Datasets and targets that travel."""

import pytest

from hpme.bench import run_experiment
from hpme.bench.jobs import is_prepared, pack, unpack
from hpme.bench.run import dataset_and_target
from hpme.models import registry


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Moves on to a machine with an empty cache."""

    def move(name):
        dataset_and_target.cache_clear()
        monkeypatch.setenv("HPME_CACHE_DIR", str(tmp_path / name))

    return move


def test_a_target_is_trained_once(elsewhere, tiny, monkeypatch):
    experiment = tiny(train_steps=4)
    elsewhere("here")
    assert not is_prepared(experiment)
    here = run_experiment(experiment)
    assert is_prepared(experiment)
    bundle = pack(experiment)
    elsewhere("there")
    assert not is_prepared(experiment)
    unpack(bundle)
    unpack(bundle)
    assert is_prepared(experiment)
    assert pack(experiment) == bundle
    monkeypatch.setattr(registry, "train_target", lambda *_, **__: pytest.fail("trained again"))
    assert run_experiment(experiment).values == here.values
    dataset_and_target.cache_clear()


def test_the_cells_of_another_target_are_not_prepared(elsewhere, tiny):
    elsewhere("here")
    run_experiment(tiny())
    assert not is_prepared(tiny(model="gat"))
    assert not is_prepared(tiny(size=50))
    dataset_and_target.cache_clear()
