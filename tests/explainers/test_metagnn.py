import copy
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.nn import SimpleConv, global_add_pool

from contract import call, fitted, make_graphs, make_target
from hpme.errors import InputError, ModelError, UnknownNameError
from hpme.explainers import GradExplainer, MetaGNNExplainer, PGExplainer
from hpme.explainers.gnnexplainer import MaskDescent
from hpme.explainers.metagnn_adaptation import AdaptationReport
from hpme.graphs import GraphStore
from hpme.models.explained import ExplainedModel
from hpme.models.output import Task


def adapt(model, graphs, **options):
    settings = {"epochs": 1, "lr": 1e-2, "inner_steps": 3, "inner_lr": 1e-2, "mask_graphs": 4,
                "mask_epochs": 5, "mask_lr": 0.5, "size_weight": 0.1}  # fmt: skip
    explainer = MetaGNNExplainer(train_batch_size=100, **{**settings, **options})
    store = GraphStore.from_graphs(graphs)
    generator = torch.Generator().manual_seed(0)
    context = SimpleNamespace(task=Task("multiclass_classification"), store=store)
    ids = torch.arange(len(graphs))
    adapter = ExplainedModel(model).adapter()
    explainer._train(adapter, context, store.y, ids, generator, lambda _: None)
    return model


def test_one_round_equals_a_slow_one(monkeypatch):
    """Masks are taken as found; then T steps under them, then a clipped step on the task."""
    graphs, masks, drawn = make_graphs(), [], []
    search = MaskDescent.__call__

    def recorded(self, predict, batch, task, start):
        mask = search(self, predict, batch, task, start)
        masks.append(mask)
        drawn.append(batch)
        return mask

    monkeypatch.setattr(MaskDescent, "__call__", recorded)
    adapted = adapt(make_target("gcn").eval(), graphs)
    (mask,), (batch,) = masks, drawn
    model = make_target("gcn").eval()
    label = model(batch.x, batch.edge_index, batch.batch).argmax(1)
    inner = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(3):
        inner.zero_grad()
        F.cross_entropy(model(batch.x, batch.edge_index, batch.batch, mask), label).backward()
        inner.step()
    outer = torch.optim.Adam(model.parameters(), lr=1e-2)
    outer.zero_grad()
    outputs = [model(g.x, g.edge_index, torch.zeros(g.num_nodes, dtype=torch.long)) for g in graphs]
    F.cross_entropy(torch.cat(outputs), torch.cat([g.y for g in graphs])).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    outer.step()
    for (name, mine), expected in zip(adapted.named_parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-3, atol=1e-4, msg=name)


def test_the_copy_learns_the_labels_and_the_model_stays():
    graphs = make_graphs(seeds=range(20))
    for graph in graphs:
        graph.y = (graph.x[:, 0].mean() > 0).long().view(1)
    model = make_target("gcn")
    before = copy.deepcopy(model.state_dict())
    explainer = MetaGNNExplainer(
        epochs=60, lr=0.02, mask_epochs=2, mask_graphs=4, holdout=0.0, posthoc="grad"
    ).fit(model, graphs, progress=False)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    report = explainer.report
    assert (report.metric, report.held_out, report.graphs) == ("accuracy", False, 20)
    assert report.after > max(0.85, report.before + 0.2)
    assert report.shift > 0
    assert "another model" in report.warnings[0]
    assert "20 training graphs" in report.summary()
    assert AdaptationReport.from_dict(report.to_dict()) == report


def test_explains_the_copy_not_the_model():
    model, graphs = make_target("gcn"), make_graphs()
    options = {"epochs": 3, "lr": 0.05, "mask_epochs": 2}
    explainer = MetaGNNExplainer(posthoc="grad", **options).fit(model, graphs, progress=False)
    clone = copy.deepcopy(model)
    clone.load_state_dict({**clone.state_dict(), **explainer.weights.tensors()})
    for graph in graphs:
        mask = call(explainer, model, graph).edge_mask
        torch.testing.assert_close(mask, call(GradExplainer(), clone, graph).edge_mask)
        assert not torch.allclose(mask, call(GradExplainer(), model, graph).edge_mask, rtol=1e-2)


def test_held_out_graphs_are_not_trained_on(monkeypatch):
    seen = []

    def record(self, adapter, context, labels, ids, generator, advance):
        seen.append(ids)

    monkeypatch.setattr(MetaGNNExplainer, "_train", record)
    graphs = make_graphs(seeds=range(10))
    explainer = MetaGNNExplainer(posthoc="grad", holdout=0.3)
    explainer.fit(make_target("gcn"), graphs, progress=False)
    assert seen[0].unique().numel() == 7
    assert (explainer.report.held_out, explainer.report.graphs) == (True, 3)
    assert explainer.report.before == explainer.report.after  # nothing was learned
    assert explainer.report.shift == 0
    assert not explainer.report.warnings


