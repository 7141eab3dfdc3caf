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


def test_occlusion_is_that_of_the_explainers(mix):
    """Of nodes, and of the edges at each node, both standardised inside graphs."""
    found, graphs = attributions(mix.context), planted_graphs(10)
    assert found.scores.shape == (2, mix.graphs.num_nodes) and bool(found.graphs.all())
    wanted = []
    for unit in ("node", "edge"):
        explainer = OcclusionExplainer(unit=unit).fit(Finder(), graphs, mode="regression")
        for number, one in enumerate(explainer.explain(Finder(), graphs, progress=False)):
            row = one.node_mask.view(-1)
            if unit == "edge":
                row = torch.zeros(len(row)).index_add(0, one.edge_index[0], one.edge_mask)
            row = (row - row.mean()) / row.std(unbiased=False).clamp(min=1e-12)
            wanted += [row] if unit == "node" else []
            wanted[number] = wanted[number] + row * (unit == "edge")
    both = torch.stack([found.scores[0], torch.cat(wanted)])  # masks are bounded, scores are not
    assert float(torch.corrcoef(both)[0, 1]) > 0.98


def test_planted_nodes_stand_out(mix):
    found = attributions(mix.context)
    planted = mix.graphs.x[:, 1] > 0
    for row in found.scores:
        assert float(row[planted].mean()) > max(0.3, 2 * float(row[~planted].mean()))


def test_large_graphs_are_left_to_gradients(mix, monkeypatch):
    monkeypatch.setattr(module, "OCCLUDED_NODES", 12 * 12 * 3)
    found = attributions(mix.context)
    some = found.graphs[0]
    assert 0 < int(some.sum()) < 10
    assert bool((found.scores[0][~some[mix.graphs.batch]] == 0).all())
    assert bool((found.scores[1][~some[mix.graphs.batch]] != 0).any())
    whole = attributions_of_all(mix)
    rows = some[mix.graphs.batch]
    torch.testing.assert_close(found.scores[:, rows], whole.scores[:, rows])


def attributions_of_all(mix):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "OCCLUDED_NODES", 10**9)
        return attributions(mix.context)
