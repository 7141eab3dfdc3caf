"""Several seeds as one result."""

import json
from dataclasses import replace

import pytest

from hpme.bench import Summary, run_experiment
from hpme.errors import InputError


@pytest.fixture(scope="module")
def record(dataset, target):
    return run_experiment(dataset, target, "random", count=4).record


def test_mean_and_population_std(record):
    summary = Summary([replace(record, auc=auc) for auc in (0.5, 0.9, None)])
    assert summary.auc_mean == pytest.approx(0.7)
    assert summary.auc_std == pytest.approx(0.2)


def test_without_any_auc_there_is_no_mean(record):
    content = Summary([replace(record, auc=None)]).to_dict()
    assert content["auc_mean"] is None
    assert content["auc_std"] is None


def test_only_seeds_may_differ(record):
    with pytest.raises(InputError, match="one experiment"):
        Summary([record, replace(record, model="gin")])
    with pytest.raises(InputError, match="one experiment"):
        Summary([])


def test_written_as_json(tmp_path, record):
    path = tmp_path / "new" / "result.json"
    Summary([record, replace(record, seed=1)]).write(path)
    content = json.loads(path.read_text())
    assert list(content) == [
        "dataset", "variant", "explainer", "model", "auc_mean", "auc_std", "runs",
    ]  # fmt: skip
    assert [run["seed"] for run in content["runs"]] == [0, 1]
    assert content["runs"][0] == record.to_dict()
    assert list(path.parent.iterdir()) == [path]
