"""The smallest part of a ranking that is enough."""

import pytest
import torch

from finder import PLANTED, Finder, mix_of, planted_graphs
from hpme.explainers.hpme.search.sufficient import (
    MISSED,
    TOLERANCE,
    Trials,
    least_needed,
    smallest_prefix,
)


@pytest.fixture(scope="module")
def trials():
    """Scores that put planted nodes first, and a pool far larger than they are."""
    mix = mix_of(Finder(), planted_graphs(30), k=8)
    planted = (mix.graphs.x[:, 1] > 0).float()
    noise = 0.1 * torch.rand(1, mix.graphs.num_nodes, generator=torch.Generator().manual_seed(0))
    return Trials.of(mix, 20, planted[None] + noise, planted > 0)


def own(trials, keep):
    return keep[: int(trials.mix.graphs.sizes[: trials.count].sum())]


def test_what_is_not_needed_is_left_out(trials):
    keep = own(trials, smallest_prefix(trials))
    planted = own(trials, trials.mix.graphs.x[:, 1] > 0)
    assert float((keep & planted).sum() / keep.sum()) > 0.9
    assert int(keep.sum()) <= 20 * PLANTED + 5


def test_keeps_the_prediction_within_the_tolerance(trials):
    keep = smallest_prefix(trials)
    whole = trials.inserted(trials.bound().keep[0])
    assert bool((trials.inserted(keep) >= whole - TOLERANCE - 1e-6).all())


def test_prefixes_follow_the_ranking(trials):
    keep, graphs = smallest_prefix(trials), trials.mix.graphs
    for graph in range(trials.count):
        rows = graphs.batch == graph
        score = trials.score[0, rows]
        assert score[keep[rows]].min() > score[~keep[rows]].max()


def test_forbidden_nodes_come_last(trials):
    first = smallest_prefix(trials)
    second = smallest_prefix(trials, ~first)
    sizes = trials.mix.graphs.sizes
    assert not bool((own(trials, first) & own(trials, second)).any()), sizes


def test_as_many_random_nodes_others_for_every_host(trials):
    keep = smallest_prefix(trials)
    random, graphs = trials.random(keep), trials.mix.graphs
    count = torch.bincount(graphs.batch[keep], minlength=graphs.num_graphs)
    for row in random:
        assert torch.equal(torch.bincount(graphs.batch[row], minlength=graphs.num_graphs), count)
    assert len({tuple(row.tolist()) for row in random}) == len(random)


def test_planted_nodes_are_needed_and_random_ones_are_not(trials):
    keep = smallest_prefix(trials)
    random = trials.random(keep)
    assert float(trials.inserted(keep).mean()) > float(trials.inserted(random).mean()) + 0.3
    assert float(trials.without(keep).mean()) < float(trials.without(random).mean()) - 0.2


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
