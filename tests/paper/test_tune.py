"""Settings of baselines: the grids, and the ways to choose among them."""

import json
import random
from pathlib import Path
from typing import get_args

import pytest

from hpme.bench import Record, ResultStore
from hpme.data import DATASETS
from hpme.errors import InputError
from hpme.explainers import EXPLAINERS, explainer_class
from hpme.paper import tune
from hpme.paper.settings import by_rule as baseline_blocks
from hpme.paper.shared.cells import Results, gather
from hpme.paper.shared.document import Table, fill
from hpme.paper.suites import EVERYTHING, SUITES

SETTINGS = [(0.9, 0.5, 2.0, 0.1), (0.7, 0.1, 1.0, 0.2), (0.8, 0.2, 3.0, 0.9)]
"""AUC, disagreement, loss, fidelity."""
TOLD = {"hpme-printed": {"ratio": 0.2}}
"""What a method cannot be made without."""


def test_every_method_has_as_many_settings():
    assert {len(grid) for grid in tune.GRIDS.values()} == {len(tune.DESIGN)}
    for method, settings in tune.GRIDS.items():
        assert len({json.dumps(options) for options in settings}) == len(tune.DESIGN)
        for options in settings:
            explainer_class(method)(**options, **TOLD.get(method, {}))
    learned = {name for name, kind in EXPLAINERS.items() if "size_weight" in kind.option_names()}
    assert learned | {"hpme-printed"} == set(tune.GRIDS)


def test_where_nobody_tuned_a_method_has_its_defaults():
    for rule in get_args(tune.Rule):
        assert tune.setting("hpme-printed", "a-set-of-ones-own", rule) == {}
    assert tune.setting("hpme-printed", "benzene", "chosen") == {"bce_weight": 0.3}


def test_ways_to_choose():
    assert tune.best_auc(SETTINGS) == 0
    assert tune.best_mix(SETTINGS) == 1
    assert tune.best_fidelity(SETTINGS) == 2
    ranked = {"a": SETTINGS, "b": [(0.1, 0, 0, 0), (0.6, 0, 0, 0), (0.7, 0, 0, 0)]}
    assert tune.best_rank(ranked) == 2  # ranks 2 and 1; the first has 1 and 3
    level = {"a": [(0.9, 0, 0, 0), (0.8, 0, 0, 0)], "b": [(0.1, 0, 0, 0), (0.6, 0, 0, 0)]}
    assert tune.best_rank(level) == 1  # equal ranks, the higher mean


def test_the_page_shows_what_was_measured():
    page = (Path(__file__).parents[2] / "docs" / "measured" / "settings.md").read_text()
    for table in tune.tables(tune.tuning()):
        assert fill("table.md.j2", table=table).strip() in page


def test_all_settings_were_measured():
    known = tune.tuning()
    assert set(known) == set(tune.GRIDS)
    for by_dataset in known.values():
        assert list(by_dataset) == list(tune.GRAPH_DATASETS)
        assert all(len(settings) == len(tune.DESIGN) for settings in by_dataset.values())


@pytest.mark.parametrize("method", tune.GRIDS)
def test_defaults_are_a_setting_of_the_grid(method):
    assert tune.setting(method, "benzene", "default") == {}
    options = tune.GRIDS[method][tune.default_number(method)]
    told = TOLD.get(method, {})
    default, made = explainer_class(method)(**told), explainer_class(method)(**options, **told)
    if method == "metagnn":  # of what explains the copy
        default, made = default.explainer, made.explainer
    assert made.get_params() == default.get_params()


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
        method: {name: [[draws.random() for _ in tune.VALUES] for _ in grid]
                 for name in tune.GRAPH_DATASETS}
        for method, grid in tune.GRIDS.items()
    }  # fmt: skip
    places: dict[tuple[str, str], int] = {}
    store = ResultStore(tmp_path)
    for experiment in tune.experiments((0,)):
        place = experiment.explainer, experiment.dataset
        number = places[place] = places.get(place, -1) + 1
        values = known[experiment.explainer][experiment.dataset][number]
        store.put(record(experiment, dict(zip(tune.VALUES, values, strict=True))))
    records = list(store.records())
    assert tune.measured(records) == {
        method: {name: [[round(v, 4) for v in row] for row in rows] for name, rows in sets.items()}
        for method, sets in known.items()
    }
    one = [record for record in records if record.experiment.explainer == "hpme-printed"]
    assert list(tune.measured(one)) == ["hpme-printed"]  # the others keep what is known of them
    with pytest.raises(InputError, match=r"has no result; run `hpme bench tune` to its end"):
        tune.measured(records[1:])
    results = Results(tuple(records), (), {"tune": tune.SUITE})
    summary, *others = tune.blocks(results.cells["tune"], results)
    assert [row for row, _ in summary.rows] == [EXPLAINERS[name].title for name in known]
    assert len(others) == len(known)
    few = Results(tuple(records[1:]), (), {"tune": tune.SUITE})
    text, *_ = tune.blocks(few.cells["tune"], few)
    assert "has no result" in text


def test_a_method_that_was_hardly_run_does_not_take_the_others_datasets():
    """Its default was run on three datasets and its chosen settings on one."""
    suite, wanted = SUITES["baselines"], []
    sets = {"default": ("benzene", "crippen", "triangles"), "chosen": ("benzene",)}
    for one in suite.experiments((200,)):
        options = dict(one.options)
        rules = [r for r, names in sets.items() if one.dataset in names
                 and options == tune.setting("hpme-printed", one.dataset, r)]  # fmt: skip
        known = one.explainer == "pgexplainer" or (one.explainer == "hpme-printed" and rules)
        if known and one.target_seed == 0 and one.dataset in sets["default"]:
            wanted.append(record(one, {"auc": 0.5}))
    blocks = baseline_blocks(gather(suite, wanted), Results((), (), {}))
    rows = {row for block in blocks if isinstance(block, Table) for row, _ in block.rows}
    assert any(row.startswith("PGExplainer") for row in rows)
    assert not any(row.startswith("HPME as printed, ") for row in rows)


def test_a_result_stands_where_each_rule_leads_to_it():
    suite = SUITES["baselines"]
    dataset, method = "benzene", "pgexplainer"
    rows = [
        record(experiment, {"auc": 0.5 + number / 100})
        for number, experiment in enumerate(suite.experiments((200,)))
        if (experiment.dataset, experiment.explainer, experiment.target_seed)
        == (dataset, method, 0)
    ]
    cells = gather(suite, rows)
    (table,) = [
        block for block in baseline_blocks(cells, Results((), (), {}))
        if isinstance(block, Table) and block.name == "baselines-classification"
    ]  # fmt: skip
    shown = {row: entries[0].text for row, entries in table.rows}
    title = EXPLAINERS[method].title
    assert set(shown) == {f"{title}, {rule}" for rule in get_args(tune.Rule)}
    for rule in get_args(tune.Rule):
        options = tune.setting(method, dataset, rule)
        value = next(r.values["auc"] for r in rows if dict(r.experiment.options) == options)
        assert shown[f"{title}, {rule}"] == f"{value:.3f}"
    assert table.columns[0].title == DATASETS[dataset].title
