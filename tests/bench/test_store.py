"""Results on disk."""

import json

import pytest

from hpme.bench import Failure, ResultStore, run_experiment


@pytest.fixture
def store(tmp_path, own_cache):
    return ResultStore(tmp_path / "out")


def test_what_was_put_is_found(store, tiny):
    record = run_experiment(tiny())
    assert store.get(record.experiment) is None
    store.put(record)
    assert store.get(record.experiment) == record
    assert store.get(tiny(seed=1)) is None
    assert list(store.records()) == [record]
    path = store.folder / "results" / f"{record.experiment.key}.json"
    assert path.read_bytes() == record.to_bytes()
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        lambda content: content.replace(b'"auc": 0', b'"auc": 1'),
        lambda content: content.replace(b'"seed": 0', b'"seed": 1'),
    ],
)
def test_damaged_files_are_as_good_as_none(store, tiny, damage):
    record = run_experiment(tiny())
    store.put(record)
    path = store.path(record.experiment)
    content = path.read_bytes()
    assert damage(content) != content
    path.write_bytes(damage(content))
    assert store.get(record.experiment) is None
    assert list(store.records()) == []


def test_a_result_ends_a_failure(store, tiny):
    experiment = tiny()
    store.put_failure(experiment, Failure("ModelError", "it broke", "line 1"))
    (failure,) = store.failures()
    assert failure["experiment"] == json.loads(json.dumps(experiment.to_dict()))
    assert (failure["error"], failure["message"]) == ("ModelError", "it broke")
    assert store.get(experiment) is None
    store.put(run_experiment(experiment))
    assert list(store.failures()) == []
