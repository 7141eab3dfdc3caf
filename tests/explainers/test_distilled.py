"""Distilled occlusion and best attribution: what HPME has without its search."""

import pytest
import torch
from sklearn.linear_model import Ridge
from torch_geometric.nn import global_add_pool

from finder import Finder, planted_graphs
from hpme.explainers import BestAttributionExplainer, DistilledOcclusionExplainer
from hpme.explainers.hpme.refining import gradients
from hpme.explainers.hpme.search.chains import Candidates
from hpme.explainers.hpme.search.distil import PENALTIES
from hpme.explainers.hpme.search.occlusion import occlusion
from hpme.explainers.shared.context import frozen_context
from hpme.graphs import GraphStore
from hpme.metrics import edge_auc


@pytest.fixture(scope="module")
def graphs():
    return planted_graphs(20)


def context_of(explainer, graphs):
    explained = explainer._leveled(Finder(), None, mode="regression")
    return frozen_context(explainer, explained, GraphStore.from_graphs(graphs))


def planted(graphs):
    return torch.cat([graph.x[:, 1] > 0 for graph in graphs])


def test_the_scorer_is_a_ridge_regression_of_occlusion(graphs):
    explainer = DistilledOcclusionExplainer().fit(Finder(), graphs, mode="regression")
    with context_of(explainer, graphs) as context:
        batch = context.store.batch()
        features = explainer.reader(context.layers, context.h, batch)
        labels, _ = occlusion(context)
    rows = [batch.batch == number for number in range(len(graphs))]
    x = torch.cat([features[row] - features[row].mean(0) for row in rows])
    y = torch.cat([(labels[r] - labels[r].mean()) / labels[r].std(unbiased=False) for r in rows])
    # The penalty is in units of the mean eigenvalue.
    penalty = PENALTIES[1] * float((x.T @ x).trace()) / x.shape[1]
    ridge = Ridge(alpha=penalty, fit_intercept=False).fit(x.double().numpy(), y.double().numpy())
    both = torch.stack([explainer.scorer.weight[0], torch.from_numpy(ridge.coef_).float()])
    assert float(torch.corrcoef(both)[0, 1]) > 0.9999


def test_gradients_are_those_of_autograd(graphs):
    """Of a value they have no sign; the length of the gradient never has one."""
    explainer = BestAttributionExplainer().fit(Finder(), graphs, mode="regression")
    with context_of(explainer, graphs) as context:
        batch = context.store.batch()
        _, (length, by_input, _) = gradients(context.adapter, context.task, batch)
        x = batch.x.clone().requires_grad_()
        with torch.enable_grad():
            context.adapter.trace(batch, node_input=x).output.sum().backward()
    unit = context.task.scale  # values are in units of their spread
    torch.testing.assert_close(length * unit, x.grad.norm(dim=1))
    torch.testing.assert_close(by_input * unit, (x.grad * batch.x).sum(1).abs())


def test_hard_mixes_choose_among_all_attributions(graphs, monkeypatch):
    seen = []
    chosen = Candidates.chosen

    def recorded(found):
        seen.append((len(found.weights), chosen(found), torch.stack(found.values)))
        return chosen(found)

    monkeypatch.setattr(Candidates, "chosen", recorded)
    explainer = BestAttributionExplainer(ratio=0.25).fit(Finder(), graphs, mode="regression")
    ((count, best, values),) = seen
    assert count == 6 * len(PENALTIES)
    ranks = values.argsort(dim=0, stable=True).argsort(dim=0).sum(1)
    assert ranks[best] == ranks.min()
    found = explainer.explain(Finder(), graphs, progress=False)
    score = torch.cat([one.node_mask.view(-1) for one in found])
    assert edge_auc(score, planted(graphs)) > 0.95


@pytest.mark.parametrize("kind", [DistilledOcclusionExplainer, BestAttributionExplainer])
def test_a_model_that_reads_nothing_is_explained_by_constants(kind, graphs):
    class Constant(torch.nn.Module):
        def forward(self, x, edge_index, batch):
            return 0 * global_add_pool(x, batch)[:, :1]

    explainer = kind().fit(Constant(), graphs, mode="regression", progress=False)
    found = explainer.explain(Constant(), graphs, progress=False)
    assert all(one.node_mask.unique().numel() == 1 for one in found)
