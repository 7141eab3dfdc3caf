"""Tables from results made by hand: what stands in each cell, and what is said about it."""

import pytest

from hpme.bench import Experiment
from hpme.data import DATASETS
from hpme.paper.shared.blocks import cost_table, evidence_tables, target_tables
from hpme.paper.shared.cells import gather
from hpme.paper.shared.comparison import comparison, p_text
from hpme.paper.shared.names import paper_table
from hpme.paper.shared.scores import score_table
from hpme.paper.shared.suite import Suite
from hpme.paper.suites import SUITES
from hpme.paper.table1 import METRICS, named
from hpme.paper.tune import setting


def suite_of(datasets, methods, **changes):
    return Suite(
        "made",
        "Made",
        lambda seeds: [
            Experiment(d, m, s, **changes) for d in datasets for m in methods for s in seeds
        ],
    )


def cells_of(records, datasets=("ba-2motifs", "benzene"), methods=("grad", "hpme"), failures=()):
    return gather(suite_of(datasets, methods), records, failures)


def texts(table):
    return {title: [entry.text for entry in entries] for title, entries in table.rows}


def entry(table, row, column=0):
    return dict(table.rows)[row][column]


@pytest.fixture
def runs(make_record):
    """Two methods on two datasets with two seeds."""
    means = {
        ("ba-2motifs", "grad"): 0.6,
        ("ba-2motifs", "hpme"): 0.9,
        ("benzene", "grad"): 0.7,
        ("benzene", "hpme"): 0.7,
    }
    return [
        make_record(d, m, seed, values={"auc": mean + offset})
        for (d, m), mean in means.items()
        for seed, offset in ((100, -0.01), (101, 0.01))
    ]


def test_means_spread_and_the_papers_values(runs):
    paper = paper_table("table1")
    table = score_table("t", "Caption", cells_of(runs), ["auc"], paper=paper)
    assert [column.title for column in table.columns] == ["BA-2Motifs", "Benzene"]
    assert texts(table) == {
        "Grad": ["0.600 ± 0.010", "0.700 ± 0.010"],
        "HPME": ["0.900 ± 0.010", "0.700 ± 0.010"],
    }
    assert entry(table, "HPME").paper == "0.971 ± 0.021"
    assert entry(table, "Grad", 1).paper == "0.506 ± 0.005"
    assert "over 2 seeds. Seeds: 100-101." in table.notes[0]
    assert table.marks == ()


def test_several_metrics_have_columns_each(make_record):
    suite = suite_of(["benzene"], ["grad", "hpme"], metrics=("shift",))
    records = [
        make_record("benzene", m, s, values={"cosine": v, "euclidean": v}, metrics=("shift",))
        for m, v in (("grad", 0.2), ("hpme", 0.4))
        for s in (0, 1)
    ]
    table = score_table("t", "", gather(suite, records), ["cosine", "euclidean"])
    assert [(c.group, c.title) for c in table.columns] == [
        ("Benzene", "Cos. ↑"),
        ("Benzene", "Euc. ↓"),
    ]


def test_one_seed_and_one_method(make_record):
    table = score_table("t", "", cells_of([make_record()]), ["auc"])
    assert texts(table) == {"HPME": ["0.500"]}
    assert table.notes[0].startswith("One seed, hence no spread.")
    assert "Not run: Grad and Benzene." in table.notes


def test_fewer_seeds_are_footnoted(runs, make_record):
    table = score_table("t", "", cells_of(runs[1:]), ["auc"])
    assert entry(table, "Grad").mark == "a"
    assert entry(table, "Grad").text == "0.610"
    assert table.marks == (("a", "1 of 2 runs."),)


def test_missing_failed_and_undefined_cells(runs, make_record):
    undefined = {"values": {"auc": None}, "undefined": {"auc": "scores contain NaN"}}
    records = [
        *runs[:2],
        *(make_record("benzene", "hpme", seed, **undefined) for seed in (100, 101)),
    ]
    failure = {
        "experiment": Experiment("benzene", "grad", 100).to_dict(),
        "error": "MemoryError",
        "message": "too large",
    }
    table = score_table("t", "", cells_of(records, failures=[failure]), ["auc"])
    assert texts(table) == {"Grad": ["0.600 ± 0.010", "failed"], "HPME": ["—", "undefined"]}
    marks = dict(table.marks)
    assert marks[entry(table, "Grad", 1).mark] == "1 run failed: MemoryError: too large"
    assert (
        marks[entry(table, "HPME", 1).mark]
        == "AUC is undefined for 2 of 2 runs: scores contain NaN."
    )
    assert "— was not run or not measured." in table.notes


