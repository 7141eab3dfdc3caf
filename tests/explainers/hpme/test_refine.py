"""Refinement on a target to which every node adds a little, so that no single subset stands out."""

import pytest
import torch
from torch import nn
from torch_geometric.nn import global_add_pool

from finder import PLANTED, Finder, planted_graphs
from hpme.data import GraphStore
from hpme.explainers.hpme.criterion import criterion
from hpme.explainers.hpme.hardmix import HardMix
from hpme.explainers.hpme.pool import Pool, PoolSize
from hpme.explainers.hpme.refine import Refinement
from hpme.explainers.hpme.search import SubsetSearch, selection_of
from hpme.explainers.shared.context import TargetContext


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


def mix_of(model, graphs, k):
    context = TargetContext.build(
        model, GraphStore.from_graphs(graphs), batch_size=64, mode="regression"
    )
    generator = torch.Generator().manual_seed(0)
    return HardMix.build(context, PoolSize(k=k), "contrast", "swap", generator, 64)


@pytest.fixture
def mix():
    return mix_of(Adder(), additive_graphs(), 6)


def test_refinement_lowers_the_criterion(mix):
    start = Pool(mix.context.h.shape[1], hops=(0, 1, 2), generator=mix.generator)
    *_, last = Refinement().find(mix, start, advance=lambda _: None)
    hosts = mix.draw(8)
    before, after = (criterion(mix, selection_of(mix, pool), hosts)[0] for pool in (start, last))
    assert (after < 0.7 * before).all()


def test_every_step_is_counted_and_every_third_gives_a_pool(mix):
    start = Pool(mix.context.h.shape[1], hops=(0, 1, 2), generator=mix.generator)
    steps = []
    pools = list(Refinement(steps=4, pairs=2).find(mix, start, advance=steps.append))
    assert (len(pools), sum(steps)) == (2, 4)


@pytest.mark.parametrize(("settled", "extra"), [(True, 0), (False, 4)])
def test_only_an_unsettled_search_is_refined(settled, extra):
    model, graphs, k = (
        (Finder(), planted_graphs(), PLANTED) if settled else (Adder(), additive_graphs(), 2)
    )
    search, steps = SubsetSearch(chains=2, rounds=3, refine=6), []
    candidates = search.find(mix_of(model, graphs, k), advance=steps.append)
    assert len(candidates.pools) == 2 * 3 + extra
    assert sum(steps) == search.steps()
