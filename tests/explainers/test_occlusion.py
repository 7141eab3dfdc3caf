import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data

from contract import call, make_graph, make_graphs, make_target, permuted
from hpme.errors import InputError
from hpme.explainers import OcclusionExplainer
from hpme.graphs import transforms
from planted import MARKED, MarkedEdges, marked_graphs, regression_target

UNITS = ("edge", "node")
units = pytest.mark.parametrize("unit", UNITS)


def without(graph, unit, part):
    """The graph without its edge between two nodes, or without the features of a node."""
    if unit == "node":
        x = graph.x.clone()
        x[part] = 0
        return Data(x=x, edge_index=graph.edge_index)
    kept = [set(edge) != set(part) for edge in graph.edge_index.t().tolist()]
    return Data(x=graph.x, edge_index=graph.edge_index[:, torch.tensor(kept)])


def output(model, graph):
    batch = torch.zeros(graph.num_nodes, dtype=torch.long)
    return model(graph.x, graph.edge_index, batch)[0].detach().double()


def slow_score(model, graph, unit, part, scale=None):
    """One score by one call of the model on the changed graph."""
    before, after = output(model, graph), output(model, without(graph, unit, part))
    if scale is not None:
        change = float((before - after).abs().sum()) / scale
        return change / (1 + change)
    predicted = before.argmax()
    odds = [output.softmax(0)[predicted] / (1 - output.softmax(0)[predicted])
            for output in (before, after)]  # fmt: skip
    change = abs(float((odds[0] / odds[1]).log()))
    return change / (1 + change)


def slow_masks(model, graph, unit, scale=None):
    edges = graph.edge_index.t().tolist()
    if unit == "edge":
        edge_mask = [slow_score(model, graph, unit, edge, scale) for edge in edges]
        node_mask = [max(w for w, edge in zip(edge_mask, edges, strict=True) if node in edge)
                     for node in range(graph.num_nodes)]  # fmt: skip
    else:
        node_mask = [slow_score(model, graph, unit, node, scale) for node in range(graph.num_nodes)]
        edge_mask = [min(node_mask[i], node_mask[j]) for i, j in edges]
    return torch.tensor(edge_mask), torch.tensor(node_mask).unsqueeze(1)


def assert_close(explanation, expected):
    torch.testing.assert_close(explanation.edge_mask, expected[0], atol=1e-5, rtol=1e-3)
    torch.testing.assert_close(explanation.node_mask, expected[1], atol=1e-5, rtol=1e-3)


@units
@pytest.mark.parametrize("target", ["gcn", "gin"])
def test_equals_one_call_per_part(unit, target):
    model, graphs = make_target(target).eval(), make_graphs()
    explanations = OcclusionExplainer(unit=unit).explain(model, graphs, progress=False)
    for explanation, graph in zip(explanations, graphs, strict=True):
        assert_close(explanation, slow_masks(model, graph, unit))


def odds(output, predicted):
    share = output.softmax(0)[predicted]
    return float((share / (1 - share)).log())


def test_signed_scores_put_what_speaks_against_the_class_last():
    model, graphs = make_target("gcn").eval(), make_graphs()
    plain, signed = (
        OcclusionExplainer(signed=choice).explain(model, graphs, progress=False)
        for choice in (False, True)
    )
    for one, other, graph in zip(plain, signed, graphs, strict=True):
        whole = output(model, graph)
        for place, edge in enumerate(graph.edge_index.t().tolist()):
            left = output(model, without(graph, "edge", edge))
            fall = odds(whole, whole.argmax()) - odds(left, whole.argmax())
            sign = 1 if fall > 0 else -1
            expected = (1 + sign * float(one.edge_mask[place])) / 2
            assert float(other.edge_mask[place]) == pytest.approx(expected, abs=1e-5)


@units
def test_regression_in_units_of_the_spread(unit):
    model, graphs = regression_target(), make_graphs()
    explainer = OcclusionExplainer(unit=unit).fit(model, graphs, mode="regression", progress=False)
    scale = float(torch.cat([output(model, graph) for graph in graphs]).std())
    for explanation, graph in zip(
        explainer.explain(model, graphs, progress=False), graphs, strict=True
    ):
        assert_close(explanation, slow_masks(model, graph, unit, scale))


@pytest.mark.parametrize("mode", MARKED)
def test_only_edges_that_matter_change_anything(mode):
    model, graphs = MARKED[mode](), marked_graphs(8)
    explainer = OcclusionExplainer().fit(model, graphs, mode=mode, progress=False)
    for explanation, graph in zip(
        explainer.explain(model, graphs, progress=False), graphs, strict=True
    ):
        assert torch.equal(explanation.edge_mask > 0, graph.edge_mask)


def test_deleted_edges_reach_no_layer_and_no_pass_is_wasted():
    graph, seen = make_graph(3), []

    class Watched(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = make_target("gcn")

        def forward(self, x, edge_index, batch):
            counts = torch.bincount(batch[edge_index[0]], minlength=int(batch[-1]) + 1)
            seen.extend(counts.tolist())
            return self.inner(x, edge_index, batch)

    call(OcclusionExplainer(), Watched(), graph)
    assert sorted(seen) == [graph.num_edges - 2] * (graph.num_edges // 2) + [graph.num_edges]


@units
@pytest.mark.parametrize("limit", [1, 60])
def test_parts_that_fit_memory_change_nothing(unit, limit, monkeypatch):
    model, batch = make_target("gcn"), Batch.from_data_list(make_graphs())
    whole = call(OcclusionExplainer(unit=unit), model, batch)
    monkeypatch.setattr(transforms, "MAX_ELEMENTS", limit)
    assert_close(
        call(OcclusionExplainer(unit=unit), model, batch), (whole.edge_mask, whole.node_mask)
    )


def test_nodes_are_renumbered_with_the_graph_and_edges_may_come_in_any_order():
    model, graph = make_target("gcn"), make_graph(5)
    other, nodes, edges = permuted(graph)
    expected = call(OcclusionExplainer(unit="node"), model, graph)
    assert_close(
        call(OcclusionExplainer(unit="node"), model, other),
        (expected.edge_mask[edges], expected.node_mask[nodes]),
    )
    batch = Batch.from_data_list(make_graphs())
    order = torch.randperm(batch.num_edges, generator=torch.Generator().manual_seed(0))
    for unit in UNITS:
        grouped = call(OcclusionExplainer(unit=unit), model, batch)
        mixed = OcclusionExplainer(unit=unit)(
            model, batch.x, batch.edge_index[:, order], batch=batch.batch
        )
        assert_close(mixed, (grouped.edge_mask[order], grouped.node_mask))


def test_weights_do_not_vanish_where_the_model_is_sure():
    model, graph, masks = make_target("gcn"), make_graph(0), []
    for bias in (0.0, 14.0):
        with torch.no_grad():
            model.out.bias.copy_(torch.tensor([bias, 0.0, 0.0]))
        masks.append(call(OcclusionExplainer(), model, graph).edge_mask)
    assert float(masks[1].sum() / masks[0].sum()) > 0.2


def test_unusable_options():
    with pytest.raises(InputError, match=r"unit must be one of .*edge.*node.*got 'graph'"):
        OcclusionExplainer(unit="graph")
    with pytest.raises(InputError, match="pass mode='regression'"):
        call(OcclusionExplainer(), MarkedEdges(), marked_graphs()[0])
