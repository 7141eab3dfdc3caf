"""Every explainer on predictions for single nodes."""

from dataclasses import replace
from functools import cache

import networkx as nx
import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.explain import Explainer
from torch_geometric.nn import GATConv, GCNConv
from torch_geometric.utils import from_networkx, k_hop_subgraph

from contract import (
    CLASSES,
    FEATURES,
    SLUGS,
    assert_same,
    assert_valid,
    featured,
    in_use,
    make_explainer,
    make_graphs,
    make_target,
    snapshot,
)
from hpme.data import WholeGraph
from hpme.errors import InputError, ModelError
from hpme.models import build_model

slugs = pytest.mark.parametrize("slug", SLUGS)
NODES, ISOLATED = 40, 40
CONFIG = {"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"}


@cache
def whole():
    """A sparse connected graph, whose ego graphs are small, and an isolated node."""
    graph = nx.random_labeled_tree(NODES, seed=3)
    graph.add_edges_from([(0, 7), (3, 20), (11, 30)])
    data = featured(from_networkx(graph).edge_index, NODES + 1, seed=5)
    data.y = torch.arange(NODES + 1) % CLASSES
    return data


class Layers(nn.Module):
    """A user's model: no head, no edge weights, no batch."""

    def __init__(self, conv=GCNConv):
        super().__init__()
        self.first, self.second = conv(FEATURES, 8), conv(8, CLASSES)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


class NeedsBatch(Layers):
    def forward(self, x, edge_index, batch):
        assert batch.shape == x.shape[:1]
        return super().forward(x, edge_index)


def node_target(slug, kind="library"):
    conv = GATConv if slug == "att" else GCNConv
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(1)
        if kind == "library":
            name = "node-gat" if slug == "att" else "node-gcn"
            return build_model(name, FEATURES, CLASSES, hidden_channels=8)
        return {"layers": Layers, "needs batch": NeedsBatch}[kind](conv)


@cache
def fitted(slug, kind="library"):
    model = in_use(node_target(slug, kind))
    before = snapshot(model)
    explainer = make_explainer(slug, num_hops=2)
    explainer.fit(model, whole(), index=torch.arange(0, NODES, 4), progress=False)
    return explainer, model, before, snapshot(model)


KINDS = [(slug, kind) for slug in SLUGS for kind in ("library", "layers")]
KINDS += [(slug, "needs batch") for slug in ("hpme", "pgexplainer", "grad", "occlusion")]


@pytest.mark.parametrize(("slug", "kind"), KINDS)
def test_nodes_are_explained_and_the_model_is_left_alone(slug, kind):
    explainer, model, before, after = fitted(slug, kind)
    assert_same(before, after)
    explanations = explainer.explain(model, whole(), index=[2, 5, 11], progress=False)
    assert_same(before, snapshot(model))
    for node, explanation in zip((2, 5, 11), explanations, strict=True):
        nodes, edge_index, place, mask = k_hop_subgraph(
            node, 2, whole().edge_index, relabel_nodes=True, num_nodes=NODES + 1
        )
        assert_valid(explanation, explanation)
        assert torch.equal(explanation.node_ids, nodes)
        assert torch.equal(explanation.edge_index, edge_index)
        assert torch.equal(explanation.edge_ids, mask.nonzero().view(-1))
        assert torch.equal(explanation.anchors, place)
        assert torch.equal(explanation.x, whole().x[nodes])
        pooled = explanation.get("pooled")
        assert pooled is None or bool(pooled[place])


@slugs
def test_the_mask_covers_the_whole_graph(slug):
    explainer, model, *_ = fitted(slug)
    data = whole()
    nodes = torch.tensor([2, 5, 11])
    mask = explainer(model, data.x, data.edge_index, index=nodes).edge_mask
    expected = torch.zeros(data.num_edges)
    for explanation in explainer.explain(model, data, index=nodes, progress=False):
        ids = explanation.edge_ids
        expected[ids] = torch.maximum(expected[ids], explanation.edge_mask)
    assert mask.shape == (data.num_edges,)
    assert torch.allclose(mask, expected, atol=1e-5)
    assert bool((mask == 0).any())


@slugs
def test_batch_equals_one_by_one(slug):
    explainer, model, *_ = fitted(slug)
    nodes = [5, 0, 11, 5, ISOLATED]  # one twice, one alone
    together = explainer.explain(model, whole(), index=nodes, progress=False)
    for node, explanation in zip(nodes, together, strict=True):
        alone = explainer(model, whole().x, whole().edge_index, index=node)
        assert torch.allclose(alone.edge_mask[explanation.edge_ids], explanation.edge_mask,
                              atol=1e-5)  # fmt: skip
    assert torch.allclose(together[0].edge_mask, together[3].edge_mask, atol=1e-5)
    assert together[4].edge_mask.numel() == 0
    assert together[4].node_ids.tolist() == [ISOLATED]


