import pytest
import torch
from torch_geometric.data import Batch

from contract import call, make_graph, make_graphs, make_target
from hpme.errors import InputError
from hpme.explainers import GradExplainer
from hpme.models import build_model
from planted import MARKED, MarkedEdges, marked_graphs


def log_odds(out):
    probs = out.softmax(1)
    top = probs.max(1).values
    return (top / (1 - top)).log()


TARGETS = {
    "logprob": lambda out: out.log_softmax(1).max(1).values,
    "logit": log_odds,
    "raw": lambda out: out.max(1).values,
}


def by_differences(function, edges, step=1e-6):
    """Slope of a function of edge weights at 1, one edge at a time."""
    slopes = []
    for edge in range(edges):
        weight = torch.ones(2, edges, dtype=torch.double)
        weight[:, edge] += torch.tensor([step, -step])
        slopes.append((function(weight[0]) - function(weight[1])) / (2 * step))
    return torch.stack(slopes).view(-1)


def both_directions(slopes, edge_index):
    dense = torch.zeros(edge_index.max() + 1, edge_index.max() + 1).double()
    dense[tuple(edge_index)] = slopes.abs()
    return (dense + dense.t())[tuple(edge_index)].float()


@pytest.mark.parametrize("target", TARGETS)
def test_equals_finite_differences(target):
    model, graph = make_target("gcn").double().eval(), make_graph(2)
    graph.x = graph.x.double()
    batch = torch.zeros(graph.num_nodes, dtype=torch.long)
    slopes = by_differences(
        lambda w: TARGETS[target](model(graph.x, graph.edge_index, batch, w)), graph.num_edges
    )
    expected = both_directions(slopes.detach(), graph.edge_index)
    mask = call(GradExplainer(target=target), model, graph).edge_mask
    torch.testing.assert_close(mask, expected / (1 + expected), rtol=1e-4, atol=1e-7)
    if target == "logprob":
        assert torch.equal(mask, call(GradExplainer(), model, graph).edge_mask)


def test_regression_in_units_of_the_spread():
    model = build_model("gcn", 3, 1, "regression", hidden_channels=8).double().eval()
    graphs = make_graphs()
    for graph in graphs:
        graph.x = graph.x.double()
    batch = Batch.from_data_list(graphs)
    spread = float(model(batch.x, batch.edge_index, batch.batch).std())
    graph, zeros = graphs[1], torch.zeros(graphs[1].num_nodes, dtype=torch.long)
    slopes = by_differences(
        lambda w: model(graph.x, graph.edge_index, zeros, w)[0], graph.num_edges
    )
    expected = both_directions(slopes.detach(), graph.edge_index) / spread
    explainer = GradExplainer().fit(model, graphs, mode="regression", progress=False)
    mask = call(explainer, model, graph).edge_mask
    torch.testing.assert_close(mask, expected / (1 + expected), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("mode", MARKED)
def test_finds_exactly_the_edges_that_matter(mode):
    model, graphs = MARKED[mode](), marked_graphs(8)
    explainer = GradExplainer(target="raw").fit(model, graphs, mode=mode, progress=False)
    for explanation, graph in zip(
        explainer.explain(model, graphs, progress=False), graphs, strict=True
    ):
        assert torch.equal(explanation.edge_mask > 0, graph.edge_mask)


def test_logit_does_not_flatten_where_the_model_is_sure():
    model, graph = make_target("gcn"), make_graph(0)
    ratio = {}
    for target in ("logprob", "logit"):
        masks = []
        for bias in (0.0, 9.0):
            with torch.no_grad():
                model.out.bias.copy_(torch.tensor([bias, 0.0, 0.0]))
            mask = call(GradExplainer(target=target), model, graph).edge_mask
            masks.append(mask / (1 - mask))
        ratio[target] = float(masks[1].sum() / masks[0].sum())
    assert ratio["logprob"] < 0.01
    assert ratio["logit"] > 0.2


def test_normalised_per_graph():
    model, graphs = make_target("gcn"), make_graphs()
    plain = GradExplainer().explain(model, graphs, progress=False)
    for one, other in zip(
        plain, GradExplainer(normalise=True).explain(model, graphs, progress=False), strict=True
    ):
        score = one.edge_mask / (1 - one.edge_mask)
        torch.testing.assert_close(other.edge_mask, score / score.max())


def test_unusable_targets():
    with pytest.raises(InputError, match=r"target must be one of .*logit.*got 'loss'"):
        GradExplainer(target="loss")
    explainer = GradExplainer(target="logit")
    explainer.fit(MarkedEdges(), marked_graphs(), mode="regression", progress=False)
    with pytest.raises(InputError, match="use 'raw' for regression"):
        call(explainer, MarkedEdges(), marked_graphs()[0])


def test_one_output_without_fit_is_refused():
    with pytest.raises(InputError, match="pass mode='regression'"):
        call(GradExplainer(), MarkedEdges(), marked_graphs()[0])


@pytest.mark.parametrize("name", ["gcn", "gin", "gat"])
def test_ground_truth_is_not_handed_out_as_an_explanation(name):
    """Targets of this package take the number of graphs as well; that is no field of a graph."""
    graphs = make_graphs()
    for graph in graphs:
        graph.node_mask = torch.ones(graph.num_nodes, dtype=torch.bool)
    explanations = GradExplainer().explain(make_target(name).eval(), graphs, progress=False)
    assert all("node_mask" not in explanation for explanation in explanations)
