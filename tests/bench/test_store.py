"""Results on disk."""

import json
import subprocess
import sys

import pytest

from hpme.bench import Failure, ResultStore, experiment, run_experiment
from hpme.bench.store import Plan
from hpme.storage import canonical_json


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
    path = store.path()
    assert path.read_bytes() == record.to_bytes() + b"\n"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        lambda content: content.replace(b'"auc":0', b'"auc":1'),
        lambda content: content.replace(b'"seed":0', b'"seed":1'),
    ],
)
def test_damaged_lines_are_as_good_as_none(store, tiny, make_record, damage):
    record, other = run_experiment(tiny()), make_record()
    store.put(record)
    path = store.path()
    content = path.read_bytes()
    assert damage(content) != content
    path.write_bytes(damage(content))
    assert store.get(record.experiment) is None
    assert list(store.records()) == []
    for again in (other, record):
        store.put(again)
    assert store.get(record.experiment) == record and store.get(other.experiment) == other
    store.sort(["other"])
    lines = sorted([record, other], key=lambda r: r.experiment.key)
    assert path.read_bytes() == b"".join(r.to_bytes() + b"\n" for r in lines)


@pytest.mark.parametrize("lost", [1, 2, 100, 500])
def test_a_torn_last_line_costs_that_result_alone(store, make_record, lost):
    first, torn, last = (make_record(seed=seed) for seed in range(3))
    for record in (first, torn):
        store.put(record, "table1")
    path = store.path("table1")
    path.write_bytes(path.read_bytes()[:-lost])
    whole = [first, torn] if lost == 1 else [first]  # only the end of the line
    assert {r.experiment.seed for r in store.records()} == {r.experiment.seed for r in whole}
    store.put(last, "table1")
    assert store.get(first.experiment) == first and store.get(last.experiment) == last
    assert (store.get(torn.experiment) is None) == (lost > 1)


def test_what_is_stored_again_counts(store, make_record):
    old, new = make_record(values={"auc": 0.1}), make_record(values={"auc": 0.2})
    store.put(old, "table1")
    store.put(new, "table1")
    assert store.get(old.experiment) == new
    assert list(store.records()) == [new]
    store.sort(["table1", "never-run"])
    assert store.path("table1").read_bytes() == new.to_bytes() + b"\n"
    assert not store.path("never-run").exists()


def test_results_of_other_versions_stay_in_the_file(store, make_record, monkeypatch):
    monkeypatch.setattr(experiment, "RESULT_VERSION", 1)
    store.put(make_record(explainer="grad"), "table1")
    monkeypatch.undo()
    before = store.path("table1").read_bytes()
    assert list(store.records()) == []
    store.sort(["table1"])
    assert store.path("table1").read_bytes() == before


def test_earlier_results_of_an_explainer_that_has_changed(store, make_record, monkeypatch):
    """Tables show them until there are new ones; they are run again."""
    monkeypatch.setattr(experiment, "CHANGED", {})
    old = make_record(values={"auc": 0.1})
    store.put(old, "table1")
    monkeypatch.undo()
    assert store.get(old.experiment) is None and list(store.records()) == []
    assert Plan.of([old.experiment], store).todo == [old.experiment]
    (shown,) = store.records(earlier=True)
    assert shown.earlier and shown.values == {"auc": 0.1}
    new = make_record(values={"auc": 0.2})
    store.put(new, "table1")
    assert list(store.records(earlier=True)) == [new] == list(store.records())


def test_the_folder_names_the_suites_that_were_run(store, make_record):
    assert store.suites() == set()
    store.begin(["table1", "told"])
    store.put(make_record(), "table1")
    store.begin(["table1", "told"])
    assert store.suites() == {"table1", "told"}
    assert len(list(store.records())) == 1
    store.put(make_record(seed=1))
    assert store.suites() == set()


def test_files_of_older_versions_are_read(store, make_record):
    """One file per result, and spelled in another way."""
    old, new = make_record(), make_record(seed=1)
    path = store.folder / "results" / f"{old.experiment.key}.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(canonical_json(old.to_dict()))
    store.put(new, "table1")
    assert store.get(old.experiment) == old
    assert {r.experiment.key for r in store.records()} == {r.experiment.key for r in (old, new)}
    assert store.suites() == set()
    path.write_bytes(path.read_bytes()[:-20])
    assert store.get(old.experiment) is None and list(store.records()) == [new]


def test_runs_that_write_at_the_same_time(tmp_path, make_record):
    """Each sorts what it has written while the others go on."""
    store = ResultStore(tmp_path)
    records = [make_record(seed=seed) for seed in range(60)]
    for record in records:
        store.put(record, "in")
    program = (
        "import sys; from hpme.bench import ResultStore\n"
        "store, mine = ResultStore(sys.argv[1]), int(sys.argv[2])\n"
        "for number, record in enumerate(list(store.records())):\n"
        "    if number % 3 == mine:\n"
        "        store.put(record, 'out')\n"
        "        store.sort(['out'])\n"
    )
    runs = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), str(number)])
        for number in range(3)
    ]
    assert [run.wait() for run in runs] == [0, 0, 0]
    assert store.path("out").read_bytes().count(b"\n") == 60
    store.sort(["in"])
    assert store.path("out").read_bytes() == store.path("in").read_bytes()


def test_a_result_ends_a_failure(store, tiny):
    failed = tiny()
    store.put_failure(failed, Failure("ModelError", "it broke", "line 1"))
    (failure,) = store.failures()
    assert failure["experiment"] == json.loads(json.dumps(failed.to_dict()))
    assert (failure["error"], failure["message"]) == ("ModelError", "it broke")
    assert store.get(failed) is None
    store.put(run_experiment(failed))
    assert list(store.failures()) == []
