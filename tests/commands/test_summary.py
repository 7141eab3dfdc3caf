"""Several seeds as one result."""

import json
from dataclasses import replace

import pytest

from hpme.commands.run import summary, write_summary


@pytest.fixture
def record(make_record):
    return make_record("ba-2motifs", "random", 0, target_seed=1, graphs=4)


def with_auc(record, auc):
    return replace(record, values={**record.values, "auc": auc})


def with_experiment(record, **changes):
    return replace(record, experiment=replace(record.experiment, **changes))


def test_mean_and_population_std(record):
    content = summary([with_auc(record, auc) for auc in (0.5, 0.9, None)])
    assert content["auc_mean"] == pytest.approx(0.7)
    assert content["auc_std"] == pytest.approx(0.2)


def test_without_any_auc_there_is_no_mean(record):
    content = summary([with_auc(record, None)])
    assert content["auc_mean"] is None
    assert content["auc_std"] is None


def test_written_as_json(tmp_path, record):
    path = tmp_path / "new" / "result.json"
    write_summary(summary([record, with_experiment(record, seed=1)]), path)
    content = json.loads(path.read_text())
    assert list(content) == [
        "dataset", "variant", "explainer", "model", "auc_mean", "auc_std", "runs",
    ]  # fmt: skip
    assert [run["seed"] for run in content["runs"]] == [0, 1]
    run = content["runs"][0]
    assert (run["seed"], run["target_seed"], run["graphs"]) == (0, 1, 4)
    assert (run["auc"], run["auc_undefined"]) == (record.values["auc"], None)
    assert run["config"] == record.context["config"]
    assert {"fit_seconds", "explain_seconds", "versions", "size", "rule"} <= set(run)
    assert list(path.parent.iterdir()) == [path]
