"""Attributions that chains begin with."""

import pytest
import torch

from finder import Finder, mix_of, planted_graphs
from hpme.explainers import OcclusionExplainer
from hpme.explainers.hpme.search import attributions as module
from hpme.explainers.hpme.search.attributions import attributions


@pytest.fixture(scope="module")
def mix():
    return mix_of(Finder(), planted_graphs(10))


def test_node_occlusion_is_that_of_the_explainer(mix):
    found = attributions(mix.context)
    assert found.scores.shape == (3, mix.graphs.num_nodes) and bool(found.seen.all())
    explainer = OcclusionExplainer(unit="node").fit(Finder(), planted_graphs(10), mode="regression")
    parts = explainer.explain(Finder(), planted_graphs(10), progress=False)
    known = torch.cat([part.node_mask.view(-1) for part in parts])
    assert torch.equal(found.scores[0].argsort(stable=True), known.argsort(stable=True))


def test_planted_nodes_stand_out(mix):
    found = attributions(mix.context)
    planted = mix.graphs.x[:, 1] > 0
    for row in (*found.scores, found.together(mix.graphs)):
        assert float(row[planted].mean()) > max(0.3, 2 * float(row[~planted].mean()))


def test_large_graphs_are_left_to_gradients(mix, monkeypatch):
    monkeypatch.setattr(module, "OCCLUDED_NODES", 12 * 12 * 3)
    found = attributions(mix.context)
    some = found.seen
    assert 0 < int(some.sum()) < 10
    assert bool((found.scores[:2][:, ~some[mix.graphs.batch]] == 0).all())
    assert bool((found.scores[2][~some[mix.graphs.batch]] != 0).any())
    whole = attributions_of_all(mix)
    rows = some[mix.graphs.batch]
    torch.testing.assert_close(found.scores[:, rows], whole.scores[:, rows])


def attributions_of_all(mix):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "OCCLUDED_NODES", 10**9)
        return attributions(mix.context)
