"""Transplants, and the smallest part of a ranking that is enough."""

import pytest
import torch

from finder import PLANTED, Finder, mix_of, planted_graphs
from hpme.explainers.hpme.transplants import (
    MISSED,
    TOLERANCE,
    Transplants,
    least_needed,
    spread_over,
)


@pytest.fixture(scope="module")
def transplants():
    """Scores that put planted nodes first, and a pool far larger than they are."""
    mix = mix_of(Finder(), planted_graphs(30), k=8)
    planted = (mix.graphs.x[:, 1] > 0).float()
    noise = 0.1 * torch.rand(1, mix.graphs.num_nodes, generator=torch.Generator().manual_seed(0))
    return Transplants.of(mix, 20, planted[None] + noise, planted > 0)


def own(transplants, keep):
    return keep[: int(transplants.graphs.sizes[: transplants.count].sum())]


def test_what_is_not_needed_is_left_out(transplants):
    keep = own(transplants, transplants.smallest_prefix())
    planted = own(transplants, transplants.graphs.x[:, 1] > 0)
    assert float((keep & planted).sum() / keep.sum()) > 0.9
    assert int(keep.sum()) <= 20 * PLANTED + 5


def test_keeps_the_prediction_within_the_tolerance(transplants):
    keep = transplants.smallest_prefix()
    whole = transplants.inserted(transplants.pool)
    assert bool((transplants.inserted(keep) >= whole - TOLERANCE - 1e-6).all())


def test_prefixes_follow_the_ranking(transplants):
    keep, graphs = transplants.smallest_prefix(), transplants.graphs
    for graph in range(transplants.count):
        rows = graphs.batch == graph
        score = transplants.score[0, rows]
        assert score[keep[rows]].min() > score[~keep[rows]].max()


def test_forbidden_nodes_come_last(transplants):
    first = transplants.smallest_prefix()
    second = transplants.smallest_prefix(~first)
    sizes = transplants.graphs.sizes
    assert not bool((own(transplants, first) & own(transplants, second)).any()), sizes


def test_as_many_random_nodes_others_for_every_host(transplants):
    keep = transplants.smallest_prefix()
    random, graphs = transplants.random(keep), transplants.graphs
    count = torch.bincount(graphs.batch[keep], minlength=graphs.num_graphs)
    for row in random:
        assert torch.equal(torch.bincount(graphs.batch[row], minlength=graphs.num_graphs), count)
    assert len({tuple(row.tolist()) for row in random}) == len(random)


def test_planted_nodes_are_needed_and_random_ones_are_not(transplants):
    keep = transplants.smallest_prefix()
    random = transplants.random(keep)
    assert (
        float(transplants.inserted(keep).mean()) > float(transplants.inserted(random).mean()) + 0.3
    )
    assert float(transplants.without(keep).mean()) < float(transplants.without(random).mean()) - 0.2


def test_the_bound_makes_the_least_error():
    generator = torch.Generator().manual_seed(0)
    importance = torch.rand(40, generator=generator)
    needed = importance + 0.3 * torch.randn(40, generator=generator) > 0.5
    bound = least_needed(importance, needed)

    def error(bound):
        shown = importance > bound
        return MISSED * int((needed & ~shown).sum()) + int((shown & ~needed).sum())

    assert error(bound) == min(error(b) for b in [0.0, *importance.tolist()])


def test_all_are_needed_or_nothing_is_known():
    importance = torch.tensor([0.2, 0.7])
    assert least_needed(importance, torch.tensor([True, True])) == 0.0
    assert least_needed(importance, torch.tensor([False, False])) == 0.0


def test_hosts_cover_all_predictions():
    rare = torch.zeros(100, 2)
    rare[:, 0] = 1
    rare[97:] = torch.tensor([0.0, 1.0])
    assert rare[spread_over(rare), 1].any()
    values = torch.arange(50.0).flip(0).view(-1, 1)
    assert {0.0, 49.0} <= set(values[spread_over(values, 5)].view(-1).tolist())


def test_some_graphs_are_asked_about_as_all_are(transplants):
    keep, ids = transplants.pooled, torch.tensor([3, 11, 4])
    some = transplants.inserted(keep, ids)
    torch.testing.assert_close(some, transplants.inserted(keep)[ids])
    chance = transplants.inserted(transplants.random(keep), ids)
    own = keep[: int(transplants.graphs.sizes[: transplants.count].sum())]
    hosts = torch.arange(transplants.graphs.num_nodes) >= len(own)
    assert torch.equal(transplants.with_hosts(own), keep & ~hosts)
    torch.testing.assert_close(transplants.carried(own, ids), some - chance)