def test_partly_undefined_cells_say_so(make_record):
    undefined = {"values": {"auc": None}, "undefined": {"auc": "no edges"}}
    records = [make_record(seed=0), make_record(seed=1, **undefined)]
    table = score_table("t", "", cells_of(records), ["auc"])
    assert entry(table, "HPME").text == "0.500"
    assert table.marks == (("a", "AUC is undefined for 1 of 2 runs: no edges."),)


def test_reduced_settings_are_named(make_record):
    few = {"graphs": 20, "size": 50, "train_steps": 7}
    records = [make_record("ba-2motifs", m, **few) for m in ("grad", "hpme")]
    said = "20 explained graphs in place of 200, a dataset of 50 graphs, "
    table = score_table("t", "", cells_of(records), ["auc"])
    assert any(note.startswith(f"All cells were run with {said}") for note in table.notes)
    assert table.marks == ()
    table = score_table("t", "", cells_of([records[0], make_record()]), ["auc"])
    assert entry(table, "Grad").mark == "a" and entry(table, "HPME").mark == ""
    assert table.marks[0][1].startswith(f"Run with {said}")


def test_datasets_with_fewer_graphs_than_asked_for(make_record):
    records = [make_record(context={"graphs": 150}), make_record("benzene")]
    table = score_table("t", "", cells_of(records), ["auc"])
    assert table.marks == (("a", "Run with 150 explained graphs, as the dataset has no more."),)


def test_notes_on_methods(make_record):
    told, copied = (
        {"pool_ratio_source": "ground truth"},
        {"target_model_metrics": {"accuracy": 1.0}},
    )
    asked, chosen = {"metrics": METRICS}, setting("metagnn", "benzene", "chosen")
    smaller = {"variant": "downsampled", "context": {"rule": "the rule"}}
    records = [
        make_record("benzene", "hpme", context=told, **asked),
        make_record("benzene", "metagnn", options=chosen, context=copied, **asked),
        make_record("alkane-carbonyl", "hpme", **smaller, **asked),
    ]
    notes = " ".join(score_table("t", "", gather(SUITES["table1"], records), ["auc"]).notes)
    assert "HPME: the pooled size comes from the ground truth" in notes
    assert "MetaGNN: explains a copy of the target" in notes
    assert "Alkane-Carbonyl (downsampled): the rule" in notes


def test_targets_are_averaged_and_named(make_record):
    records = [
        make_record("benzene", "random", seed, target_seed=target, metrics=METRICS,
                    values={"auc": 0.5 + 0.1 * target + (seed - 400) / 100})
        for target in (0, 1) for seed in (400, 401)
    ]  # fmt: skip
    cells = gather(SUITES["table1"], [*records, make_record("benzene", "random", target_seed=7)])
    table = score_table("t", "", cells, ["auc"])
    assert texts(table) == {"Random": ["0.555 ± 0.050"]}
    assert (
        "over 2 targets (seeds 0-1), each the mean of its seeds. Seeds: 400-401." in table.notes[0]
    )


def test_baselines_stand_in_one_row_whatever_their_settings(make_record):
    asked = [e for e in SUITES["table1"].experiments((400,)) if e.explainer == "pgexplainer"]
    records = [
        make_record(e.dataset, "pgexplainer", 400, options=e.options, variant=e.variant,
                    metrics=e.metrics, values={"auc": 0.5})
        for e in asked if e.target_seed == 0
    ]  # fmt: skip
    assert len({str(e.options) for e in asked}) > 1
    cells = named(gather(SUITES["table1"], records))
    assert cells.rows == ["PGExplainer"] and len(cells.columns) == 13


