"""The search on a planted case: a target that looks for one kind of node, and says so."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch_geometric.nn import global_add_pool

from finder import PLANTED, Finder, planted_graphs
from hpme.data import GraphStore
from hpme.errors import InputError
from hpme.explainers import HPMEExplainer
from hpme.explainers.hpme.criterion import correlation, criterion, joint_rank
from hpme.explainers.hpme.hardmix import HardMix
from hpme.explainers.hpme.mixup import select
from hpme.explainers.hpme.neighbor import NeighborSampler
from hpme.explainers.hpme.pool import PoolSize
from hpme.explainers.hpme.report import FitReport
from hpme.explainers.hpme.subsets import propose_subsets, search_subsets
from hpme.explainers.shared.context import TargetContext


@pytest.fixture(scope="module")
def graphs():
    return planted_graphs()


@pytest.fixture
def mix(graphs):
    store = GraphStore.from_graphs(graphs)
    context = TargetContext.build(Finder(), store, batch_size=64, mode="regression")
    generator = torch.Generator().manual_seed(0)
    return HardMix.build(context, PoolSize(k=PLANTED), "random", "swap", generator, 64)


def marks(mix):
    return mix.context.store.x[:, 1] > 0


@pytest.mark.parametrize("search", ["subsets", "gradient"])
def test_fit_returns_an_explainer_with_a_report(graphs, search):
    explainer = HPMEExplainer(k=PLANTED, search=search, restarts=2, rounds=2, epochs=5)
    assert explainer.fit(Finder(), graphs[:10], mode="regression") is explainer
    assert explainer.report.search == search
    assert FitReport.from_dict(explainer.report.to_dict()) == explainer.report
    assert (explainer.report.agreement is None) == (search == "gradient")


def test_planted_nodes_are_found_and_reported(graphs):
    explainer = HPMEExplainer(k=PLANTED).fit(Finder(), graphs, mode="regression")
    explanations = explainer.explain(Finder(), graphs)
    found = torch.cat([e.pooled for e in explanations])
    planted = torch.cat([g.x[:, 1] > 0 for g in graphs])
    assert float((found & planted).sum() / planted.sum()) > 0.95
    assert explainer.report.warnings == []
    assert "good evidence" in explainer.report.summary()


def test_a_target_without_explanation_is_reported(graphs):
    """Every node changes the prediction beyond recognition: no subgraph carries it."""

    class Chaos(nn.Module):
        def forward(self, x, edge_index, batch=None, edge_weight=None):
            return global_add_pool(torch.cat([x, x], dim=1), batch)[:, :1].mul(50).sin()

    explainer = HPMEExplainer(k=2).fit(Chaos(), graphs, mode="regression")
    assert explainer.report.warnings
    assert "trust with care" in explainer.report.summary()


def test_criterion_prefers_the_planted_nodes(mix):
    planted = marks(mix).float()
    noise = torch.rand(2, len(planted), generator=torch.Generator().manual_seed(0))
    keep = torch.stack([planted, *noise])
    graphs = mix.context.store.batch()
    values = criterion(mix, mix.select(keep, graphs), mix.draw(3))
    assert joint_rank(values).argmin() == 0
    assert values[0, 0] < 0.1 < values[1:, 0].min()


def test_correlation_is_pearson():
    a, b = torch.randn(1, 50, 1), torch.randn(1, 50, 1)
    expected = torch.corrcoef(torch.stack([a.view(-1), b.view(-1)]))[0, 1]
    torch.testing.assert_close(correlation(a, b)[0], expected)


def test_hard_mixes_do_not_depend_on_the_chunk(mix):
    graphs = mix.context.store.batch()
    keep = marks(mix).unsqueeze(0)
    chosen = select(keep, graphs, mix.generator)[torch.zeros(6, dtype=torch.long)]
    own = torch.arange(graphs.num_graphs).expand(6, -1)
    whole = mix.predict(own, chosen, own, chosen)
    # A graph that hosts its own subgraph has all its boundary edges back in some order.
    assert whole.shape == (6, graphs.num_graphs, 1)
    torch.testing.assert_close(replace(mix, max_nodes=1).predict(own, chosen, own, chosen), whole)


def test_proposals_have_the_pooled_size_and_mostly_hang_together(mix):
    score = torch.rand(mix.context.h.shape[0])
    keep = propose_subsets(mix, score, 10)
    graphs = mix.context.store.batch()
    for row in keep:
        assert (torch.bincount(graphs.batch[row], minlength=40) <= PLANTED).all()
    top = mix.select(score.unsqueeze(0), graphs).keep[0]
    assert torch.equal(keep[-1], top)
    inside = keep[:, graphs.edge_index[0]] & keep[:, graphs.edge_index[1]]
    grown, perturbed = inside[:4].sum(1).float().mean(), inside[8:9].sum(1).float().mean()
    assert grown > 1.3 * perturbed


def test_best_subsets_hold_planted_nodes(mix):
    labels = search_subsets(mix, marks(mix).float(), subsets=16, draws=1)
    planted = marks(mix)
    assert labels.advantage[planted].mean() > 0.2 > labels.advantage[~planted].mean()
    assert labels.gain.shape == (40,)


def test_neighbors():
    embedding = torch.nn.functional.one_hot(torch.arange(6) // 3).float()
    values = torch.arange(6.0).view(-1, 1)
    ids = torch.arange(6).repeat(50)
    for neighbor, same in (("near", True), ("far", False)):
        sampler = NeighborSampler(embedding, values, torch.Generator().manual_seed(0), neighbor)
        hit = (embedding[sampler.draw(ids)] == embedding[ids]).all(1)
        assert (hit == same).float().mean() > 0.95
    drawn, contrast = (
        NeighborSampler(embedding, values, torch.Generator().manual_seed(0), neighbor).draw(ids)
        for neighbor in ("random", "contrast")
    )
    assert set(drawn.tolist()) == set(range(6))
    distance = (values[contrast] - values[ids]).abs().mean()
    assert distance > 1.3 * (values[drawn] - values[ids]).abs().mean()


@pytest.mark.parametrize(
    "options",
    [
        {"search": "evolution"}, {"score": "sum"}, {"neighbor": "best"}, {"attach": "glue"},
        {"restarts": 0}, {"subsets": 1}, {"mixup": False}, {"bce_weight": 0.0},
        {"gate": None}, {"pool_layers": 2}, {"search": "gradient", "gate": "relu"},
    ],
)  # fmt: skip
def test_bad_arguments_are_named(options):
    with pytest.raises(InputError, match=list(options)[-1]):
        HPMEExplainer(k=3, **options)


@pytest.mark.parametrize(
    "options",
    [{"mixup": False}, {"bce_weight": 0.0}, {"gate": None}, {"pool_layers": 2}, {"attach": "rank"}],
    ids=str,
)
def test_variants_of_the_paper_differ(graphs, options):
    few, model = graphs[:10], Finder()
    plain = HPMEExplainer(k=PLANTED, search="gradient", score="edge", epochs=5)
    other = HPMEExplainer(k=PLANTED, search="gradient", score="edge", epochs=5, **options)
    masks = [
        torch.cat([e.edge_mask for e in x.fit(model, few, mode="regression").explain(model, few)])
        for x in (plain, other)
    ]
    assert not torch.equal(*masks)


@pytest.mark.parametrize("score", ["edge", "node", "both"])
def test_scores(graphs, score):
    explainer = HPMEExplainer(k=PLANTED, score=score, restarts=2, rounds=2, epochs=5)
    explanation = explainer.fit(Finder(), graphs, mode="regression").explain(Finder(), graphs)[0]
    inside = explanation.pooled[explanation.edge_index].all(0)
    mask = explanation.edge_mask
    if score == "both":
        assert (mask[inside] >= 0.5).all() and (mask[~inside] <= 0.5).all()
    if score == "node":
        lowest = explanation.node_mask[explanation.edge_index].min(0).values.view(-1)
        assert torch.equal(mask, lowest)


def test_large_graphs_are_searched_on_fewer(graphs):
    store = GraphStore.from_graphs(graphs)
    context = TargetContext.build(Finder(), store, batch_size=64, mode="regression")
    generator = torch.Generator().manual_seed(0)
    total = int(store.edge_counts.sum())
    assert context.sample(40, total, generator) is context
    assert len(context.sample(33, total, generator).store) == 33
    some = context.sample(40, int(total * 0.9), generator).store
    assert 33 < len(some) < 40 and int(some.edge_counts.sum()) <= 0.9 * total
    assert len(context.sample(40, 10, generator).store) == 32
