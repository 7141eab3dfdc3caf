import pytest
import torch
import torch.nn.functional as F
from torch_geometric.explain import Explainer
from torch_geometric.explain import GNNExplainer as PyGGNNExplainer

from contract import call, make_graph, make_graphs, make_target, odd_graphs
from hpme.errors import InputError
from hpme.explainers import GNNExplainer
from hpme.explainers.gnnexplainer import MaskDescent
from hpme.explainers.shared.templates import weighted_model
from hpme.graphs import GraphStore
from hpme.metrics import explanation_auc
from hpme.models.explained import ExplainedModel
from hpme.models.freezing import frozen
from hpme.models.output import Task
from planted import MARKED, MarkedEdges, marked_graphs

CLASSES = Task("multiclass_classification")
CONFIG = {"mode": "multiclass_classification", "task_level": "graph", "return_type": "raw"}


def descend(model, graphs, start, descent):
    batch = GraphStore.from_graphs(graphs).batch()
    with frozen(model):
        predict = weighted_model(ExplainedModel(model).adapter(), batch, {})
        return descent(predict, batch, CLASSES, start)


def test_parity_with_pyg():
    """The same first mask and no penalties (PyG leaves them out of its first step)."""
    model, graph = make_target("unweighted").eval(), make_graph(4, 9, directed=True)
    settings = {"explanation_type": "model", "edge_mask_type": "object", "model_config": CONFIG}
    algorithm = PyGGNNExplainer(epochs=50, lr=0.05, edge_size=0.0, edge_ent=0.0)
    explainer = Explainer(model, algorithm, **settings)
    batch = torch.zeros(9, dtype=torch.long)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(5)
        expected = explainer(graph.x, graph.edge_index, batch=batch).edge_mask
        torch.default_generator.manual_seed(5)
        start = torch.randn(graph.num_edges) * 2**0.5 * (2 / (2 * 9)) ** 0.5
    # One edge per pair: the pairs are the edges in another order.
    of_edge = GraphStore.from_graphs([graph]).pairs.of_edge
    place = torch.empty_like(start)
    place[of_edge] = start
    actual = descend(model, [graph], place, MaskDescent(50, 0.05, 0.0, 0.0))
    reached = expected > 0  # PyG sets edges without a gradient to 0
    assert int(reached.sum()) > 5
    torch.testing.assert_close(actual[reached], expected[reached], rtol=1e-4, atol=1e-5)


def test_equals_a_slow_run_graph_by_graph():
    model, graphs = make_target("gcn").eval(), make_graphs()
    batch = GraphStore.from_graphs(graphs).batch()
    pairs = batch.pairs.index
    start = torch.randn(pairs.shape[1], generator=torch.Generator().manual_seed(0))
    together = descend(model, graphs, start, MaskDescent(40, 0.1, 0.05, 0.5))
    keys = {tuple(pair): value for pair, value in zip(pairs.t().tolist(), start, strict=True)}
    node, edge = 0, 0
    for graph in graphs:
        dense = torch.zeros(graph.num_nodes, graph.num_nodes)
        for i, j in graph.edge_index.t().tolist():
            dense[i, j] = keys[tuple(sorted((i + node, j + node)))]
        upper = dense.triu().requires_grad_()
        zeros = torch.zeros(graph.num_nodes, dtype=torch.long)
        label = model(graph.x, graph.edge_index, zeros).argmax(1)
        optimiser = torch.optim.Adam([upper], lr=0.1)
        for _ in range(40):
            weight = (upper.triu() + upper.triu(1).t()).sigmoid()[tuple(graph.edge_index)]
            loss = F.cross_entropy(model(graph.x, graph.edge_index, zeros, weight), label)
            loss = loss + 0.05 * weight.sum()
            loss = loss + 0.5 * torch.distributions.Bernoulli(weight).entropy().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        weight = (upper.triu() + upper.triu(1).t()).sigmoid()[tuple(graph.edge_index)].detach()
        mine = together[edge : edge + graph.num_edges]
        torch.testing.assert_close(mine, weight, rtol=1e-3, atol=1e-4)
        node, edge = node + graph.num_nodes, edge + graph.num_edges


def test_default_run_is_the_same_alone_as_in_a_batch():
    model, odd = make_target("gcn"), odd_graphs()
    graphs = [*make_graphs(seeds=range(3)), odd["some self-loops"], odd["repeated edges"]]
    explainer = GNNExplainer()
    for explanation, graph in zip(
        explainer.explain(model, graphs, progress=False), graphs, strict=True
    ):
        alone = call(explainer, model, graph).edge_mask
        torch.testing.assert_close(alone, explanation.edge_mask, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", MARKED)
def test_finds_the_edges_that_matter(mode):
    model, graphs = MARKED[mode](), marked_graphs(12)
    if mode is None:  # the answer "less" is the same without any edge
        graphs = [graph for graph in graphs if graph.edge_mask.sum() > 6]
        assert len(graphs) > 3
    explainer = GNNExplainer().fit(model, graphs, mode=mode, progress=False)
    masks = explainer.explain(model, graphs, progress=False)
    assert explanation_auc(masks, graphs) > 0.95


def test_the_mask_comes_from_the_model_not_from_the_first_logits():
    model, graphs = MarkedEdges(), marked_graphs(8)
    masks = [
        torch.cat(
            [
                e.edge_mask
                for e in explainer.fit(model, graphs, mode="regression", progress=False).explain(
                    model, graphs, progress=False
                )
            ]
        )
        for explainer in (
            GNNExplainer(seed=0),
            GNNExplainer(seed=1),
            GNNExplainer(seed=0, epochs=1, lr=1e-6),
            GNNExplainer(seed=1, epochs=1, lr=1e-6),
        )
    ]
    correlation = torch.corrcoef(torch.stack(masks))
    assert float(correlation[0, 1]) > 0.8
    assert abs(float(correlation[2, 3])) < 0.2


def test_the_task_may_come_from_pyg():
    graphs = marked_graphs(5)
    with pytest.raises(InputError, match="pass mode='regression'"):
        call(GNNExplainer(), MarkedEdges(unit=50), graphs[0])
    settings = {"explanation_type": "model", "edge_mask_type": "object"}
    config = {"mode": "regression", "task_level": "graph"}
    explainer = Explainer(
        MarkedEdges(unit=50), GNNExplainer(epochs=5), model_config=config, **settings
    )
    listed = explainer.algorithm.explain(MarkedEdges(unit=50), graphs, progress=False)
    for graph, together in zip(graphs, listed, strict=True):
        batch = torch.zeros(graph.num_nodes, dtype=torch.long)
        alone = explainer(graph.x, graph.edge_index, batch=batch).edge_mask
        torch.testing.assert_close(alone, together.edge_mask)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"lr": 0.0}, r"lr must be above 0, got 0\.0"),
        ({"size_weight": -1.0}, "size_weight must be at least 0"),
        ({"entropy_weight": float("nan")}, "entropy_weight must be at least 0, got nan"),
    ],
)
def test_unusable_options(options, message):
    with pytest.raises(InputError, match=message):
        GNNExplainer(**options)