def test_ranks_and_tests_in_a_table(runs):
    table = comparison(cells_of(runs))[0]
    rows = texts(table)
    assert list(rows) == ["HPME", "Grad"]  # best first
    assert rows["HPME"] == ["0.800", "1.25", "—", "0.010", *[""] * 9]
    assert rows["Grad"][:6] == ["0.650", "1.75", "—", "0.010", "+0.000", "Benzene"]
    assert rows["Grad"][6:11] == ["2", "1", "1", "0", "+0.150"]
    assert rows["Grad"][11] == rows["Grad"][12] == "1.0000"  # both signs of one difference
    assert "of the 2 datasets" in table.notes[0]


def test_bold_is_a_test_over_datasets_that_tells(make_record):
    def bold(count):
        names = list(DATASETS)[:count]
        records = [
            make_record(name, method, values={"auc": value + place / 100})
            for place, name in enumerate(names)
            for method, value in (("hpme", 0.9 + place / 1000), ("grad", 0.5))
        ]
        table = comparison(cells_of(records, names))[0]
        return entry(table, "Grad", -1).best

    assert bold(8) and not bold(5)  # the smallest p of five is 1/16


def test_comparison_without_ours_or_without_others(runs, make_record):
    others = [
        make_record("benzene", m, values={"auc": v}) for m, v in (("grad", 0.3), ("random", 0.5))
    ]
    cells = cells_of(others, methods=("grad", "random"))
    table = comparison(cells)[0]
    assert texts(table) == {
        "Random": ["0.500", "1.00", "—", "—"],
        "Grad": ["0.300", "2.00", "—", "—"],
    }
    assert comparison(cells_of(runs[2:4])) == []


def test_ranks_over_fewer_datasets_are_admitted(runs):
    table = comparison(cells_of(runs[:6]))[0]
    assert "every method has a value; left out: Benzene." in table.notes[0]


def test_what_reports_say_beside_what_explanations_are_worth(runs, make_record):
    weak = {"effect": 0.25, "p_value": 0.04, "warnings": ["weak"]}
    good = {"effect": 0.75, "p_value": 0.0005, "warnings": []}
    records = [
        make_record("benzene", "hpme", seed, values={"auc": auc}, context={"report": report})
        for seed, auc, report in ((0, 0.4, weak), (1, 0.6, good))
    ]
    (table,) = evidence_tables(cells_of([*runs[:4], *records]))
    assert [(column.group, column.title) for column in table.columns][:2] == [
        ("HPME", "AUC"),
        ("HPME", "effect"),
    ]
    assert texts(table)["Benzene"] == ["0.500", "0.50", "0.04", "1 of 2"]
    assert texts(table)["BA-2Motifs"] == ["—"] * 4  # no report was kept
    assert evidence_tables(cells_of(runs[:2], methods=("grad",))) == []


def test_p_values():
    assert [p_text(p) for p in (None, 0.05, 0.00009, 1.0)] == ["—", "0.0500", "< 0.0001", "1.0000"]


def test_targets_beside_the_papers(make_record):
    perfect = {"target_metrics": {"test": {"accuracy": 1.0}}}
    regression = {"target_metrics": {"test": {"rmse": 12.0, "mape": 0.05}}}
    records = [
        make_record("ba-2motifs", seed=0),
        make_record("ba-2motifs", seed=1),  # the same target
        make_record("ba-2motifs", model="gin", context=perfect),
        make_record("house-grid-volume", context=regression),
    ]
    classes, values = target_tables("t", records)
    assert texts(classes) == {
        "BA-2Motifs, GCN, seed 0": ["90.00"],
        "BA-2Motifs, GIN, seed 0": ["100.00"],
    }
    assert [e.paper for _, (e,) in classes.rows] == ["99.00", "100.00"]
    assert texts(values) == {"House-Grid-Volume, GCN, seed 0": ["12.00", "5.00"]}
    assert [e.paper for e in values.rows[0][1]] == ["11.32", "2.45"]


def test_median_costs(make_record):
    records = [
        make_record("benzene", "hpme", seed, cost={"fit_seconds": seconds})
        for seed, seconds in enumerate((1.0, 9.0, 2.0))
    ]
    table = cost_table(cells_of(records))
    assert texts(table) == {"HPME": ["3", "2.0", "0.50", "—", "—", "—", "100"]}
    assert cost_table(cells_of([])) is None