@slugs
def test_all_ways_to_name_nodes(slug):
    explainer, model, *_ = fitted(slug)
    data = whole()
    flags = torch.zeros(NODES + 1, dtype=torch.bool)
    flags[7] = True
    masks = [
        explainer(model, data.x, data.edge_index, index=index).edge_mask
        for index in (7, torch.tensor(7), torch.tensor([7]), [7], [7, 7], flags)
    ]
    for mask in masks[1:]:
        assert torch.allclose(mask, masks[0], atol=1e-5)


@slugs
def test_an_isolated_node_has_an_empty_mask(slug):
    explainer, model, *_ = fitted(slug)
    data = whole()
    mask = explainer(model, data.x, data.edge_index, index=ISOLATED).edge_mask
    assert torch.equal(mask, torch.zeros(data.num_edges))


@slugs
def test_an_ego_graph_may_be_the_whole_graph(slug):
    _, model, *_ = fitted(slug)
    data = whole()
    explainer = make_explainer(slug, num_hops=NODES)
    explainer.fit(model, data, index=[0, 1, 2, 3, 4], progress=False)
    (explanation,) = explainer.explain(model, data, index=2, progress=False)
    assert explanation.num_nodes == NODES
    assert explanation.edge_ids.tolist() == list(range(data.num_edges))


@slugs
@pytest.mark.parametrize(
    ("index", "message"),
    [
        (NODES + 1, "out of range"),
        ([0, -1], "out of range"),
        ([], "empty"),
        ([0.5], "whole numbers"),
        (torch.ones(3, dtype=torch.bool), "boolean index"),
    ],
)
def test_wrong_nodes_are_named(slug, index, message):
    explainer, model, *_ = fitted(slug)
    data = whole()
    for call in (
        lambda: explainer(model, data.x, data.edge_index, index=index),
        lambda: explainer.explain(model, data, index=index, progress=False),
        lambda: make_explainer(slug).fit(model, data, index=index, progress=False),
    ):
        with pytest.raises(InputError, match=message):
            call()


@slugs
def test_ego_graphs_with_anchors_do_as_well(slug):
    explainer, model, *_ = fitted(slug)
    nodes = torch.arange(0, NODES, 4)
    egos = [
        Data(x=e.x, edge_index=e.edge_index, anchors=e.anchors, y=whole().y[node].view(1))
        for node, e in zip(
            nodes, explainer.explain(model, whole(), index=nodes, progress=False), strict=True
        )
    ]
    again = make_explainer(slug).fit(model, egos, progress=False)
    assert again.level == "node"
    expected = explainer.explain(model, whole(), index=nodes, progress=False)
    for one, other in zip(expected, again.explain(model, egos, progress=False), strict=True):
        assert torch.allclose(one.edge_mask, other.edge_mask, atol=1e-5)
        assert torch.equal(one.anchors, other.anchors)


@slugs
def test_through_pyg(slug):
    _, model, *_ = fitted(slug)
    data = whole()
    explainer = Explainer(
        model, make_explainer(slug, num_hops=2), explanation_type="model",
        edge_mask_type="object", model_config=CONFIG,
    )  # fmt: skip
    explainer.algorithm.fit(model, data, index=range(0, NODES, 4), progress=False)
    explanation = explainer(data.x, data.edge_index, index=3)
    assert_valid(explanation, data)
    own, *_ = fitted(slug)
    expected = own(model, data.x, data.edge_index, index=3)
    assert torch.equal(explanation.edge_mask, expected.edge_mask)


@slugs
def test_a_saved_explainer_still_explains_nodes(slug, tmp_path):
    explainer, model, *_ = fitted(slug)
    explainer.save(tmp_path / "it.safetensors")
    again = type(explainer).load(tmp_path / "it.safetensors")
    data = whole()
    masks = [e(model, data.x, data.edge_index, index=[3, 8]).edge_mask for e in (explainer, again)]
    assert again.num_hops == 2
    assert torch.equal(*masks)


@slugs
def test_levels_are_not_mixed_up(slug):
    graph_model, node_model = make_target("gcn", slug), node_target(slug)
    with pytest.raises(ModelError, match="one row per node"):
        make_explainer(slug).fit(graph_model, whole(), index=[0, 1], progress=False)
    explainer = make_explainer(slug).fit(graph_model, make_graphs(), progress=False)
    with pytest.raises(InputError, match="graph-level"):
        explainer.explain(node_model, whole(), index=[0], progress=False)
    with pytest.raises(InputError, match="task level is 'graph'"):
        make_explainer(slug).fit(node_model, whole(), index=[0], level="graph", progress=False)


def test_memory_is_bounded_by_parts():
    data = whole()
    wide = WholeGraph.of(data)
    narrow = replace(wide, max_edges=1)
    nodes = torch.arange(NODES)
    assert len(list(wide.parts(nodes, NODES))) == 1
    assert len(list(wide.parts(nodes, 7))) == 6
    assert len(list(narrow.parts(nodes, NODES))) == NODES
    one, other = wide.ego_graphs(nodes), narrow.ego_graphs(nodes)
    assert torch.equal(one.local_edge_index, other.local_edge_index)
    assert torch.equal(one.anchors, other.anchors)
