"""Links as subgraphs: explainers work unchanged, the two ends and their labels stay."""

from functools import cache

import networkx as nx
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from contract import SLUGS, assert_valid, make_explainer
from hpme.data import GraphStore, LinkDataset, enclosing_subgraph
from hpme.metrics import robust_fidelity
from hpme.models import Recipe, load_or_train

NODES = 60


@pytest.fixture(scope="module")
def whole_graph():
    """A scale-free graph; its last two nodes have no links."""
    graph = nx.barabasi_albert_graph(NODES, 3, seed=0)
    edge_index = to_undirected(torch.tensor(list(graph.edges)).T)
    return Data(edge_index=edge_index, num_nodes=NODES + 2)


@pytest.fixture(scope="module")
def target(whole_graph, tmp_path_factory):
    dataset = LinkDataset.from_graph(whole_graph)
    recipe = Recipe(max_steps=20, patience=20, learning_rate=3e-3, batch_size=32)
    return load_or_train(dataset, "dgcnn", recipe=recipe, root=tmp_path_factory.mktemp("m"))[0]


@pytest.fixture(scope="module")
def graphs(whole_graph):
    existing = whole_graph.edge_index.T[::60].tolist()
    missing = [(0, NODES), (NODES, NODES + 1), (7, 51), (30, 42)]
    return enclosing_subgraph(whole_graph, torch.tensor([*existing, *missing]))


@pytest.fixture(scope="module")
def fitted(target, graphs):
    """Explainers by name, each fitted once."""

    @cache
    def fit(slug):
        return make_explainer(slug).fit(target, graphs, progress=False)

    return fit


# DGCNN has no attention to read.
@pytest.mark.parametrize("slug", [slug for slug in SLUGS if slug != "att"])
def test_every_explainer_explains_links_and_non_links(slug, target, graphs, fitted):
    explanations = fitted(slug).explain(target, graphs, progress=False)
    for explanation, graph in zip(explanations, graphs, strict=True):
        assert_valid(explanation, graph)
        assert torch.equal(explanation.x, graph.x)
        assert torch.equal(explanation.anchors, graph.anchors)


@pytest.mark.parametrize(
    ("slug", "options"),
    [
        ("hpme", {}),
        ("hpme", {"attach": "rank"}),
        ("pgexplainer", {}),
    ],
)
def test_both_ends_are_in_every_graph_the_model_sees(slug, options, target, graphs):
    """Exactly two nodes have an end's label, no edge joins them, and labels stay one-hot.

    But for one node per graph, whose features are zeroed to see what it matters.
    """
    batches = []

    def watch(_, args, kwargs):
        batches.append((*args, kwargs["batch"]))

    hook = target.register_forward_pre_hook(watch, with_kwargs=True)
    try:
        make_explainer(slug, **options).fit(target, graphs[-6:], progress=False)
    finally:
        hook.remove()
    assert len(batches) > 2
    for x, edge_index, batch in batches:
        is_end = x.argmax(1) == 1
        assert bool((torch.bincount(batch[is_end]) == 2).all())
        assert int(is_end.sum()) == 2 * (int(batch.max()) + 1)
        assert not bool(is_end[edge_index].all(0).any())
        assert bool(((x == 0) | (x == 1)).all())
        zeroed = batch[x.sum(1) != 1]
        assert zeroed.numel() == zeroed.unique().numel() and bool((x.sum(1) <= 1).all())


@pytest.mark.parametrize("slug", ["hpme", "pgexplainer"])
def test_either_order_of_the_ends_gives_the_same_edge_mask(slug, target, whole_graph, fitted):
    links = [(0, 5), (5, 0), (7, 51), (51, 7)]
    one, other, third, fourth = fitted(slug).explain(
        target, enclosing_subgraph(whole_graph, links), progress=False
    )
    torch.testing.assert_close(one.edge_mask, other.edge_mask)
    torch.testing.assert_close(third.edge_mask, fourth.edge_mask)


def test_pooled_nodes_hold_both_ends(target, graphs, fitted):
    for explanation in fitted("hpme").explain(target, graphs, progress=False):
        assert bool(explanation.pooled[explanation.anchors].all())


def test_fidelity_is_about_the_probability_of_the_predicted_answer(target, graphs, fitted):
    """Without its explanation a graph loses f(G) - f(rest), of "no link" where that is said."""
    explanations = fitted("pgexplainer").explain(target, graphs, progress=False)
    result = robust_fidelity(target, explanations, 1.0, alpha1=1.0, samples=1)
    graphs = GraphStore.from_graphs(graphs).batch()
    target.eval()
    whole = target(graphs.x, graphs.edge_index, graphs.batch).softmax(1)
    bare = target(graphs.x, graphs.edge_index[:, :0], graphs.batch).softmax(1)
    answer = whole.argmax(1, keepdim=True)
    assert set(answer.view(-1).tolist()) == {0, 1}
    expected = (whole - bare).gather(1, answer).view(-1)
    with_edges = torch.bincount(graphs.edge_batch, minlength=graphs.num_graphs) > 0
    assert bool(result.plus.per_graph[~with_edges].isnan().all())
    torch.testing.assert_close(
        result.plus.per_graph[with_edges].float(), expected[with_edges].detach(), atol=1e-5, rtol=0
    )
