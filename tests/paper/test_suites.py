"""The paper's tables and figures as data."""

import itertools
from dataclasses import replace

import pytest

from hpme import paper
from hpme.bench import ALL_EDGES, GROUND_TRUTH, MEAN_RANK, MEASURES, make_explainer
from hpme.bench.measures import EXHIBITS
from hpme.data import DATASETS
from hpme.data.dataset import APART
from hpme.explainers import EXPLAINERS, MixingExplainer, explainer_class
from hpme.models import MODELS
from hpme.paper.shared.cells import gather
from hpme.paper.shared.names import paper_table
from hpme.paper.shared.suite import SEEDS
from hpme.paper.suites import EVERYTHING, SUITES


@pytest.mark.parametrize("suite", SUITES.values(), ids=lambda suite: suite.name)
def test_everything_that_is_named_exists(suite, load):
    dataset = load("ba-2motifs", size=40)
    experiments, made = suite.experiments(suite.seeds), []
    assert len({experiment.key for experiment in experiments}) == len(experiments)
    for experiment in experiments:
        info = DATASETS[experiment.dataset]
        assert experiment.variant is None or experiment.variant in info.variants
        assert experiment.model in MODELS
        assert set(experiment.metrics) <= set(MEASURES) | set(EXHIBITS)
        if experiment.explainer not in EXPLAINERS:
            assert experiment.explainer in (None, GROUND_TRUTH, ALL_EDGES, MEAN_RANK)
        elif (one := (experiment.explainer, experiment.options)) not in made:
            make_explainer(one[0], dataset, 0, one[1])
            made.append(one)
        if "mixups" in experiment.metrics:
            assert issubclass(explainer_class(experiment.explainer), MixingExplainer)


def test_names_are_those_of_the_suites():
    assert tuple(SUITES) == paper.NAMES


def test_all_has_every_experiment_once_with_all_its_metrics():
    def bare(experiment):
        return replace(experiment, metrics=()).key

    everything = EVERYTHING.experiments(SEEDS)
    merged = {bare(experiment): set(experiment.metrics) for experiment in everything}
    wanted: dict[str, set[str]] = {}
    for suite in (suite for suite in SUITES.values() if suite.reported):
        for experiment in suite.experiments(suite.seeds):
            wanted.setdefault(bare(experiment), set()).update(experiment.metrics)
    assert merged == wanted
    assert len(merged) == len(everything)
    shared = next(e for e in everything if (e.dataset, e.explainer) == ("benzene", "hpme"))
    assert {"auc", "shift", "explanations"} <= set(shared.metrics)


@pytest.mark.parametrize("suite", [*SUITES.values(), EVERYTHING], ids=lambda suite: suite.name)
def test_experiments_of_one_dataset_come_together_target_by_target(suite):
    places = [(e.target_seed, e.dataset) for e in suite.experiments(suite.seeds)]
    assert sum(a != b for a, b in itertools.pairwise(places)) == len(set(places)) - 1
    assert [target for target, _ in places] == sorted(target for target, _ in places)


@pytest.mark.parametrize(
    ("suite", "tables"),
    [
        ("table1", ["table1"]),
        ("shift", ["shift", "shift-classification", "shift-regression"]),
        ("fidelity", ["fidelity"]),
    ],
)
def test_every_printed_cell_is_measured(suite, tables):
    cells = {(e.dataset, e.explainer) for e in SUITES[suite].experiments((0,))}
    for name in tables:
        for dataset, methods in paper_table(name).items():
            # Attention is that of a model of its own, beside others of that architecture.
            assert {(dataset, method) for method in methods if method != "att"} <= cells


def test_backbones_are_those_of_the_paper():
    cells = {(e.dataset, e.model) for e in SUITES["backbones"].experiments((0,))}
    for name in ("targets-classification", "targets-regression"):
        for dataset, models in paper_table(name).items():
            assert {(dataset, model) for model in models} <= cells


def test_the_paper_used_the_smaller_alkane_carbonyl():
    chosen = [e for e in SUITES["table1"].experiments((0,)) if e.dataset == "alkane-carbonyl"]
    assert {e.variant for e in chosen} == {"downsampled"}


def test_attention_is_that_of_a_gat():
    models = {
        e.model for name in ("table1", "architectures") for e in SUITES[name].experiments((0,))
        if e.explainer == "att"
    }  # fmt: skip
    assert models == {"gat"}


def test_every_method_explains_five_targets_of_thirteen_sets():
    asked = SUITES["table1"].experiments(SUITES["table1"].seeds)
    runs = {(e.dataset, e.target_seed, e.seed) for e in asked}
    assert len(runs) == 13 * 5 * 2
    methods = {(e.dataset, e.explainer) for e in asked}
    assert len(asked) == len(runs) * (len(methods) // 13 + 2)  # occlusion and HPME have two rows


def test_spmotif_is_explained_at_four_biases_of_two_targets():
    asked = SUITES["bias"].experiments(SUITES["bias"].seeds)
    assert {e.variant for e in asked} == {"bias-0.33", "bias-0.5", None, "bias-0.9"}
    assert {e.dataset for e in asked} == {"spmotif"} and {e.target_seed for e in asked} == {0, 1}
    ours = [e.options for e in asked if e.explainer == "hpme"]
    assert {} in ours and {"ratio": "auto"} in ours
    known = {e.key for e in SUITES["table1"].experiments(SUITES["table1"].seeds)}
    assert {e.key for e in asked if e.variant is None} < known  # nothing is run twice


def test_tables_draw_from_graphs_that_development_never_sees():
    for suite in (suite for suite in SUITES.values() if suite.reported):
        explained = [e for e in suite.experiments(suite.seeds) if e.explainer is not None]
        assert all(e.seed >= APART for e in explained)


@pytest.mark.parametrize("name", ["table1", "nodes", "links", "seal", "shift", "fidelity"])
def test_hpme_as_printed_has_a_row_beside_hpme(name):
    asked = {(e.dataset, e.variant, e.explainer) for e in SUITES[name].experiments((0,))}
    ours = {(d, v) for d, v, explainer in asked if explainer == "hpme"}
    assert ours == {(d, v) for d, v, explainer in asked if explainer == "hpme-printed"} != set()


def test_every_target_of_links_has_a_row_without_edges():
    asked = {(e.dataset, e.variant, e.explainer) for e in SUITES["seal"].experiments((0,))}
    assert {(d, v) for d, v, _ in asked} == {(d, v) for d, v, e in asked if e == ALL_EDGES}


def test_titles_of_the_links_page(make_record):
    records = [
        make_record("tree-grid-links", method, variant=variant, model="dgcnn", metrics=metrics,
                    values={"auc": 0.5, "fidelity_plus": 0.25})
        for method in (ALL_EDGES, "hpme")
        for variant, metrics in (("planted", ("auc", "fidelity", "robust_fidelity")),
                                 (None, ("fidelity", "robust_fidelity")))
    ]  # fmt: skip
    suite = SUITES["seal"]
    tables = {t.name: t for t in suite.blocks(gather(suite, records), None)}
    assert list(tables)[:3] == ["seal-planted", "seal-planted-deletion", "seal-drnl"]
    table = tables["seal-drnl"]
    assert [title for title, _ in table.rows] == ["All edges", "HPME"]
    assert [(c.group, c.title) for c in table.columns] == [("", "Tree-Grid links")]
