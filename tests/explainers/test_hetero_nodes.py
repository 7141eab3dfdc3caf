"""Predictions for nodes of one type."""

import pytest
import torch
from torch_geometric.explain import Explainer, HeteroExplanation
from torch_geometric.nn import MessagePassing

from contract import make_explainer
from hetero import EDGE_TYPES, UNUSED, WIDTHS, make_graph, make_model
from hpme.errors import InputError, ModelError
from hpme.explainers.hpme.rest import rest_of
from hpme.graphs import GraphStore
from hpme.metrics import explanation_auc, fidelity
from hpme.models import ExplainedModel

WHOLE = make_graph(3, {"user": 12, "item": 9, "tag": 5})


def fitted(slug, **options):
    explainer = make_explainer(slug, num_hops=1, **options)
    return explainer.fit(make_model("users"), WHOLE, index=range(12), node_type="user",
                         progress=False)  # fmt: skip


@pytest.mark.parametrize("slug", ["hpme", "grad", "occlusion", "pgexplainer"])
def test_one_explanation_per_user(slug):
    found = fitted(slug).explain(make_model("users"), WHOLE, index=[4, 2], progress=False)
    for number, explanation in zip([4, 2], found, strict=True):
        anchor = int(explanation["user"].anchors)
        assert int(explanation["user"].node_ids[anchor]) == number
        for kind in WIDTHS:
            rows = explanation[kind].node_ids
            assert torch.equal(explanation[kind].x, WHOLE[kind].x[rows])
        for kind in EDGE_TYPES:
            ends = WHOLE[kind].edge_index[:, explanation[kind].edge_ids]
            mine = explanation[kind].edge_index
            assert torch.equal(explanation[kind[0]].node_ids[mine[0]], ends[0])
            assert torch.equal(explanation[kind[2]].node_ids[mine[1]], ends[1])
        if slug == "hpme":
            assert bool(explanation["user"].pooled[anchor])


def test_pyg_explainer_of_users():
    model, algorithm = make_model("users"), fitted("hpme")
    config = {
        "mode": "multiclass_classification",
        "task_level": "node",
        "return_type": "raw",
    }
    explainer = Explainer(model, algorithm, explanation_type="model", node_mask_type="object",
                          edge_mask_type="object", model_config=config)  # fmt: skip
    found = explainer(WHOLE.x_dict, WHOLE.edge_index_dict, index=4)
    assert isinstance(found, HeteroExplanation)
    (single,) = algorithm.explain(model, WHOLE, index=4)
    for kind in EDGE_TYPES:
        expected = torch.zeros(WHOLE[kind].edge_index.shape[1])
        expected[single[kind].edge_ids] = single[kind].edge_mask
        assert torch.allclose(found[kind].edge_mask, expected, atol=1e-5)


def test_the_rest_of_a_reason_never_holds_the_user(monkeypatch):
    monkeypatch.setattr("hpme.explainers.hpme.rest.CONTRIBUTES", -9.0)  # all parts are looked at
    model, explainer = make_model("users"), fitted("hpme")
    store = GraphStore.from_graphs(list(explainer.explain(model, WHOLE, index=[4, 2])))
    with explainer._transplants(model, store) as transplants:
        chosen = torch.ones(2, dtype=torch.bool)
        carried = {"carried": torch.full((2, 3), 0.3)}
        rest, together = rest_of(transplants, chosen, lambda keep: carried)
        assert not (rest & transplants.pooled).any()
        assert not rest[transplants.graphs.anchors].any()
        assert not rest[transplants.graphs.batch >= 2].any()
    assert torch.equal(together.isfinite(), torch.stack([m.any() for m in transplants.split(rest)]))


def test_quality_alternatives_and_effects_of_users():
    model, explainer = make_model("users"), fitted("hpme")
    explanations = explainer.explain(model, WHOLE, index=[4, 2])
    assert len(explainer.quality(model, explanations)) == 2
    assert {k: len(explanations[0][k].rest) for k in WIDTHS if len(explanations[0][k].x)} == {
        k: len(explanations[0][k].x) for k in WIDTHS if len(explanations[0][k].x)
    }
    for graph, found in zip(explanations, explainer.alternatives(model, explanations), strict=True):
        for alternative in found:
            assert {k: len(m) for k, m in alternative.nodes.items()} == {
                kind: len(graph[kind].x) for kind in WIDTHS
            }
    assert len(explainer.effects(model, explanations, draws=2)) == 2
    assert explanations[0].effect is not None


class Bought(MessagePassing):
    """One value for every user: what the items they bought add up to."""

    def forward(self, x_dict, edge_index_dict):
        x = x_dict["item"].sum(1, keepdim=True)
        index, size = edge_index_dict["item", "rev_buys", "user"], len(x_dict["user"])
        return self.propagate(index, x=(x, None), size=(len(x), size))

    def message(self, x_j):
        return x_j


@pytest.mark.parametrize("slug", ["hpme", "grad", "occlusion", "pgexplainer"])
def test_values_of_users(slug):
    explainer, model = make_explainer(slug, num_hops=1), Bought()
    given = {"index": range(12), "node_type": "user", "mode": "regression"}
    explainer.fit(model, WHOLE, **given, progress=False)
    for explanation in explainer.explain(model, WHOLE, index=[4, 2], progress=False):
        assert explanation.validate_masks()
        edges, anchor = explanation["item", "rev_buys", "user"], explanation["user"].anchors
        if slug in ("grad", "occlusion"):  # which know what the output depends on
            mine = edges.edge_index[1] == anchor
            assert bool(mine.any())
            assert bool((edges.edge_mask[mine] > 0).all())
            assert float(explanation["user", "rates", "item"].edge_mask.abs().max()) == 0


def test_scores_of_hetero_explanations():
    model = make_model("users")
    graphs = fitted("grad").explain(model, WHOLE, index=[4, 2])
    for graph in graphs:
        for kind in EDGE_TYPES:
            graph[kind].edge_mask = graph[kind].edge_mask > graph[kind].edge_mask.mean()
    explanations = fitted("grad").explain(model, WHOLE, index=[4, 2])
    assert 0.5 < float(explanation_auc(explanations, graphs)) <= 1
    known = ExplainedModel(model, level="node")
    assert fidelity(known, explanations, size=0.3).plus is not None


def test_the_type_must_be_named():
    explainer, model = make_explainer("grad"), make_model("users")
    with pytest.raises(InputError, match="node_type="):
        explainer.explain(model, WHOLE, index=[1])
    with pytest.raises(InputError, match="there is no 'shop'"):
        explainer.explain(model, WHOLE, index=[1], node_type="shop")
    with pytest.raises(InputError, match="out of range"):
        explainer.explain(model, WHOLE, index=[12], node_type="user")


def test_another_type_than_the_model_returns():
    with pytest.raises(ModelError, match="nodes of type 'item'"):
        make_explainer("grad").explain(make_model("users"), WHOLE, index=[1], node_type="item")


def test_links_are_refused():
    links = torch.tensor([[0], [1]])
    with pytest.raises(InputError, match="links of heterogeneous graphs"):
        make_explainer("grad").explain(make_model("users"), WHOLE, index=links, node_type="user")


def test_an_unused_type_has_an_empty_mask():
    (found,) = make_explainer("grad").explain(make_model("users"), WHOLE, index=[1],
                                              node_type="user")  # fmt: skip
    assert found[UNUSED].edge_mask.shape == (0,)
