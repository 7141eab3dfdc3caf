"""A first answer without a search: the same report, verdicts and files as of a full fit."""

import pytest
import torch

from finder import Finder, planted_graphs
from hpme.explainers import HPMEExplainer, quick
from hpme.explainers.hpme.search.chains import SubsetSearch


class Constant(Finder):
    def forward(self, x, edge_index, batch=None, edge_weight=None):
        return 0 * super().forward(x, edge_index, batch, edge_weight) + 1


@pytest.fixture(scope="module")
def first():
    return quick(Finder(), planted_graphs(60), progress=False, mode="regression")


def test_it_finds_what_the_model_looks_for_without_a_search(first, monkeypatch):
    monkeypatch.setattr("hpme.explainers.hpme.search.chains.search_subsets", None)
    graphs = planted_graphs(80)
    again = quick(Finder(), graphs[:60], progress=False, mode="regression")
    found = again.explain(Finder(), graphs[60:], progress=False)
    for explanation, graph in zip(found, graphs[60:], strict=True):
        planted = graph.x[:, 1] == 1
        assert explanation.node_mask[planted].mean() > explanation.node_mask[~planted].mean()
    assert torch.equal(again.pool.weight, first.pool.weight)  # and the same every time


def test_the_evidence_is_that_of_a_full_fit(first):
    report = first.report
    assert report.held_out == 20 and report.ratio_curve and report.disagreement < 0.01
    assert report.p_value < 0.05 and report.random_disagreement > 0.5
    graphs = planted_graphs(6, seed=1)
    words = [one.sentence() for one in first.quality(Finder(), graphs)]
    assert len(words) == 6 and all("random nodes" in word for word in words)


def test_it_takes_few_passes_and_can_be_saved(first, tmp_path):
    assert SubsetSearch(0).passes() < SubsetSearch().passes() / 8
    first.save(tmp_path / "first.safetensors")
    loaded = HPMEExplainer.load(tmp_path / "first.safetensors")
    graphs = planted_graphs(3, seed=2)
    for ours, theirs in zip(
        first.explain(Finder(), graphs), loaded.explain(Finder(), graphs), strict=True
    ):
        assert torch.equal(ours.node_mask, theirs.node_mask)


def test_a_constant_model_has_no_evidence():
    found = quick(Constant(), planted_graphs(20), progress=False, mode="regression")
    assert found.report.evidence in ("few", "none")
