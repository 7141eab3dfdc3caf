import pytest
import torch
import torch.nn.functional as F
from torch.distributions import Bernoulli

from contract import make_graphs, make_target
from hpme.errors import InputError
from hpme.explainers import PGExplainer
from hpme.explainers.shared.context import Context
from hpme.graphs import GraphStore
from hpme.metrics import explanation_auc
from hpme.models.freezing import frozen
from planted import MARKED, marked_graphs


def started(model, graphs, **options):
    """An explainer before its first step."""
    explainer = PGExplainer(**options)
    with frozen(model):
        context = Context.build(model, GraphStore.from_graphs(graphs), batch_size=100)
    explainer._start(context, torch.Generator().manual_seed(0))
    return explainer, context


def test_loss_and_gradient_equal_a_slow_run_graph_by_graph():
    model, graphs = make_target("gcn").eval(), make_graphs()
    explainer, context = started(model, graphs, size_weight=0.2, entropy_weight=0.7)
    ids = torch.tensor([4, 1, 2])
    with frozen(model):
        loss = explainer._loss(context, ids, 2.5, torch.Generator().manual_seed(3))
        loss.backward()
    gradients = [p.grad.clone() for p in explainer.edge_mlp.parameters()]
    explainer.zero_grad()
    generator = torch.Generator().manual_seed(3)
    losses = []
    count = sum(len({tuple(sorted(e)) for e in graphs[g].edge_index.t().tolist()}) for g in ids)
    noise = iter(torch.rand(count, generator=generator).clamp(1e-4, 1 - 1e-4).logit())
    for number in ids.tolist():
        graph = graphs[number]
        edges = graph.edge_index.t().tolist()
        zeros = torch.zeros(graph.num_nodes, dtype=torch.long)
        h = model.node_embeddings(graph.x, graph.edge_index).detach()
        label = model(graph.x, graph.edge_index, zeros).argmax(1)
        sample = {}
        for i, j in sorted({tuple(sorted(edge)) for edge in edges}):
            logit = explainer.edge_mlp(h, torch.tensor([[i], [j]]))
            sample[i, j] = ((logit + next(noise)) / 2.5).sigmoid()
        weight = torch.cat([sample[tuple(sorted(edge))] for edge in edges])
        prediction = F.cross_entropy(model(graph.x, graph.edge_index, zeros, weight), label)
        entropy = Bernoulli(weight).entropy().mean()
        losses.append(prediction + 0.2 * weight.sum() + 0.7 * entropy)
    expected = torch.stack(losses).mean()
    torch.testing.assert_close(loss, expected)
    expected.backward()
    for mine, parameter in zip(gradients, explainer.edge_mlp.parameters(), strict=True):
        torch.testing.assert_close(mine, parameter.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("target", ["gcn", "gat", "gine", "unweighted"])
def test_the_prediction_reaches_the_edge_mlp(target):
    """Without penalties the only gradient is the model's."""
    model, graphs = make_target(target), make_graphs(target)
    explainer, context = started(model, graphs, size_weight=0.0, entropy_weight=0.0)
    with frozen(model):
        generator = torch.Generator().manual_seed(0)
        explainer._loss(context, torch.arange(6), 1.0, generator).backward()
        graph = context.store.batch()
        mask = explainer._sample(context.h, graph, 1.0, generator).detach()
        assert not torch.allclose(context.predict(graph, mask), context.predict(graph))
    assert all(float(p.grad.abs().max()) > 0 for p in explainer.edge_mlp.parameters())


@pytest.mark.parametrize("mode", MARKED)
def test_finds_the_edges_that_matter(mode):
    model, graphs = MARKED[mode](), marked_graphs(16)
    explainer = PGExplainer(epochs=150, size_weight=0.05)
    explainer.fit(model, graphs[:12], mode=mode, progress=False)
    unseen = graphs[12:]
    masks = explainer.explain(model, unseen, progress=False)
    assert explanation_auc(masks, unseen) > 0.95


def test_both_directions_share_their_sample():
    explainer, context = started(make_target("gcn"), make_graphs())
    graphs = context.store.batch()
    sample = explainer._sample(context.h, graphs, 1.0, torch.Generator().manual_seed(0)).detach()
    dense = torch.zeros(graphs.num_nodes, graphs.num_nodes)
    dense[tuple(graphs.edge_index)] = sample
    assert torch.equal(dense, dense.t())
    assert sample.unique().numel() == graphs.edge_index.shape[1] // 2


def test_temperature_falls_geometrically():
    explainer = PGExplainer(epochs=4, start_temperature=8.0, end_temperature=0.5)
    assert [explainer._temperature(e) for e in range(4)] == pytest.approx([8, 4, 2, 1])


def test_one_step_per_mini_batch(monkeypatch):
    seen = []
    loss = PGExplainer._loss

    def counted(self, context, ids, temperature, generator):
        seen.append(ids.tolist())
        return loss(self, context, ids, temperature, generator)

    monkeypatch.setattr(PGExplainer, "_loss", counted)
    PGExplainer(epochs=2, batch_size=4).fit(make_target("gcn"), make_graphs(), progress=False)
    assert [len(ids) for ids in seen] == [4, 2, 4, 2]
    assert sorted(seen[0] + seen[1]) == sorted(seen[2] + seen[3]) == list(range(6))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"hidden": 0}, "hidden must be at least 1, got 0"),
        ({"lr": 0.0}, r"lr must be above 0, got 0\.0"),
        ({"end_temperature": 0.0}, "end_temperature must be above 0"),
        ({"weight_decay": -1.0}, "weight_decay must be at least 0"),
    ],
)
def test_unusable_options(options, message):
    with pytest.raises(InputError, match=message):
        PGExplainer(**options)


def test_edges_of_a_neighbourhood_depend_on_its_target_node():
    """The same graph about two of its nodes: logits are those of [h_i; h_j; h_v]."""
    model, graph = make_target("gcn").eval(), make_graphs()[0]
    graphs = []
    for node in (0, 1):
        one = graph.clone()
        one.anchors = torch.tensor([[node]])
        graphs.append(one)
    store = GraphStore.from_graphs(graphs)
    explainer = PGExplainer()
    with frozen(model):
        context = explainer._beside_target(Context.build(model, store, batch_size=2))
    explainer._start(context, torch.Generator().manual_seed(0))
    adapter, batch = context.adapter, store.batch()
    masks = explainer._explain(adapter, batch).edge_mask.view(2, -1)
    h = model.node_embeddings(graph.x, graph.edge_index).detach()
    first, second = explainer.edge_mlp.first.split(2 * h.shape[1])
    for node, mask in enumerate(masks):
        for (i, j), weight in zip(graph.edge_index.t().tolist(), mask, strict=True):
            logits = []
            for near, far in ((i, j), (j, i)):
                row = torch.cat([h[near], h[node]]) @ first + torch.cat([h[far], h[node]]) @ second
                hidden = (row + explainer.edge_mlp.first_bias).relu()
                logits.append(hidden @ explainer.edge_mlp.second + explainer.edge_mlp.second_bias)
            torch.testing.assert_close(weight, torch.stack(logits).mean().sigmoid())
    assert not torch.allclose(masks[0], masks[1])
