"""Scores of one scorer for all graphs, corrected by interventions in the graph itself."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, global_add_pool, global_mean_pool

import hetero
from finder import PLANTED, Finder
from hpme.explainers import HPMEExplainer
from hpme.explainers.hpme import explainer as module
from hpme.explainers.hpme import refining
from hpme.explainers.hpme.refining import WEIGHTS
from hpme.graphs import GraphStore

CHEAP = {"k": 2, "restarts": 1}
FORMS = ("gradient", "occlusion")


class Either(nn.Module):
    """Which of two pairs of nodes decides, the other nodes say: no linear scorer knows both."""

    calls = 0

    def forward(self, x, edge_index, batch):
        type(self).calls += 1
        h = x + 0 * global_add_pool(x[edge_index[0]], batch[edge_index[1]])[batch]
        first, second = global_add_pool(h[:, 2:4], batch).T.unbind()
        mood = global_mean_pool(h[:, 4:], batch)[:, 0]
        score = 4 * (mood.relu() * first + (-mood).relu() * second)
        return torch.stack([torch.zeros_like(score), score], dim=1)


def either(number):
    """Nodes 0 and 1 are the first pair, 4 and 5 the second, in a ring of ten."""
    generator = torch.Generator().manual_seed(number)
    first, second, mood = (torch.randint(2, (3,), generator=generator) * 2 - 1).tolist()
    x = torch.zeros(10, 5)
    x[[0, 1], 0], x[[4, 5], 1] = 1.0, 1.0
    x[[0, 1], 2], x[[4, 5], 3] = float(first), float(second)
    x[[2, 3, 6, 7, 8, 9], 4] = float(mood)
    ring = torch.stack([torch.arange(10), (torch.arange(10) + 1) % 10])
    pair = [0, 1] if mood > 0 else [4, 5]
    return Data(x=x, edge_index=torch.cat([ring, ring.flip(0)], dim=1), pair=pair)


GRAPHS = [either(number) for number in range(60)]


def fit(refine, graphs=GRAPHS, model=None, **facts):
    explainer = HPMEExplainer(**CHEAP, refine=refine)
    return explainer.fit(model or Either(), graphs, progress=False, **facts)


@pytest.fixture(scope="module")
def fitted():
    return {refine: fit(refine) for refine in (None, *FORMS)}


def weight_of(explainer):
    return float(explainer.pool.weight[0, -1])


def right(explainer):
    """Share of graphs whose pooled nodes are the pair that decides."""
    found = explainer.explain(Either(), GRAPHS, progress=False)
    tops = [e.node_mask.view(-1).topk(2).indices.sort().values.tolist() for e in found]
    return sum(top == graph.pair for top, graph in zip(tops, GRAPHS, strict=True)) / len(GRAPHS)


def test_what_one_scorer_cannot_rank_is_mended(fitted):
    assert weight_of(fitted[None]) == 0 and right(fitted[None]) < 0.7
    for refine in FORMS:
        assert weight_of(fitted[refine]) > 0
        assert right(fitted[refine]) > 0.95


@pytest.mark.parametrize("refine", FORMS)
def test_masks_depend_on_the_graph_alone(fitted, refine, tmp_path):
    explainer = fitted[refine]
    together = explainer.explain(Either(), GRAPHS[:6], progress=False)
    explainer.save(tmp_path / "e.safetensors")
    loaded = HPMEExplainer.load(tmp_path / "e.safetensors")
    assert loaded.refine == refine
    order = torch.randperm(10, generator=torch.Generator().manual_seed(0))
    for graph, given, again in zip(
        GRAPHS, together, loaded.explain(Either(), GRAPHS[:6], progress=False), strict=False
    ):
        assert torch.equal(given.node_mask, again.node_mask)
        assert torch.equal(given.edge_mask, again.edge_mask)
        moved = Data(x=graph.x[order], edge_index=order.argsort()[graph.edge_index])
        alone = explainer.explain(Either(), [moved], progress=False)[0]
        assert torch.allclose(alone.node_mask, given.node_mask[order], atol=1e-4)
        assert torch.equal(alone.pooled, given.pooled[order])


def test_a_pass_back_needs_no_further_pass_ahead(fitted):
    def calls(refine):
        Either.calls = 0
        fitted[refine].explain(Either(), GRAPHS, progress=False)
        return Either.calls

    assert calls("gradient") == calls(None)
    assert calls("occlusion") > calls(None)


def test_transplants_are_about_the_corrected_pool(fitted):
    explainer = fitted["gradient"]
    shown = explainer.explain(Either(), GRAPHS[:4], progress=False)
    with explainer._transplants(Either(), GraphStore.from_graphs(GRAPHS[:4])) as transplants:
        assert torch.equal(transplants.pooled[:40], torch.cat([e.pooled for e in shown]))


def test_where_the_scorer_is_right_it_is_left_alone(graphs):
    """With weight 0 all is as without, to the last bit."""

    class Flat(Finder):
        def forward(self, *arguments, **options):
            return super().forward(*arguments, **options).detach()

    found = []
    for refine in (None, "gradient"):
        explainer = HPMEExplainer(**{**CHEAP, "k": PLANTED}, refine=refine)
        explainer.fit(Flat(), graphs, mode="regression", progress=False)
        assert weight_of(explainer) == 0  # nothing flows back
        found.append(explainer.explain(Flat(), graphs, progress=False)[0])
    assert torch.equal(found[0].node_mask, found[1].node_mask)
    assert torch.equal(found[0].edge_mask, found[1].edge_mask)


@pytest.mark.parametrize(("before", "counts"), [((-1e-7, 0.0), False), ((0.5, 0.5), True)])
def test_rounding_decides_nothing(monkeypatch, before, counts):
    """A correlation of one may be a little more; a scorer that keeps all cannot be bettered."""
    values = torch.tensor([before, (-1e-7, 0.0), (0.6, 0.6)])
    monkeypatch.setattr(refining, "criterion", lambda *_: values)
    assert (weight_of(fit("gradient", GRAPHS[:12])) > 0) == counts


@pytest.mark.parametrize("refine", FORMS)
def test_codes_types_and_targets_of_nodes(monkeypatch, refine):
    """Applies wherever a gradient flows; forced here, since untrained models would not want it."""
    monkeypatch.setattr(module, "chosen_weight", lambda *_: WEIGHTS[-1])

    class Coded(nn.Module):
        def __init__(self, nodes):
            super().__init__()
            torch.manual_seed(0)
            self.nodes, self.first, self.conv = nodes, nn.Embedding(4, 6), GCNConv(6, 2)

        def forward(self, x, edge_index, batch=None):
            h = self.conv(self.first(x[:, 0]), edge_index)
            return h if self.nodes else global_add_pool(h, batch)

    generator = torch.Generator().manual_seed(1)
    codes = [torch.randint(4, (10, 1), generator=generator) for _ in range(12)]
    coded = [Data(x=x, edge_index=GRAPHS[0].edge_index) for x in codes]
    whole = fit(refine, coded, Coded(nodes=False))
    single = whole.explain(Coded(nodes=False), coded[:2], progress=False)
    assert all(bool(e.node_mask.isfinite().all()) for e in single)
    assert float(single[0].node_mask.std()) > 0
    explainer = HPMEExplainer(**CHEAP, refine=refine, num_hops=2)
    explainer.fit(Coded(nodes=True), coded[0], index=torch.arange(10), progress=False)
    found = explainer.explain(Coded(nodes=True), coded[0], index=[3], progress=False)[0]
    assert bool(found.node_mask.isfinite().all()) and float(found.node_mask.max()) == 1
    graphs = hetero.make_graphs(8)
    typed = fit(refine, graphs, hetero.make_model(), mode="multiclass_classification")
    masks = typed.explain(hetero.make_model(), graphs[:2], progress=False)[1].node_mask_dict
    assert all(bool(mask.isfinite().all()) for mask in masks.values())
