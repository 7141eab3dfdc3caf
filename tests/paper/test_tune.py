"""Settings of baselines: the grids, and the ways to choose among them."""

import json
import random

import pytest

from hpme.bench import Record, ResultStore
from hpme.errors import InputError
from hpme.explainers import EXPLAINERS, explainer_class
from hpme.paper import tune
from hpme.paper.shared import tuned
from hpme.paper.shared.cells import Results
from hpme.paper.suites import EVERYTHING, SUITES

SETTINGS = [(0.9, 0.5, 2.0, 0.1), (0.7, 0.1, 1.0, 0.2), (0.8, 0.2, 3.0, 0.9)]
"""AUC, disagreement, loss, fidelity."""


def test_every_method_has_as_many_settings():
    assert {len(grid) for grid in tuned.GRIDS.values()} == {16}
    for method, settings in tuned.GRIDS.items():
        assert len({json.dumps(options) for options in settings}) == 16
        for options in settings:
            explainer_class(method)(**options)
    learned = {name for name, kind in EXPLAINERS.items() if "size_weight" in kind.option_names()}
    assert learned == set(tuned.GRIDS)


def test_ways_to_choose():
    assert tuned.best_auc(SETTINGS) == 0
    assert tuned.best_mix(SETTINGS) == 1
    assert tuned.best_fidelity(SETTINGS) == 2
    ranked = {"a": SETTINGS, "b": [(0.1, 0, 0, 0), (0.6, 0, 0, 0), (0.7, 0, 0, 0)]}
    assert tuned.best_rank(ranked) == 2  # ranks 2 and 1; the first has 1 and 3


def test_the_grid_is_for_tuning_alone():
    assert all(seed < 100 for seed in SUITES["tune"].seeds)
    keys = {experiment.key for experiment in SUITES["tune"].experiments((0,))}
    assert keys.isdisjoint(experiment.key for experiment in EVERYTHING.experiments((0,)))


def record(experiment, values):
    return Record(
        experiment=experiment, values=values, spread={}, undefined={},
        context={"graphs": 100, "variant": None, "config": {}, "target_metrics": {}},
        cost={"fit_seconds": 1.0, "explain_seconds": 1.0, "metric_seconds": 1.0},
        versions={},
    )  # fmt: skip


def test_from_results_to_settings(tmp_path):
    draws = random.Random(0)
    known = {
        method: {name: [[draws.random() for _ in tuned.VALUES] for _ in grid]
                 for name in tune.DATASETS}
        for method, grid in tuned.GRIDS.items()
    }  # fmt: skip
    places: dict[tuple[str, str], int] = {}
    store = ResultStore(tmp_path)
    for experiment in tune.experiments((0,)):
        place = experiment.explainer, experiment.dataset
        number = places[place] = places.get(place, -1) + 1
        values = known[experiment.explainer][experiment.dataset][number]
        store.put(record(experiment, dict(zip(tuned.VALUES, values, strict=True))))
    records = list(store.records())
    assert tune.measured(records) == {
        method: {name: [[round(v, 4) for v in row] for row in rows] for name, rows in sets.items()}
        for method, sets in known.items()
    }
    with pytest.raises(InputError, match=r"has no result; run `hpme bench tune` to its end"):
        tune.measured(records[1:])
    results = Results(tuple(records), (), {"tune": tune.SUITE})
    summary, *others = tune.blocks(results.cells["tune"], results)
    assert [row for row, _ in summary.rows] == [EXPLAINERS[name].title for name in known]
    assert len(others) == len(known)
    few = Results(tuple(records[1:]), (), {"tune": tune.SUITE})
    text, *_ = tune.blocks(few.cells["tune"], few)
    assert "has no result" in text
