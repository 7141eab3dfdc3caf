"""MixupExplainer against pairs joined one by one, and on a target with a known explanation."""

import pytest
import torch

from contract import fitted, make_explainer, make_graphs, make_target
from hpme.data import GraphStore
from hpme.errors import InputError
from hpme.explainers import MixupExplainer
from hpme.explainers.shared.context import Context
from hpme.explainers.shared.templates import matched
from hpme.metrics import explanation_auc
from hpme.models.freezing import frozen
from planted import MarkedEdges, marked_graphs, regression_target, weighted_output


def entropy(w):
    return -(w * w.log() + (1 - w) * (1 - w).log()).mean()


@pytest.mark.parametrize("mode", ["multiclass_classification", "regression"])
def test_loss_against_pairs_one_by_one(mode):
    model = regression_target() if mode == "regression" else make_target("gcn").eval()
    graphs = make_graphs()
    explainer = MixupExplainer(bridges=0, size_weight=0.2, entropy_weight=0.3)
    ids = torch.tensor([3, 0, 5])
    with frozen(model):
        context = Context.build(model, GraphStore.from_graphs(graphs), batch_size=4, mode=mode)
        explainer._start(context, torch.Generator())
        loss = explainer._loss(context, ids, 2.0, torch.Generator().manual_seed(5))
        generator = torch.Generator().manual_seed(5)
        firsts, partners = matched(ids, len(graphs), generator)
        assert set(torch.cat([firsts, partners]).tolist()) == set(ids.tolist())
        masks = []
        for chosen in (firsts, partners):
            batch = context.store.batch(chosen)
            mask = explainer._sample(context.h[batch.node_ids], batch, 2.0, generator)
            masks.append(mask.split([graphs[int(i)].num_edges for i in chosen]))
        expected = []
        for a, b, w_a, w_b in zip(firsts, partners, *masks, strict=True):
            g_a, g_b = graphs[int(a)], graphs[int(b)]
            for wanted, weights in ((a, (w_a, 1 - w_b)), (b, (1 - w_a, w_b))):
                output = weighted_output(model, [(g_a, weights[0]), (g_b, weights[1])])[0]
                if mode == "regression":
                    scale = torch.cat([model(g.x, g.edge_index) for g in graphs]).std()
                    goal = model(graphs[int(wanted)].x, graphs[int(wanted)].edge_index)[0, 0]
                    expected.append(((output[0] - goal) / scale) ** 2)
                else:
                    goal = model(graphs[int(wanted)].x, graphs[int(wanted)].edge_index).argmax()
                    expected.append(-output.log_softmax(0)[goal])
            expected += [0.2 * w.sum() + 0.3 * entropy(w) for w in (w_a, w_b)]
    torch.testing.assert_close(loss, torch.stack(expected).sum() / len(firsts), rtol=1e-4, atol=0)


def test_prediction_alone_teaches():
    """Without size and entropy all gradient comes through the model."""
    model = make_target("gcn")
    explainer = make_explainer("mixupexplainer", size_weight=0, entropy_weight=0)
    with frozen(model):
        context = Context.build(model, GraphStore.from_graphs(make_graphs()), batch_size=9)
        explainer._start(context, torch.Generator())
        explainer._loss(context, torch.arange(6), 1.0, torch.Generator()).backward()
    assert all(float(p.grad.abs().sum()) > 0 for p in explainer.parameters())


def test_finds_the_edges_that_matter():
    model, graphs = MarkedEdges(), marked_graphs()
    explainer = MixupExplainer(epochs=40, size_weight=0.01, entropy_weight=0.01)
    explainer.fit(model, graphs, mode="regression", progress=False)
    explanations = explainer.explain(model, graphs, progress=False)
    assert float(explanation_auc(explanations, graphs)) > 0.95


def test_options():
    with pytest.raises(InputError, match="bridges must be at least 0, got -1"):
        MixupExplainer(bridges=-1)
    with pytest.raises(TypeError, match="no_such"):
        MixupExplainer(no_such=1)
    assert fitted("mixupexplainer").explainer.config()["bridges"] == 1
