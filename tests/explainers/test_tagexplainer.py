"""TAGE: contrasts against loops, conditions against known gradients, a known explanation."""

import math

import pytest
import torch
from torch_geometric.data import Batch

from contract import call, make_graph, make_graphs, make_target
from hpme.data import GraphStore
from hpme.errors import InputError
from hpme.explainers import TAGExplainer
from hpme.explainers.shared.context import Context
from hpme.explainers.tagexplainer import jse_contrast, laplace, nce_contrast
from hpme.metrics import explanation_auc
from hpme.models.explained import ExplainedModel
from hpme.models.freezing import frozen
from planted import MarkedEdges, marked_graphs, regression_target


def rows(count=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, 3, generator=generator), torch.randn(count, 3, generator=generator)


def softplus(value):
    return math.log1p(math.exp(value))


def test_jse_against_loops():
    a, b = rows()
    matched, apart = [], []
    for i in range(5):
        for j in range(5):
            d = float(a[i] @ b[j])
            if i == j:
                matched.append(math.log(2) - softplus(-d))
            else:
                apart.append(softplus(-d) + d - math.log(2))
    expected = sum(apart) / len(apart) - sum(matched) / len(matched)
    assert float(jse_contrast(a, b)) == pytest.approx(expected, rel=1e-5)
    alone = float(jse_contrast(a[:1], b[:1]))
    assert alone == pytest.approx(-matched[0], rel=1e-5)


def test_nce_against_loops():
    a, b = rows()
    expected = 0.0
    for one, other in ((a, b), (b, a)):
        for i in range(5):
            cosine = [
                float(one[i] @ other[j] / one[i].norm() / other[j].norm()) / 0.5 for j in range(5)
            ]
            # The denominator holds the matched row too: without it one graph gives -infinity.
            expected -= math.log(math.exp(cosine[i]) / sum(map(math.exp, cosine))) / 10
    assert float(nce_contrast(a, b)) == pytest.approx(expected, rel=1e-5)
    assert float(nce_contrast(a[:1], b[:1])) == 0


def test_laplace():
    sample = laplace(torch.Size([200_000]), 0.2, torch.Generator().manual_seed(0))
    assert float(sample.abs().mean()) == pytest.approx(0.2, rel=0.02)
    assert float(sample.median()) == pytest.approx(0, abs=0.005)
    assert float(sample.var()) == pytest.approx(2 * 0.2**2, rel=0.03)


def condition(model, mode, graphs):
    explainer = TAGExplainer(epochs=1, scale=0.3).fit(model, graphs, mode=mode, progress=False)
    batch = Batch.from_data_list(graphs)
    with frozen(model), torch.enable_grad():
        flat = GraphStore.from_graphs(graphs).batch()
        result, h = explainer._condition(ExplainedModel(model).adapter(), flat)
    torch.testing.assert_close(h, model.node_embeddings(batch.x, batch.edge_index))
    return result, model(batch.x, batch.edge_index, batch.batch)


def normed(weight):
    return 0.3 * weight / weight.abs().mean()


@torch.no_grad()
def test_condition_is_the_gradient_of_the_predicted_class():
    """The head is linear, so the gradient is a row of its weights."""
    model, graphs = make_target("gcn").eval(), make_graphs()
    result, output = condition(model, None, graphs)
    assert result.shape == (6, 16)  # twice the width of the nodes
    for row, y in zip(result, output.argmax(1), strict=True):
        torch.testing.assert_close(row, normed(model.out.weight[y]).relu())


@torch.no_grad()
def test_condition_of_one_output():
    model, graphs = regression_target(), make_graphs(seeds=range(12))
    centre = torch.cat([model(g.x, g.edge_index) for g in graphs]).median()
    model.out.bias -= centre + 1e-4  # both classes occur
    weight = normed(model.out.weight[0])
    result, output = condition(model, "binary_classification", graphs)
    assert 0 < int((output > 0).sum()) < 12
    for row, logit in zip(result, output, strict=True):
        torch.testing.assert_close(row, (weight * logit.sign()).relu())
    result, _ = condition(model, "regression", graphs)
    torch.testing.assert_close(result, weight.abs().expand(12, -1))


def test_explanations_follow_the_head():
    """What is learned knows no task; the head alone makes the difference."""
    model, graphs = make_target("gcn"), make_graphs()
    explainer = TAGExplainer(epochs=3).fit(model, graphs, progress=False)
    graph = make_graph(9)
    before = call(explainer, model, graph).edge_mask
    with torch.no_grad():
        model.out.weight.neg_()
    assert not torch.allclose(before, call(explainer, model, graph).edge_mask)


@pytest.mark.parametrize("contrast", ["jse", "nce"])
def test_contrast_alone_teaches(contrast):
    """Without size and entropy all gradient comes through the model's graph embedding."""
    model = make_target("gcn")
    explainer = TAGExplainer(contrast=contrast, size_weight=0, entropy_weight=0)
    with frozen(model):
        context = Context.build(model, GraphStore.from_graphs(make_graphs()), batch_size=9)
        explainer._start(context, torch.Generator())
        explainer._loss(context, torch.arange(6), 1.0, torch.Generator()).backward()
    assert all(float(p.grad.abs().sum()) > 0 for p in explainer.parameters())


def test_size_is_charged_on_the_mean():
    model = make_target("gcn")
    with frozen(model):
        context = Context.build(model, GraphStore.from_graphs(make_graphs()), batch_size=9)
        losses = []
        for weight in (0.0, 1.0):
            explainer = TAGExplainer(size_weight=weight, entropy_weight=0)
            explainer._start(context, torch.Generator())
            generator = torch.Generator().manual_seed(0)
            loss = explainer._loss(context, torch.arange(6), 1.0, generator)
            losses.append(loss.item())
    assert 0.3 < losses[1] - losses[0] < 0.7  # the mean of fresh samples


def test_finds_the_edges_that_matter():
    model, graphs = MarkedEdges(), marked_graphs()
    explainer = TAGExplainer(epochs=40).fit(model, graphs, mode="regression", progress=False)
    explanations = explainer.explain(model, graphs, progress=False)
    assert float(explanation_auc(explanations, graphs)) > 0.95


def test_options():
    with pytest.raises(InputError, match=r"contrast must be one of .*'jse'.*, got 'x'"):
        TAGExplainer(contrast="x")
    with pytest.raises(InputError, match="scale must be above 0"):
        TAGExplainer(scale=0)
