"""Occlusion, which the first chain begins with."""

import pytest
import torch

from finder import Finder, mix_of, planted_graphs
from hpme.explainers import OcclusionExplainer
from hpme.explainers.hpme.search import occlusion as module
from hpme.explainers.hpme.search.occlusion import occlusion


@pytest.fixture(scope="module")
def mix():
    return mix_of(Finder(), planted_graphs(10))


def test_occlusion_is_that_of_the_explainers(mix):
    """Of nodes, and of the edges at each node, both standardised inside graphs."""
    (found, seen), graphs = occlusion(mix.context), planted_graphs(10)
    assert bool(seen.all())
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
    both = torch.stack([found, torch.cat(wanted)])  # masks are bounded, scores are not
    assert float(torch.corrcoef(both)[0, 1]) > 0.98


def test_planted_nodes_stand_out(mix):
    found, _ = occlusion(mix.context)
    planted = mix.graphs.x[:, 1] > 0
    assert float(found[planted].mean()) > max(0.3, 2 * float(found[~planted].mean()))


def test_large_graphs_are_left_out(mix, monkeypatch):
    whole, _ = occlusion(mix.context)
    monkeypatch.setattr(module, "OCCLUDED_NODES", 12 * 12 * 3)
    found, seen = occlusion(mix.context)
    assert 0 < int(seen.sum()) < 10
    rows = seen[mix.graphs.batch] > 0
    assert bool((found[~rows] == 0).all())
    torch.testing.assert_close(found[rows], whole[rows])
