"""Refinement on a target to which every node adds a little, so that no single subset stands out."""

import pytest
import torch
from torch import nn
from torch_geometric.nn import global_add_pool

from finder import PLANTED, Finder, mix_of, planted_graphs
from hpme.explainers.hpme.method.pool import Pool
from hpme.explainers.hpme.search.chains import SubsetSearch
from hpme.explainers.hpme.search.criterion import criterion
from hpme.explainers.hpme.search.refine import Refinement


class Adder(nn.Module):
    """Predicts the sum of feature 0, in which a few nodes have large values of either sign."""

    def forward(self, x, edge_index, batch=None, edge_weight=None):
        return global_add_pool(x, batch)[:, :1]


def additive_graphs():
    graphs = planted_graphs(60)
    generator = torch.Generator().manual_seed(1)
    for graph in graphs:
        graph.x = torch.randn(graph.num_nodes, 2, generator=generator) ** 3
    return graphs


@pytest.fixture
def mix():
    return mix_of(Adder(), additive_graphs(), 6)


def test_refinement_lowers_the_criterion(mix):
    start = Pool(mix.context.h.shape[1], hops=(0, 1, 2), generator=mix.generator)
    *_, last = Refinement().find(mix, start, advance=lambda _: None)
    hosts = mix.draw(8)
    before, after = (
        criterion(mix, mix.select(mix.scores(pool)), hosts)[0] for pool in (start, last)
    )
    assert (after < 0.7 * before).all()


def test_every_step_is_counted_and_every_third_gives_a_pool(mix):
    start = Pool(mix.context.h.shape[1], hops=(0, 1, 2), generator=mix.generator)
    steps = []
    pools = list(Refinement(steps=4, pairs=2).find(mix, start, advance=steps.append))
    assert (len(pools), sum(steps)) == (2, 4)


@pytest.mark.parametrize(("settled", "extra"), [(True, 0), (False, 2)])
def test_only_an_unsettled_search_is_refined(settled, extra):
    model, graphs, k = (
        (Finder(), planted_graphs(), PLANTED) if settled else (Adder(), additive_graphs(), 2)
    )
    search, steps = SubsetSearch(chains=2, rounds=2, refine=3), []
    candidates = search.find(mix_of(model, graphs, k), advance=steps.append)
    assert len(candidates.pools) == 2 * 2 + extra
    assert sum(steps) == search.steps()
