from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Batch

from contract import call, make_graph, make_graphs, make_target
from hpme.errors import InputError
from hpme.explainers import IntegratedGradientsExplainer
from hpme.explainers.integratedgradients import integrate
from planted import MarkedEdges, marked_graphs, regression_target

OVER = ("edges", "features")
over_both = pytest.mark.parametrize("over", OVER)


def target_of(model, graph):
    """The log odds of the predicted class as a function of features and edge weights."""
    batch = torch.zeros(graph.num_nodes, dtype=torch.long)
    ones = torch.ones(graph.num_edges, dtype=graph.x.dtype)
    predicted = int(model(graph.x, graph.edge_index, batch, ones).argmax())

    def target(x, weight):
        share = model(x, graph.edge_index, batch, weight).softmax(1)[0, predicted]
        return (share / (1 - share)).log()

    return target, ones


def squashed(shares):
    return (shares.abs() / (1 + shares.abs())).float()


def slow_shares(model, graph, over, steps):
    """Attributions by central differences, one element and one step at a time."""
    target, ones = target_of(model, graph)
    whole = ones if over == "edges" else graph.x
    shares = torch.zeros_like(whole).flatten()
    for step in range(steps):
        part = whole * (step + 0.5) / steps
        for place in range(part.numel()):
            ends = []
            for change in (1e-6, -1e-6):
                moved = part.flatten().clone()
                moved[place] += change
                moved = moved.view_as(whole)
                ends.append(target(graph.x, moved) if over == "edges" else target(moved, ones))
            slope = (ends[0] - ends[1]) / 2e-6
            shares[place] += slope.detach() * whole.flatten()[place] / steps
    return shares.view_as(whole)


@over_both
def test_equals_finite_differences(over):
    model, graph = make_target("gcn").double().eval(), make_graph(2)
    graph.x = graph.x.double()
    shares = slow_shares(model, graph, over, 5)
    explanation = call(IntegratedGradientsExplainer(over=over, steps=5), model, graph)
    if over == "edges":
        dense = torch.zeros(graph.num_nodes, graph.num_nodes).double()
        dense[tuple(graph.edge_index)] = shares
        expected = (dense + dense.t())[tuple(graph.edge_index)]
        actual = explanation.edge_mask
        incident = [(graph.edge_index == node).any(0) for node in range(graph.num_nodes)]
        nodes = torch.stack([explanation.edge_mask[edges].max() for edges in incident])
        assert torch.equal(explanation.node_mask.view(-1), nodes)
    else:
        expected, actual = shares.sum(1), explanation.node_mask.view(-1)
        ends = explanation.node_mask.view(-1)[graph.edge_index]
        assert torch.equal(explanation.edge_mask, ends.min(0).values)
    torch.testing.assert_close(actual, squashed(expected), rtol=1e-4, atol=1e-6)


@over_both
@given(seed=st.integers(0, 10_000))
def test_attributions_add_up_to_the_difference_of_the_outputs(over, seed):
    """Completeness, up to the error of the midpoint rule."""
    model, graph = make_target("gcn").double().eval(), make_graph(seed, 5 + seed % 5)
    graph.x = graph.x.double()
    target, ones = target_of(model, graph)

    def explained(part):
        output = target(part, ones) if over == "features" else target(graph.x, part)
        return output.view(1, 1)

    whole = graph.x if over == "features" else ones
    with torch.no_grad():
        difference = float(explained(whole) - explained(0 * whole))
    total = float(integrate(explained, whole, 128).sum())
    assert total == pytest.approx(difference, abs=1e-2, rel=1e-2)


def test_more_steps_bring_the_sum_closer():
    def cubic(part):
        return (part**3).view(1, -1).sum(1, keepdim=True)

    whole = torch.tensor([1.0, -2.0, 0.5])
    errors = []
    for steps in (1, 4, 16, 64):
        shares = integrate(cubic, whole, steps)
        assert shares.shape == (1, 3)
        errors.append(float((shares[0] - whole**3).abs().max()))
    assert all(later < earlier / 10 for earlier, later in pairwise(errors))


@over_both
def test_regression_in_units_of_the_spread(over):
    model, graphs = regression_target().double(), make_graphs()
    for graph in graphs:
        graph.x = graph.x.double()
    batch = Batch.from_data_list(graphs)
    spread = float(model(batch.x, batch.edge_index, batch.batch).std())
    options = {"over": over, "steps": 8}
    masks = []
    for unit in (model, _scaled(model, spread)):
        explainer = IntegratedGradientsExplainer(**options)
        explainer.fit(unit, graphs, mode="regression", progress=False)
        masks.append(call(explainer, unit, batch).edge_mask)
    torch.testing.assert_close(*masks)


def _scaled(model, spread):
    scaled = regression_target().double()
    scaled.load_state_dict(model.state_dict())
    with torch.no_grad():
        scaled.out.weight /= spread
        scaled.out.bias /= spread
    return scaled


def test_the_number_of_marked_edges_is_shared_by_them():
    """Linear in the weights: every marked edge adds one, the others nothing."""
    explainer = IntegratedGradientsExplainer(over="edges", steps=1)
    graphs = marked_graphs(8)
    explainer.fit(MarkedEdges(), graphs, mode="regression", progress=False)
    scale = explainer.task.scale
    for explanation, graph in zip(
        explainer.explain(MarkedEdges(), graphs, progress=False), graphs, strict=True
    ):
        expected = 2 * graph.edge_mask / scale
        torch.testing.assert_close(explanation.edge_mask, expected / (1 + expected))


@over_both
def test_the_same_alone_as_in_a_batch(over):
    model, graphs = make_target("gcn"), make_graphs()
    explainer = IntegratedGradientsExplainer(over=over)
    together = call(explainer, model, Batch.from_data_list(graphs))
    alone = [call(explainer, model, graph) for graph in graphs]
    for name in ("edge_mask", "node_mask"):
        parts = torch.cat([explanation[name] for explanation in alone])
        torch.testing.assert_close(parts, together[name], atol=1e-5, rtol=0)


def test_unusable_options():
    with pytest.raises(InputError, match=r"over must be one of .*edges.*got 'nodes'"):
        IntegratedGradientsExplainer(over="nodes")
    with pytest.raises(InputError, match="steps must be at least 1, got 0"):
        IntegratedGradientsExplainer(steps=0)
