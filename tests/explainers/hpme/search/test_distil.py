"""Scorers in closed form."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hpme.explainers.hpme.search.distil import Distiller, LinearPool, standardise
from hpme.graphs import GraphStore
from small_models import random_graph


@pytest.fixture(scope="module")
def graphs():
    torch.manual_seed(0)
    return GraphStore.from_graphs([random_graph(n, 2 * n) for n in (5, 8, 12, 20)]).batch()


def features(graphs, width=6, seed=0):
    return torch.randn(graphs.num_nodes, width, generator=torch.Generator().manual_seed(seed))


def correlation(a, b):
    return float(torch.corrcoef(torch.stack([a, b]))[0, 1])


def test_labels_that_are_linear_are_found(graphs):
    seen = features(graphs)
    labels = seen @ torch.tensor([1.0, -2, 0, 0, 0, 3])
    weight = Distiller(seen, graphs).fit(labels, torch.ones(4), (1e-6,))
    found = standardise((seen @ weight.T).T, graphs)[0]
    assert correlation(found, standardise(labels[None], graphs)[0]) > 0.97


@given(shift=st.lists(st.floats(-50, 50), min_size=4, max_size=4), scale=st.floats(0.1, 10))
@settings(max_examples=20, deadline=None)
def test_only_differences_inside_a_graph_count(graphs, shift, scale):
    seen = features(graphs)
    labels = seen @ torch.tensor([1.0, -2, 0, 0, 0, 3])
    moved = labels * scale + torch.tensor(shift)[graphs.batch]
    distiller = Distiller(seen, graphs)
    plain, other = (distiller.fit(some, torch.ones(4), (1.0,)) for some in (labels, moved))
    torch.testing.assert_close(plain, other, rtol=1e-2, atol=1e-3)


@given(penalties=st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=4, unique=True))
@settings(max_examples=20, deadline=None)
def test_a_larger_penalty_makes_smaller_weights(graphs, penalties):
    labels = torch.rand(graphs.num_nodes, generator=torch.Generator().manual_seed(3))
    ordered = tuple(sorted(penalties))
    weight = Distiller(features(graphs), graphs).fit(labels, torch.ones(4), ordered)
    norms = weight.norm(dim=1).tolist()
    assert norms == sorted(norms, reverse=True)


def test_graphs_without_weight_do_not_count(graphs):
    seen = features(graphs)
    good, noise = seen[:, 0], torch.rand(graphs.num_nodes)
    mixed = torch.where(graphs.batch == 3, noise, good)
    weights = torch.tensor([1.0, 1, 1, 0])
    distiller = Distiller(seen, graphs)
    torch.testing.assert_close(
        distiller.fit(mixed, weights, (0.1,)), distiller.fit(good, weights, (0.1,))
    )


def test_features_without_spread_give_no_scores(graphs):
    seen = torch.zeros(graphs.num_nodes, 3)
    weight = Distiller(seen, graphs).fit(torch.rand(graphs.num_nodes), torch.ones(4), (1.0,))
    assert bool(torch.isfinite(weight).all())


def test_a_stack_scores_like_its_members(graphs):
    seen = features(graphs, 6, 0)
    weight = torch.randn(2, 6, generator=torch.Generator().manual_seed(5))
    together = LinearPool(weight)(seen, graphs, graphs.sizes)
    alone = LinearPool(weight[1:])(seen, graphs, graphs.sizes)
    torch.testing.assert_close(together[1:], alone)
    torch.testing.assert_close(together[1], seen @ weight[1])
