"""Rows of models of graphs with types, of which nothing says what they are about."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch
from torch_geometric.explain import Explainer, HeteroExplanation

from contract import make_explainer
from hetero import BUYS, CLASSES, EDGE_TYPES, WIDTHS, Convs, make_graph, make_graphs, make_model
from hpme.errors import InputError, ModelError
from hpme.explainers import EXPLAINERS, OcclusionExplainer
from hpme.models import ExplainedModel

HETERO = [slug for slug, kind in EXPLAINERS.items() if kind.hetero]
WHOLE = make_graph(3, {"user": 7, "item": 5, "tag": 3})
LINKS = torch.tensor([[0, 6, 3], [4, 1, 2]])
levels = pytest.mark.parametrize("level", ["node", "edge", "graph"])


def explainer_of(model, algorithm, level, **options):
    config = {"mode": "multiclass_classification", "task_level": level, "return_type": "raw"}
    settings = {"explanation_type": "model", "edge_mask_type": "object", **options}
    return Explainer(model, algorithm, model_config=config, **settings)


def fitted(slug):
    users = {"index": range(7), "node_type": "user", "level": "node", "progress": False}
    algorithm = make_explainer(slug)
    return algorithm.fit(make_model("users"), WHOLE, **users) if algorithm.needs_fit else algorithm


@levels
@pytest.mark.parametrize("index", [None, 2, torch.tensor([1, 4])])
@pytest.mark.parametrize("slug", HETERO)
def test_rows_of_users_at_every_level(slug, index, level):
    explainer = explainer_of(make_model("users"), fitted(slug), level, node_mask_type="attributes")
    found = explainer(WHOLE.x_dict, WHOLE.edge_index_dict, index=index)
    assert isinstance(found, HeteroExplanation) and found.validate(raise_on_error=True)
    for kind in WIDTHS:
        assert found[kind].node_mask.shape == WHOLE[kind].x.shape
    every = torch.cat([found[kind].edge_mask for kind in EDGE_TYPES])
    assert bool(((every >= 0) & (every <= 1)).all()) and float(every.max()) > 0


@pytest.mark.parametrize("slug", HETERO)
def test_the_type_is_found_by_the_number_of_rows(slug):
    model, algorithm = make_model("users"), fitted(slug)
    found = explainer_of(model, algorithm, "node")(WHOLE.x_dict, WHOLE.edge_index_dict, index=4)
    told = ExplainedModel(model, level="node", node_type="user")
    known = algorithm(told, WHOLE.x_dict, WHOLE.edge_index_dict, index=4)
    for kind in EDGE_TYPES:
        assert torch.equal(found[kind].edge_mask, known[kind].edge_mask)


def slow_nodes(output, x_dict):
    """Importance of every node for one row: what zeroing its features does to the log odds."""
    before = output(x_dict)
    predicted = before.argmax()
    masks = {}
    for kind, x in x_dict.items():
        scores = []
        for node in range(len(x)):
            other = x.clone()
            other[node] = 0
            after = output({**x_dict, kind: other})
            odds = [row.softmax(0)[predicted].logit() for row in (before, after)]
            change = abs(float(odds[0] - odds[1]))
            scores.append(change / (1 + change))
        masks[kind] = torch.tensor(scores).unsqueeze(1)
    return masks


def assert_nodes(found, expected):
    for kind, mask in expected.items():
        torch.testing.assert_close(found[kind].node_mask, mask, atol=1e-4, rtol=1e-2)


def occlusion(model, level):
    return explainer_of(model, OcclusionExplainer(unit="node"), level, node_mask_type="object")


@levels
def test_occlusion_equals_one_call_per_node(level):
    model = make_model("users")

    def output(x_dict):
        return model(x_dict, WHOLE.edge_index_dict)[5].detach().double()

    found = occlusion(model, level)(WHOLE.x_dict, WHOLE.edge_index_dict, index=5)
    assert_nodes(found, slow_nodes(output, WHOLE.x_dict))


class OfPairs(Convs):
    """Predictions for users and items."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x_dict, edge_index_dict, edge_label_index):
        h = self.start(x_dict)
        for conv in self.convs:
            h = {kind: rows.tanh() for kind, rows in conv(h, edge_index_dict).items()}
        if isinstance(edge_label_index, dict):
            edge_label_index = edge_label_index[BUYS]
        user, item = edge_label_index
        return self.head(torch.cat([h["user"][user], h["item"][item]], dim=1))