def test_other_graphs_may_have_the_labels(monkeypatch):
    """The copy is trained on them alone; what explains it learns from the graphs of the fit."""
    trained = []

    def record(self, adapter, context, labels, ids, generator, advance):
        trained.append((context.store.x, labels))

    monkeypatch.setattr(MetaGNNExplainer, "_train", record)
    model, labelled = make_target("gcn"), make_graphs(seeds=range(10, 20))
    graphs = make_graphs()
    for graph in graphs:
        graph.y = None
    explainer = MetaGNNExplainer(posthoc_options={"epochs": 2})
    explainer.fit(model, graphs, labelled=labelled, progress=False)
    ((x, labels),) = trained
    assert torch.equal(x, torch.cat([graph.x for graph in labelled]))
    assert labels.tolist() == [int(graph.y) for graph in labelled]
    alone = PGExplainer(epochs=2).fit(model, graphs, progress=False)
    for graph in graphs:  # nothing was learned, so the copy is the model
        mask = call(explainer, model, graph).edge_mask
        torch.testing.assert_close(mask, call(alone, model, graph).edge_mask)
    with pytest.raises(InputError, match="one copy answers for one target"):
        explainer.fit(model, graphs, labelled=labelled, target=[0, 1], progress=False)


def test_regression():
    model, graphs = make_target("gcn"), make_graphs()
    model.out = nn.Linear(16, 1)
    for graph in graphs:
        graph.y = 100 * graph.x[:, :1].mean().view(1)
    explainer = MetaGNNExplainer(posthoc="grad", epochs=2, mask_epochs=2)
    report = explainer.fit(model, graphs, mode="regression", progress=False).report
    held = torch.randperm(6, generator=torch.Generator().manual_seed(0))[:1]
    graph = graphs[int(held)]
    output = model.eval()(graph.x, graph.edge_index, torch.zeros(graph.num_nodes).long())
    assert report.metric == "rmse"
    assert report.before == pytest.approx(float((output - graph.y).abs().detach()), rel=1e-4)
    worse = AdaptationReport("rmse", 1.0, 2.0, True, 5, 0.0)
    assert "worse than the given model (rmse 1 -> 2)" in worse.warnings[0]


def test_labels_are_checked():
    graphs = make_graphs()
    for graph in graphs:
        graph.y = None
    assert MetaGNNExplainer.needs_labels
    with pytest.raises(InputError, match=r"needs labels: give every graph a y"):
        MetaGNNExplainer().fit(make_target("gcn"), graphs, progress=False)
    for value in (3, -1, 0.5):
        for graph in graphs:
            graph.y = torch.tensor([value])
        with pytest.raises(InputError, match="class numbers from 0 to 2"):
            MetaGNNExplainer().fit(make_target("gcn"), graphs, progress=False)
    with pytest.raises(InputError, match=r"regression of one value"):
        MetaGNNExplainer().fit(make_target("gcn"), graphs, mode="regression", progress=False)


def test_another_model_is_refused():
    explainer = fitted("metagnn").explainer
    with pytest.raises(InputError, match=r"other parameters.*fit again"):
        call(explainer, make_target("unweighted"), make_graphs()[0])


class Fixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = SimpleConv()

    def forward(self, x, edge_index, batch):
        return global_add_pool(self.conv(x, edge_index), batch)


def test_a_model_without_parameters_or_copies():
    graphs = make_graphs()
    with pytest.raises(ModelError, match=r"no parameters.*nothing to train"):
        MetaGNNExplainer().fit(Fixed(), graphs, progress=False)
    model = make_target("gcn")
    model.kept = (number for number in range(3))
    with pytest.raises(ModelError, match="cannot be copied"):
        MetaGNNExplainer().fit(model, graphs, progress=False)


def test_unusable_options():
    with pytest.raises(UnknownNameError, match=r"post-hoc explainer 'random'.*pgexplainer"):
        MetaGNNExplainer(posthoc="random")
    with pytest.raises(InputError, match=r"posthoc_options do not fit 'grad'.*epochs"):
        MetaGNNExplainer(posthoc="grad", posthoc_options={"epochs": 3})
    with pytest.raises(InputError, match=r"holdout must lie in \[0, 1\), got 1\.0"):
        MetaGNNExplainer(holdout=1.0)
    with pytest.raises(InputError, match="inner_steps must be at least 1, got 0"):
        MetaGNNExplainer(inner_steps=0)
