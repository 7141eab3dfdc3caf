"""The search, and what it promises about its starts."""

import pytest
import torch

from finder import Finder, mix_of, planted_graphs
from hpme.explainers.hpme.search import chains
from hpme.explainers.hpme.search.attributions import attributions
from hpme.explainers.hpme.search.chains import (
    ATTRIBUTION,
    COMBINED,
    Candidates,
    SubsetSearch,
    compared_again,
)
from hpme.explainers.hpme.search.criterion import joint_rank
from hpme.explainers.hpme.search.distil import LinearPool


def quiet(_):
    pass


@pytest.fixture(scope="module")
def mix():
    return mix_of(Finder(), planted_graphs())


@pytest.fixture(scope="module")
def found(mix):
    return SubsetSearch().find(mix, attributions(mix.context), advance=quiet)


def test_never_worse_than_the_best_attribution(found):
    given = found.order(ATTRIBUTION)
    assert len(given) == 10
    picked = [found.chosen(), *given]
    ranks = joint_rank(torch.stack([found.values[n] for n in found.order()]))
    place = {n: i for i, n in enumerate(found.order())}
    assert ranks[place[picked[0]]] <= min(ranks[place[n]] for n in given)


@pytest.mark.parametrize("seed", range(3))
def test_a_good_attribution_is_not_lost_by_bad_rounds(seed):
    """One round of four proposals finds little, but the attributions are still there."""
    mix = mix_of(Finder(), planted_graphs(20, seed))
    search = SubsetSearch(chains=1, rounds=1, subsets=4, refine=1, combinations=2)
    found = search.find(mix, attributions(mix.context), advance=quiet)
    order = found.order()
    assert order.index(found.chosen()) < order.index(found.order(ATTRIBUTION)[0]) or (
        found.chosen() == order[0]
    )


def test_chains_share_no_start(found):
    assert [found.chains[n] for n in found.finished()] == [0, 1, 2]
    assert found.chains[found.rival()] in (0, 1, 2)


def test_without_combining_the_best_is_taken_alone(mix):
    search = SubsetSearch(chains=1, rounds=1, refine=0)
    found = search.find(mix, None, advance=quiet)
    assert set(found.chains) == {0} and found.chosen() == found.order()[0]
    assert found.rival() is None


def test_the_consensus_is_the_last_combination(found):
    assert found.chains[-1] == COMBINED
    assert found.chosen() in (found.order()[0], len(found.chains) - 1)


def test_pools_are_compared_again_with_fewer_nodes(mix):
    large = mix_of(Finder(), planted_graphs(), k=8)
    search = SubsetSearch(chains=2, rounds=1, refine=0)
    before = search.find(large, attributions(large.context), advance=quiet)
    after = compared_again(before)
    assert bool((after.inserted <= large.m).all()) and bool((after.inserted < large.m).any())
    assert torch.equal(after.mix.m, large.m)  # hosts give up all they did
    assert len(after.order(ATTRIBUTION)) == len(before.order(ATTRIBUTION))
    assert set(after.chains) == set(before.chains)


def test_inserted_nodes_are_the_first_of_the_pool(mix):
    scores = mix.scores(LinearPool(torch.eye(mix.features.shape[0] * mix.features.shape[2])[:2]))
    fewer = (mix.m - 1).clamp(min=1)
    candidates = Candidates(mix, mix.draw(1), inserted=fewer)
    given = candidates._prefix(scores, fewer)
    assert not bool((given.keep & ~mix.select(scores).keep).any())
    assert torch.equal(mix.graphs.batch[given.keep[0]].bincount(), fewer)


def test_pools_that_do_not_keep_predictions_go_on(mix, monkeypatch):
    search = SubsetSearch(chains=1, rounds=1, subsets=4, combinations=3, refine=1)
    few = search.find(mix, None, advance=quiet)
    monkeypatch.setattr(chains, "UNSETTLED", -1.0)  # as if none ever did
    done = []
    many = search.find(mix, None, advance=done.append)
    assert sum(done) == search.steps() == 1 + 2 + 6 + 1
    evolved = len(many.order(COMBINED))
    assert evolved > len(few.order(COMBINED))


def test_no_chain_is_started_where_an_attribution_has_settled(mix):
    found = attributions(mix.context)
    search = SubsetSearch(chains=1, rounds=1, subsets=4, refine=0, hasty=True)
    assert set(search.find(mix, found, advance=quiet).chains) == {ATTRIBUTION}


def test_all_steps_are_counted(mix):
    done = []
    search = SubsetSearch(chains=2, rounds=2, subsets=4, refine=2, combinations=2)
    search.find(mix, attributions(mix.context), advance=done.append)
    assert sum(done) == search.steps()
