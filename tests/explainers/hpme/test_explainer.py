"""The search on a planted case: a target that looks for one kind of node, and says so."""

from collections import Counter

import pytest
import torch
from torch import nn
from torch_geometric.nn import global_add_pool

from finder import PLANTED, Finder, planted_graphs
from hpme.bench.outcome import counted
from hpme.errors import InputError
from hpme.explainers import HPMEExplainer, HPMEPrintedExplainer
from hpme.explainers.hpme import explainer
from hpme.explainers.hpme.report import FitReport
from hpme.explainers.hpme.search import ratio
from hpme.explainers.hpme.search.chains import SubsetSearch
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.shared.base import GraphExplainer


def test_planted_nodes_are_found_and_reported(graphs, fitted):
    explanations = fitted.explain(Finder(), graphs)
    found = torch.cat([e.pooled for e in explanations])
    planted = torch.cat([g.x[:, 1] > 0 for g in graphs])
    assert float((found & planted).sum() / planted.sum()) > 0.95
    assert fitted.report.warnings == []
    assert "good evidence" in fitted.report.summary()
    assert fitted.report.agreement is not None
    assert FitReport.from_dict(fitted.report.to_dict()) == fitted.report


def test_a_target_without_explanation_is_reported(graphs):
    """Every node changes the prediction beyond recognition: no subgraph carries it."""

    class Chaos(nn.Module):
        def forward(self, x, edge_index, batch=None, edge_weight=None):
            return global_add_pool(torch.cat([x, x], dim=1), batch)[:, :1].mul(50).sin()

    explainer = HPMEExplainer(k=2, restarts=2)
    explainer.fit(Chaos(), graphs, mode="regression")
    assert explainer.report.warnings
    assert explainer.report.evidence in ("none", "few")


def test_without_mixup_nothing_that_is_searched_or_chosen_has_a_host(graphs, monkeypatch):
    asked = []
    predict = HardMix.predict

    def counted(mix, *arguments, **options):
        asked.append(mix.alone)
        return predict(mix, *arguments, **options)

    monkeypatch.setattr(HardMix, "predict", counted)
    monkeypatch.setattr(HPMEExplainer, "_crossed", lambda *_: asked.append("report") or [])
    for mixup in (True, False):
        asked.clear()
        options = {"restarts": 1}
        HPMEExplainer(mixup=mixup, **options).fit(Finder(), graphs[:12], mode="regression")
        before = asked[: asked.index("report")]
        assert len(before) > 10 and set(before) == {not mixup}


def test_a_small_size_is_shown_but_not_searched_with(graphs, monkeypatch):
    sizes, find = [], SubsetSearch.find

    def recorded(search, mix, *arguments, **options):
        sizes.append(mix.size.ratio)
        return find(search, mix, *arguments, **options)

    monkeypatch.setattr(SubsetSearch, "find", recorded)
    monkeypatch.setattr(explainer, "choose_ratio", lambda _: 0.1)
    options = {"restarts": 1}
    fitted = HPMEExplainer(**options).fit(Finder(), graphs[:12], mode="regression")
    assert sizes == [0.4] + 3 * [ratio.LEAST]  # one of each half for the report
    assert fitted.size.ratio == 0.1


@pytest.mark.parametrize("count", [70, 120])
def test_what_a_fit_reads_of_graphs_is_computed_once(count, monkeypatch):
    made = Counter()

    def count_calls(owner, name):
        original = getattr(owner, name)

        def counted(*args, **options):
            made[name] += 1
            return original(*args, **options)

        monkeypatch.setattr(owner, name, counted)

    count_calls(HardMix, "build")
    count_calls(HPMEExplainer, "_represent")
    count_calls(explainer, "occlusion")
    HPMEExplainer().fit(Finder(), planted_graphs(count), mode="regression", progress=False)
    assert made == {"build": 1, "_represent": 1, "occlusion": 1}


def test_fewer_passes_search_fewer_graphs(graphs):
    def searched(**options):
        model, explainer = Finder(), HPMEExplainer(k=2, **options)
        with counted(model) as passes:
            explainer.fit(model, graphs, mode="regression", progress=False)
        return passes.over(graphs)

    assert searched(max_passes=30.0) < 0.7 * searched()


@pytest.mark.parametrize("score", ["edge", "node", "both"])
def test_scores(graphs, fitted, score, monkeypatch):
    monkeypatch.setattr(fitted, "score", score)  # read when explaining
    explanation = fitted.explain(Finder(), graphs)[0]
    mask = explanation.edge_mask
    lowest = explanation.node_mask[explanation.edge_index].min(0).values.view(-1)
    if score == "both":
        probability = 5 * mask - 4 * lowest
        assert (probability > -1e-5).all() and (probability < 1 + 1e-5).all()
    assert torch.equal(mask, lowest) == (score == "node")


def test_pooled_nodes_are_the_most_important_ones(graphs, fitted):
    for explanation in fitted.explain(Finder(), graphs):
        importance = explanation.node_mask.view(-1)
        chosen, others = importance[explanation.pooled], importance[~explanation.pooled]
        assert 1 <= explanation.pooled.sum() <= PLANTED
        assert chosen.min() >= others.max()


@pytest.mark.parametrize(
    "options",
    [
        {"score": "sum"}, {"neighbor": "best"}, {"attach": "glue"},
        {"search_graphs": 0},
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [HPMEExplainer, HPMEPrintedExplainer])
def test_bad_arguments_of_all_are_named(kind, options):
    with pytest.raises(InputError, match=next(iter(options))):
        kind(k=3, **options)


@pytest.mark.parametrize("options", [{"restarts": -1}, {"max_passes": 0}])
def test_bad_arguments_are_named(options):
    with pytest.raises(InputError, match=next(iter(options))):
        HPMEExplainer(k=3, **options)


def test_neither_takes_what_belongs_to_the_other():
    own, others = (set(kind.option_names()) for kind in (HPMEExplainer, HPMEPrintedExplainer))
    assert own - others == {"restarts", "max_passes", "refine"}
    with pytest.raises(TypeError, match="bce_weight"):
        HPMEExplainer(k=3, bce_weight=1.0)
    with pytest.raises(TypeError, match="restarts"):
        HPMEPrintedExplainer(k=3, restarts=1)


def test_few_classes_stand_between_it_and_the_contract():
    ours = [kind for kind in HPMEExplainer.__mro__ if issubclass(kind, GraphExplainer)]
    assert len(ours) <= 5