@pytest.mark.parametrize("links", [LINKS, {BUYS: LINKS}], ids=["types are found", "types are told"])
def test_links_of_two_types(links):
    model = OfPairs().eval()

    def output(x_dict):
        return model(x_dict, WHOLE.edge_index_dict, LINKS)[1].detach().double()

    given = (WHOLE.x_dict, WHOLE.edge_index_dict)
    algorithm, known = OcclusionExplainer(unit="node"), ExplainedModel(model, level="edge")
    found = algorithm(known, *given, index=1, edge_label_index=links)
    assert_nodes(found, slow_nodes(output, WHOLE.x_dict))


def test_edges_may_join_graphs_with_types():
    model, batch = make_model("convs"), Batch.from_data_list(make_graphs(2))
    batch[BUYS].edge_index = torch.cat([batch[BUYS].edge_index, torch.tensor([[0], [4]])], dim=1)
    given = {"batch_dict": batch.batch_dict, "batch_size": 2}

    def output(x_dict):
        return model(x_dict, batch.edge_index_dict, **given)[1].detach().double()

    found = occlusion(model, "graph")(batch.x_dict, batch.edge_index_dict, index=1, **given)
    assert_nodes(found, slow_nodes(output, batch.x_dict))


def test_types_of_the_same_number_are_told_apart_by_nothing():
    whole, model = make_graph(3, {"user": 5, "item": 5, "tag": 3}), make_model("users")

    def output(x_dict):
        return model(x_dict, whole.edge_index_dict)[3].detach().double()

    found = occlusion(model, "node")(whole.x_dict, whole.edge_index_dict, index=3)
    assert_nodes(found, slow_nodes(output, whole.x_dict))


def test_some_of_separate_graphs_with_types():
    model, batch = make_model("convs"), Batch.from_data_list(make_graphs(3))
    explainer, given = occlusion(model, "graph"), {"batch_dict": batch.batch_dict, "batch_size": 3}
    every = explainer(batch.x_dict, batch.edge_index_dict, **given)
    some = explainer(batch.x_dict, batch.edge_index_dict, index=2, **given)
    for kind in WIDTHS:
        expected = every[kind].node_mask * (batch[kind].batch == 2).unsqueeze(1)
        torch.testing.assert_close(some[kind].node_mask, expected, atol=1e-4, rtol=1e-3)


class Ranked(nn.Module):
    """Users against each other, over all graphs there are."""

    def __init__(self):
        super().__init__()
        self.users = make_model("users")

    def forward(self, x_dict, edge_index_dict):
        return self.users(x_dict, edge_index_dict).softmax(0)


def test_errors():
    given = (WHOLE.x_dict, WHOLE.edge_index_dict)
    with pytest.raises(ModelError, match="beside a copy of it"):
        occlusion(Ranked().eval(), "graph")(*given)
    with pytest.raises(InputError, match=r"output row numbers must lie in \[0, 7\)"):
        occlusion(make_model("users"), "graph")(*given, index=7)


@pytest.mark.parametrize("slug", ["hpme", "pgexplainer"])
def test_what_was_fitted_to_graphs_explains_rows_of_users(slug):
    """Embeddings are as wide, so what was learned can be asked about rows of another kind."""
    algorithm = make_explainer(slug).fit(make_model("convs"), make_graphs(4), progress=False)
    found = explainer_of(make_model("users"), algorithm, "graph")(
        WHOLE.x_dict, WHOLE.edge_index_dict, index=3
    )
    assert found.validate(raise_on_error=True) and float(found[BUYS].edge_mask.max()) > 0


def test_what_was_fitted_to_nodes_is_not_asked_about_links():
    algorithm = make_explainer("pgexplainer").fit(
        make_model("users"), WHOLE, index=range(7), node_type="user", progress=False
    )
    known = ExplainedModel(OfPairs().eval(), level="edge")
    with pytest.raises(InputError, match=r"8 channels here, and 16.*rows of another kind"):
        algorithm(known, WHOLE.x_dict, WHOLE.edge_index_dict, index=1, edge_label_index=LINKS)
