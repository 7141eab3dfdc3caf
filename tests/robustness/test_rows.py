"""Tensors with a row per edge fit their own graph, and hold finite numbers."""

import copy

import pytest
import torch
from torch import nn
from torch_geometric.data import Data, InMemoryDataset

from contract import CHEAP, call, fitted, make_explainer, make_graphs, make_target
from hpme.errors import InputError, ModelError

NAN, INF = float("nan"), float("inf")
FEW = ["hpme", "grad", "random"]
slugs = pytest.mark.parametrize("slug", FEW)


class Stored(InMemoryDataset):
    """The same graphs, held as flat tensors by PyG."""

    def __init__(self, graphs):
        super().__init__()
        self.data, self.slices = self.collate(graphs)


def uses(slug, target="gcn"):
    case = fitted(slug, target)
    return {
        "fit": lambda graphs: make_explainer(slug).fit(case.model, graphs, progress=False),
        "explain": lambda graphs: case.explainer.explain(case.model, graphs, progress=False),
    }


def with_rows(change, name="edge_weight"):
    """Graphs whose number 2 has other than one row per edge."""
    graphs = make_graphs()
    for number, graph in enumerate(graphs):
        rows = graph.num_edges + (change if number == 2 else 0)
        graph[name] = torch.ones(rows) if name == "edge_weight" else torch.ones(rows, 2)
    return graphs


@slugs
@pytest.mark.parametrize("way", ["fit", "explain"])
@pytest.mark.parametrize("name", ["edge_weight", "edge_attr"])
@pytest.mark.parametrize("change", [5, -3])
@pytest.mark.parametrize("stored", [list, Stored])
def test_rows_are_counted_per_graph(slug, way, name, change, stored):
    graphs = with_rows(change, name)
    edges = graphs[2].num_edges
    message = f"graph 2.*{name}.*{edges + change} rows.*{edges} edges"
    with pytest.raises(InputError, match=message):
        uses(slug)[way](stored(graphs))


def test_rows_that_slide_into_the_neighbour_are_refused():
    """The sum is right, every graph is wrong."""
    graphs = with_rows(5)
    graphs[3].edge_weight = graphs[3].edge_weight[:-5]
    with pytest.raises(InputError, match=r"graph 2.*edge_weight"):
        uses("grad")["explain"](graphs)


@slugs
@pytest.mark.parametrize("way", ["fit", "explain"])
@pytest.mark.parametrize("value", [NAN, INF])
@pytest.mark.parametrize("name", ["edge_weight", "edge_attr"])
def test_numbers_that_are_not_finite_are_named(slug, way, value, name):
    graphs = with_rows(0, name)
    graphs[1][name][3] = value
    with pytest.raises(InputError, match=f"{name} contains NaN or infinite values.*clean"):
        uses(slug)[way](graphs)
    with pytest.raises(InputError, match=f"{name} contains NaN or infinite values"):
        fitted(slug).explainer(
            fitted(slug).model, graphs[1].x, graphs[1].edge_index, **{name: graphs[1][name]}
        )


def test_weights_are_one_number_per_edge():
    graphs = make_graphs()
    for graph in graphs:
        graph.edge_weight = torch.ones(graph.num_edges, 1)
    with pytest.raises(InputError, match=r"edge_weight must have shape \[edges\]"):
        uses("grad")["fit"](graphs)


@pytest.mark.parametrize("slug", [slug for slug in CHEAP if slug != "random"])
@pytest.mark.parametrize("value", [NAN, INF])
def test_explain_refuses_what_the_model_answers_as_fit_does(slug, value):
    case = fitted(slug)
    model = copy.deepcopy(case.model)
    model.register_forward_hook(lambda _, __, output: output + value)
    for use in (
        lambda: make_explainer(slug).fit(model, case.graphs, progress=False),
        lambda: case.explainer.explain(model, case.graphs, progress=False),
        lambda: call(case.explainer, model, case.batch),
    ):
        with pytest.raises(ModelError, match=r"output.*NaN or infinite values"):
            use()


@pytest.mark.parametrize("slug", FEW[:2])
def test_the_tensor_of_the_model_is_named(slug):
    model = make_target("gcn", slug)
    name, weight = list(model.named_parameters())[-1]
    weight.data.view(-1)[0] = NAN
    with pytest.raises(ModelError, match=f"NaN or infinite values.*'{name}'"):
        fitted(slug).explainer.explain(model, make_graphs(), progress=False)


def test_node_level_rows_are_checked():
    graph = make_graphs()[0]
    data = Data(x=graph.x, edge_index=graph.edge_index, edge_weight=torch.ones(graph.num_edges + 2))

    class Nodes(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = nn.Linear(3, 2)

        def forward(self, x, edge_index, edge_weight=None):
            return self.model(x)

    with pytest.raises(InputError, match=r"edge_weight has 18 rows for 16 edges"):
        make_explainer("grad").explain(Nodes(), data, index=[0, 1], progress=False)
