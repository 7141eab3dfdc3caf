"""Mixup graphs as explainers show them: against what each says of itself, and untouched models."""

import pytest
import torch

from contract import (
    assert_same,
    assert_same_random_state,
    fitted,
    make_explainer,
    random_state,
    snapshot,
)
from hpme.data import GraphStore
from hpme.errors import NotFittedError
from hpme.explainers import EXPLAINERS, explainer_class
from hpme.explainers.shared.templates import MixingExplainer
from planted import MarkedEdges, marked_graphs

MIXING = sorted(slug for slug, cls in EXPLAINERS.items() if issubclass(cls, MixingExplainer))
JOINING = ["mixupexplainer", "regexplainer"]
slugs = pytest.mark.parametrize("slug", MIXING)


def mixes(slug, target="gcn"):
    case = fitted(slug, target)
    return case, case.explainer.mixup_graphs(case.model, case.graphs)


def test_who_mixes():
    ours, others = MIXING[:2], MIXING[2:]
    assert ours == ["hpme", "hpme-printed"]
    assert others == ["mixupexplainer", "proxyexplainer", "regexplainer"]


@slugs
@pytest.mark.parametrize("target", ["gcn", "gine"])
def test_one_valid_mixup_per_graph(slug, target):
    case, mix = mixes(slug, target)
    edges = mix.graphs.edge_index.shape[1]
    assert mix.graphs.num_graphs == len(case.graphs) == mix.partners.numel()
    assert mix.edge_weight.shape == mix.transplanted.shape == mix.bridge.shape == (edges,)
    assert bool(((mix.edge_weight >= 0) & (mix.edge_weight <= 1)).all())
    assert mix.transplanted.dtype == mix.bridge.dtype == torch.bool
    assert not bool((mix.transplanted & mix.bridge).any())
    assert bool((mix.graphs.edge_batch.diff() >= 0).all())
    ends = mix.graphs.batch[mix.graphs.edge_index]
    assert torch.equal(ends[0], ends[1])
    assert (mix.graphs.edge_attr is not None) == (target == "gine")


@slugs
def test_same_again_and_no_trace(slug):
    case = fitted(slug)
    before, state = snapshot(case.model), random_state()
    first, second = (case.explainer.mixup_graphs(case.model, case.graphs) for _ in range(2))
    assert torch.equal(first.edge_weight, second.edge_weight)
    assert torch.equal(first.graphs.edge_index, second.graphs.edge_index)
    assert_same(before, snapshot(case.model))
    assert_same_random_state(state)


@slugs
def test_same_after_loading(slug, tmp_path):
    case, mix = mixes(slug)
    case.explainer.save(tmp_path / "explainer.safetensors")
    loaded = explainer_class(slug).load(tmp_path / "explainer.safetensors")
    again = loaded.mixup_graphs(case.model, case.graphs)
    assert torch.equal(mix.edge_weight, again.edge_weight)
    assert torch.equal(mix.transplanted, again.transplanted)


@slugs
def test_must_be_fitted(slug):
    case = fitted(slug)
    with pytest.raises(NotFittedError, match="must learn first"):
        make_explainer(slug).mixup_graphs(case.model, case.graphs)


@pytest.mark.parametrize("slug", JOINING)
def test_joined_weights_are_those_of_the_explanations(slug):
    case, mix = mixes(slug)
    masks = [e.edge_mask for e in case.explainer.explain(case.model, case.graphs, progress=False)]
    for number, partner in enumerate(mix.partners.tolist()):
        mine = mix.graphs.edge_batch == number
        kept = mix.edge_weight[mine & mix.transplanted]
        other = mix.edge_weight[mine & ~mix.transplanted & ~mix.bridge]
        torch.testing.assert_close(kept, masks[number])
        torch.testing.assert_close(other, 1 - masks[partner])
        assert int((mine & mix.bridge).sum()) == 2
        assert bool((mix.edge_weight[mine & mix.bridge] == 1).all())


def test_hpme_transplants_the_whole_pool():
    case, mix = mixes("hpme")
    explanations = case.explainer.explain(case.model, case.graphs, progress=False)
    store = GraphStore.from_graphs(case.graphs)
    bounds = case.explainer.size(store.sizes).tolist()
    pools = []  # explanations show only those of these nodes that are needed
    for explanation, bound in zip(explanations, bounds, strict=True):
        best = explanation.node_mask.view(-1).argsort(descending=True)[:bound]
        pools.append(torch.zeros(len(explanation.x), dtype=torch.bool).index_fill(0, best, True))
        assert bool((pools[-1] | ~explanation.pooled).all())
    for number, pool in enumerate(pools):
        inside = pool[case.graphs[number].edge_index].all(0)
        mine = mix.graphs.edge_batch == number
        assert int((mine & mix.transplanted).sum()) == int(inside.sum())
        rest = int((~pools[int(mix.partners[number])]).sum())
        assert int(mix.graphs.sizes[number]) == rest + int(pool.sum())
        carried = mix.graphs.x[mix.graphs.edge_index[0, mine & mix.transplanted]]
        source = store.x[store.node_start[number] + case.graphs[number].edge_index[0, inside]]
        assert torch.equal(carried.unique(dim=0), source.unique(dim=0))
    assert not bool(mix.bridge.any())


def test_hpme_without_mixup_shows_the_subgraph_alone():
    case = fitted("hpme")
    explainer = make_explainer("hpme-printed", mixup=False)
    explainer.fit(case.model, case.graphs, progress=False)
    mix = explainer.mixup_graphs(case.model, case.graphs)
    assert mix.partners.tolist() == list(range(len(case.graphs)))
    assert float(mix.edge_weight[~mix.transplanted].sum()) == 0
    assert float(mix.edge_weight[mix.transplanted].min()) > 0


def test_proxies_have_the_edges_of_the_graph_and_about_as_many_others():
    case, mix = mixes("proxyexplainer")
    assert mix.graphs.sizes.tolist() == [graph.num_nodes for graph in case.graphs]
    for number, graph in enumerate(case.graphs):
        mine = mix.graphs.edge_index[:, mix.graphs.edge_batch == number] - mix.graphs.ptr[number]
        seen, own = (
            set(zip(*mine.tolist(), strict=True)),
            set(zip(*graph.edge_index.tolist(), strict=True)),
        )
        assert own < seen and mine.shape[1] == len(seen)
        assert len(seen - own) <= len(own)


def test_regression_is_told_as_in_fitting():
    model, graphs = MarkedEdges(), marked_graphs(6)
    explainer = make_explainer("regexplainer").fit(model, graphs, mode="regression", progress=False)
    mix = explainer.mixup_graphs(model, graphs, mode="regression")
    assert mix.graphs.num_graphs == 6
    assert bool((mix.partners != torch.arange(6)).all())
