"""Proposed subsets, and what the best of them say about nodes."""

import pytest
import torch

from finder import PLANTED, planted_mix
from hpme.explainers.hpme.search import subsets
from hpme.explainers.hpme.search.subsets import propose_subsets, search_subsets


@pytest.fixture
def mix():
    return planted_mix("random")


def marks(mix):
    return mix.context.store.x[:, 1] > 0


def test_proposals_have_the_pooled_size_and_mostly_hang_together(mix):
    score = torch.rand(mix.context.h.shape[0])
    keep = propose_subsets(mix, score, 10)
    graphs = mix.graphs
    for row in keep:
        assert (torch.bincount(graphs.batch[row], minlength=40) <= PLANTED).all()
    top = mix.select(score.unsqueeze(0)).keep[0]
    assert torch.equal(keep[-1], top)
    inside = keep[:, graphs.edge_index[0]] & keep[:, graphs.edge_index[1]]
    grown, perturbed = inside[:4].sum(1).float().mean(), inside[8:9].sum(1).float().mean()
    assert grown > 1.3 * perturbed


def test_best_subsets_hold_planted_nodes(mix):
    labels, gain = search_subsets(mix, marks(mix).float(), 16)
    planted = marks(mix)
    assert labels[planted].mean() > 0.2 > labels[~planted].mean()
    assert gain.shape == (40,)


def test_all_subsets_of_all_graphs_are_one_batch(mix, monkeypatch):
    rows = []
    real = subsets.bounded_loss

    def counted(context, output, wanted):
        rows.append(len(wanted))
        return real(context, output, wanted)

    monkeypatch.setattr(subsets, "bounded_loss", counted)
    search_subsets(mix, marks(mix).float(), 16)
    assert rows == [16]
