"""The search, and what it promises about its starts."""

from dataclasses import replace

import pytest
import torch

from finder import Finder, mix_of, planted_graphs
from hpme.explainers.hpme.search import chains
from hpme.explainers.hpme.search.chains import Candidates, SubsetSearch
from hpme.explainers.hpme.search.criterion import joint_rank
from hpme.explainers.hpme.search.distil import LinearPool
from hpme.explainers.hpme.search.occlusion import occlusion


def knowing(mix):
    """Hard mixes that know what occlusion says."""
    return replace(mix, known=occlusion(mix.context))


@pytest.fixture(scope="module")
def mix():
    return knowing(mix_of(Finder(), planted_graphs()))


@pytest.fixture(scope="module")
def found(mix):
    return SubsetSearch().find(mix)


def test_never_worse_than_occlusion(found):
    given = found.order(None)
    assert len(given) == 1
    rank = joint_rank(torch.stack(found.values))
    assert rank[found.chosen()] <= min(rank[n] for n in given)


@pytest.mark.parametrize("seed", range(3))
def test_good_occlusion_is_not_lost_by_bad_rounds(seed):
    """One round of four proposals finds little, but occlusion is still there."""
    mix = mix_of(Finder(), planted_graphs(20, seed))
    search = SubsetSearch(chains=1, rounds=1, subsets=4)
    found = search.find(knowing(mix))
    assert found.order().index(found.chosen()) <= found.order().index(found.order(None)[0])


def test_chains_share_no_start(found):
    assert {found.chains[n] for n in found.finished()} == {0, 1}
    assert found.chains[found.rival()] in (0, 1)


def test_without_occlusion_chains_begin_at_random(mix):
    found = SubsetSearch(chains=1, rounds=1).find(replace(mix, known=None))
    assert set(found.chains) == {0} and found.rival() is None


def test_pools_should_agree_with_occlusion(mix, found):
    """Of two pools that hosts do not tell apart, that wins which occlusion speaks for."""
    assert found.occlusion is not None
    twice = Candidates(mix, mix.draw(1), occlusion=found.occlusion)
    twice.add(torch.stack([found.occlusion, -found.occlusion]), 0)
    assert [float(value[2]) for value in twice.values] == pytest.approx([-1, 1], abs=1e-3)
    twice.values = [torch.cat([torch.zeros(2), value[2:]]) for value in twice.values]
    assert twice.chosen() == 0


def test_where_hosts_cannot_tell_occlusion_says_which_way(mix, found):
    """A pool and its opposite both keep predictions where random regions do, too."""
    twice = Candidates(mix, mix.draw(1), occlusion=found.occlusion)
    twice.add(torch.stack([found.occlusion, -found.occlusion, found.occlusion]))
    values = torch.tensor([[0.5, 0.5, -1.0], [0.0, 0.0, 1.0], [0.1, 0.1, -0.9]])
    twice.values = list(values)
    assert twice.order() == [1, 2, 0]
    twice.chance = 0.2  # random regions keep predictions
    assert twice.order() == [2, 0, 1]


def test_where_no_pool_is_better_than_random_regions_occlusion_says_which_way(mix, found):
    twice = Candidates(mix, mix.draw(1), occlusion=found.occlusion, chance=0.9)
    twice.add(torch.stack([found.occlusion, -found.occlusion, found.occlusion]))
    twice.values = list(torch.tensor([[0.9, 0.9, -1.0], [0.8, 0.8, 1.0], [0.8, 0.8, -0.9]]))
    assert twice.telling and twice.unsure and twice.chosen() == 2
    twice.values[1][:2] = 0.5
    assert not twice.unsure and twice.chosen() == 1


@pytest.mark.parametrize(("disagreement", "tells"), [(0.2, False), (0.7, True)])
def test_hosts_tell_if_random_regions_lose_predictions(mix, monkeypatch, disagreement, tells):
    asked = []
    real = chains.random_subset

    def noted(mix):
        asked.append(real(mix))
        return asked[0]

    def judged(mix, selection, hosts, *more):
        found = criterion(mix, selection, hosts, *more)
        return found * 0 + disagreement if asked and selection is asked[0] else found

    criterion = chains.criterion
    monkeypatch.setattr(chains, "random_subset", noted)
    monkeypatch.setattr(chains, "criterion", judged)
    found = SubsetSearch(chains=0).find(mix)
    assert len(asked) == 1 and found.telling == tells
    assert (asked[0].keep.sum(1) <= mix.m.sum()).all() and asked[0].keep.any()


def test_occlusion_counts_as_far_as_hosts_do_not_object(mix, found, monkeypatch):
    def share_of(disagreement):
        first = float(found.values[found.chosen()][0])
        values = torch.tensor([[first + more, 1.0] for more in disagreement])
        monkeypatch.setattr(chains, "criterion", lambda *_: values)
        row = found.blended().weight[0].detach()
        pair = torch.stack([found.weights[found.chosen()], found.occlusion])
        parts = torch.linalg.lstsq(pair.T, row.unsqueeze(1)).solution[:, 0]
        spread = mix.scores(LinearPool(pair)).std(1, unbiased=False)
        return float(parts[1] * spread[1] / (parts[0] * spread[0]))

    given = found.order(0)[0]  # not occlusion itself
    monkeypatch.setattr(Candidates, "chosen", lambda _: given)
    assert share_of([0.6, 0.6, 0.6]) == pytest.approx(0, abs=1e-3)
    assert share_of([0.0, 0.03, 0.6]) == pytest.approx(0.5, abs=1e-2)
    assert share_of([-0.1, -0.1, -0.1]) == pytest.approx(1, abs=1e-2)
    monkeypatch.setattr(found, "chance", 0.2)
    assert share_of([0.6, 0.6, 0.6]) == pytest.approx(1, abs=1e-2)


def test_the_planted_nodes_are_pooled(mix, found):
    planted = mix.context.store.x[:, 1] > 0
    pooled = mix.select(mix.scores(found.pool(found.chosen()))).keep[0]
    assert float((pooled & planted).sum() / planted.sum()) > 0.9


def test_all_steps_are_counted(mix):
    done = []
    search = SubsetSearch(chains=2, rounds=2, subsets=4)
    search.find(mix, done.append)
    assert sum(done) == search.steps()
