import sys
from itertools import combinations
from math import factorial

import networkx as nx
import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.utils import to_networkx

from contract import LEFT_OUT, call, make_graph, make_graphs, make_target
from hpme.errors import InputError, MissingPackageError
from hpme.explainers import MyersonExplainer
from hpme.explainers.myerson import MOST_NODES
from planted import decided_target, regression_target

needs_package = pytest.mark.skipif("myerson" in LEFT_OUT, reason=str(LEFT_OUT.get("myerson")))


def log_odds(model, graph, kept):
    """Log odds of the class predicted for the whole graph, with the features of some nodes."""
    batch = torch.zeros(graph.num_nodes, dtype=torch.long)
    there = torch.tensor([[float(node in kept)] for node in range(graph.num_nodes)])
    with torch.no_grad():
        predicted = model(graph.x, graph.edge_index, batch).argmax()
        share = model(graph.x * there, graph.edge_index, batch).double().softmax(1)[0, predicted]
    return float((share / (1 - share)).log())


def worth(model, graph, coalition):
    """The sum over the connected parts of a coalition."""
    inside = to_networkx(graph, to_undirected=True).subgraph(coalition)
    nothing = log_odds(model, graph, ())
    return sum(log_odds(model, graph, part) - nothing for part in nx.connected_components(inside))


def slow_values(model, graph):
    """Myerson values by their definition, over all coalitions."""
    total, values = graph.num_nodes, []
    for node in range(total):
        others, value = [other for other in range(total) if other != node], 0.0
        for size in range(total):
            share = factorial(size) * factorial(total - size - 1) / factorial(total)
            for coalition in combinations(others, size):
                gain = worth(model, graph, (*coalition, node)) - worth(model, graph, coalition)
                value += share * gain
        values.append(value)
    return torch.tensor(values)


def squashed(values):
    return values.abs() / (1 + values.abs())


@needs_package
def test_exact_values_by_definition():
    model, graph = decided_target(), make_graph(3, 5)
    values = slow_values(model, graph)
    explanation = call(MyersonExplainer(), model, graph)
    torch.testing.assert_close(
        explanation.node_mask.view(-1), squashed(values), atol=1e-4, rtol=1e-4
    )
    ends = explanation.node_mask.view(-1)[graph.edge_index]
    assert torch.equal(explanation.edge_mask, ends.min(0).values)
    everybody = worth(model, graph, range(5))
    assert float(values.sum()) == pytest.approx(everybody, abs=1e-4)


@needs_package
def test_samples_come_close_to_the_exact_values():
    model, graph = decided_target(), make_graph(2, 8)
    exact = call(MyersonExplainer(), model, graph).node_mask
    few, many = (
        call(MyersonExplainer(exact_nodes=0, samples=samples), model, graph).node_mask
        for samples in (3, 1000)
    )
    assert float(exact.max()) > 0.1
    assert float((many - exact).abs().max()) < 0.02
    assert float((few - exact).abs().max()) > float((many - exact).abs().max())


@needs_package
def test_other_seed_other_samples():
    model, graph = decided_target(), make_graph(2, 8)
    masks = [
        call(MyersonExplainer(exact_nodes=0, samples=3, seed=seed), model, graph).node_mask
        for seed in (0, 0, 1)
    ]
    assert torch.equal(masks[0], masks[1])
    assert not torch.allclose(masks[0], masks[2], atol=1e-3)


@needs_package
def test_a_coalition_that_falls_apart_is_worth_its_parts():
    """In a path of three the ends have nothing to share without the middle."""
    model = decided_target()
    path = Data(x=make_graph(0).x[:3], edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    torch.testing.assert_close(
        call(MyersonExplainer(), model, path).node_mask.view(-1),
        squashed(slow_values(model, path)),
        atol=1e-4,
        rtol=1e-4,
    )


@needs_package
def test_several_outputs_are_summed():
    model, graphs = regression_target(), make_graphs(seeds=range(3))

    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x, edge_index, batch):
            output = self.inner(x, edge_index, batch)
            return torch.cat([output, -output], dim=1)

    masks = []
    for target in (model, Twice()):
        explainer = MyersonExplainer().fit(target, graphs, mode="regression", progress=False)
        explainer.task = type(explainer.task)("regression")
        mask = call(explainer, target, Batch.from_data_list(graphs)).node_mask
        masks.append(mask / (1 - mask))
    torch.testing.assert_close(masks[1], 2 * masks[0], rtol=1e-3, atol=1e-5)


@needs_package
def test_graphs_too_large_for_the_package():
    edges = torch.stack([torch.arange(MOST_NODES), torch.arange(1, MOST_NODES + 1)])
    graph = Data(x=torch.ones(MOST_NODES + 1, 3), edge_index=edges)
    with pytest.raises(InputError, match=r"has 1501 nodes.*at most 1500.*'occlusion'"):
        call(MyersonExplainer(), make_target("gcn"), graph)


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "myerson", None)
    with pytest.raises(MissingPackageError, match=r"need the package.*pip install 'hpme\[myerson"):
        MyersonExplainer()


@pytest.mark.parametrize(("option", "value"), [("exact_nodes", -1), ("samples", 0)])
def test_unusable_options(option, value):
    with pytest.raises(InputError, match=f"{option} must be at least"):
        MyersonExplainer(**{option: value})
