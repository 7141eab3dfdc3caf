"""What masks look like, and that they belong to the graph, not to how it was handed over."""

import copy

import pytest
import torch
from torch_geometric.data import Batch, InMemoryDataset
from torch_geometric.loader import DataLoader

from contract import (
    CHEAP,
    EACH,
    LEFT_OUT,
    SLUGS,
    assert_valid,
    call,
    fields_of,
    fitted,
    make_explainer,
    make_graph,
    make_graphs,
    make_target,
    odd_graphs,
    permuted,
)
from hpme.explainers import EXPLAINERS

slugs = pytest.mark.parametrize("slug", SLUGS)
targets = pytest.mark.parametrize("target", EACH)
ODD = list(odd_graphs())


def test_every_explainer_is_in_the_table():
    assert set(CHEAP) == set(EXPLAINERS)


def test_no_explainer_is_left_out():
    if LEFT_OUT:
        pytest.skip("; ".join(LEFT_OUT.values()))
    assert set(SLUGS) == set(CHEAP)


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@slugs
@targets
def test_valid_symmetric_and_the_same_alone_as_in_a_batch(slug, target):
    case = fitted(slug, target)
    together = call(case.explainer, case.model, case.batch)
    assert_valid(together, case.batch)
    listed = case.explainer.explain(case.model, case.graphs, progress=False)
    close(torch.cat([e.edge_mask for e in listed]), together.edge_mask)
    for explanation, graph in zip(listed[::2], case.graphs[::2], strict=True):
        alone = call(case.explainer, case.model, graph)
        close(alone.edge_mask, explanation.edge_mask)
        if alone.get("node_mask") is not None:
            close(alone.node_mask, explanation.node_mask)
        assert torch.equal(explanation.x, graph.x)
        assert torch.equal(explanation.edge_index, graph.edge_index)
        assert_valid(explanation, graph)
        dense = torch.zeros(graph.num_nodes, graph.num_nodes)
        dense[tuple(graph.edge_index)] = alone.edge_mask
        close(dense, dense.t())


@slugs
@targets
def test_masks_tell_edges_apart(slug, target):
    case = fitted(slug, target)
    for explanation in case.explainer.explain(case.model, case.graphs, progress=False):
        assert explanation.edge_mask.unique().numel() > 1


@slugs
@targets
def test_renumbering_nodes_permutes_the_mask(slug, target):
    check_renumbering(slug, target, directed=False)


@slugs
@pytest.mark.parametrize("target", ["gcn", "gine"])
def test_renumbering_nodes_of_directed_graphs(slug, target):
    check_renumbering(slug, target, directed=True)


def check_renumbering(slug, target, *, directed):
    case = fitted(slug, target)
    graph = make_graph(11, 10, **fields_of(target), directed=directed)
    other, nodes, edges = permuted(graph)
    expected, actual = (call(case.explainer, case.model, g) for g in (graph, other))
    close(actual.edge_mask, expected.edge_mask[edges])
    if expected.get("node_mask") is not None:
        close(actual.node_mask, expected.node_mask[nodes])


@slugs
@pytest.mark.parametrize("target", ["gcn", "coded"])
def test_same_seed_same_mask_bit_by_bit(slug, target):
    case = fitted(slug, target)
    again = copy.deepcopy(case.explainer)  # the second time it must not go on from the first
    again.fit(make_target(target, slug), case.graphs, progress=False)
    masks = [call(e, case.model, case.batch).edge_mask for e in (case.explainer, again)]
    assert torch.equal(*masks)


def test_other_seed_other_random_mask():
    case = fitted("random")
    masks = [call(make_explainer("random", seed=s), case.model, case.batch).edge_mask
             for s in (0, 1)]  # fmt: skip
    correlation = torch.corrcoef(torch.stack(masks))[0, 1]
    assert abs(float(correlation)) < 0.5


@slugs
@pytest.mark.parametrize("target", ["gcn", "gine", "unweighted", "coded"])
def test_odd_graphs_alone_and_together(slug, target):
    case = fitted(slug, target)
    graphs = odd_graphs(**fields_of(target))
    listed = case.explainer.explain(case.model, graphs.values(), progress=False)
    assert len(listed) == len(graphs)
    for explanation, graph in zip(listed, graphs.values(), strict=True):
        assert_valid(explanation, graph)
        close(call(case.explainer, case.model, graph).edge_mask, explanation.edge_mask)


@slugs
@pytest.mark.parametrize("last", ["empty", "one node"])
def test_an_empty_graph_may_come_last(slug, last):
    case = fitted(slug)
    graphs = [make_graph(0), odd_graphs()[last]]
    listed = case.explainer.explain(case.model, graphs, progress=False)
    assert [e.edge_mask.numel() for e in listed] == [g.num_edges for g in graphs]


@slugs
@pytest.mark.parametrize("target", ["gine", "unweighted", "coded"])
def test_fit_to_odd_graphs(slug, target):
    odd = odd_graphs(**fields_of(target))
    odd.pop("empty")
    graphs = [*odd.values(), *make_graphs(target, range(2))]
    explainer = make_explainer(slug, batch_size=4).fit(
        make_target(target, slug), graphs, progress=False
    )
    listed = explainer.explain(make_target(target, slug), graphs, progress=False)
    for explanation, graph in zip(listed, graphs, strict=True):
        assert_valid(explanation, graph)


@slugs
@pytest.mark.parametrize("name", ["one node", "no edges"])
def test_fit_to_nothing_but_one_odd_graph(slug, name):
    graph = odd_graphs()[name]
    explainer = make_explainer(slug).fit(make_target("gcn", slug), [graph], progress=False)
    assert_valid(call(explainer, make_target("gcn", slug), make_graph(0)), make_graph(0))


class Collection(InMemoryDataset):
    def __init__(self, graphs):
        super().__init__()
        self.data, self.slices = self.collate(graphs)


@pytest.mark.parametrize("slug", ["hpme", "metagnn", "matchexplainer", "pgexplainer", "grad"])
def test_fit_takes_a_dataset_a_list_a_batch_or_a_loader(slug):
    """Graphs are read in one place for all explainers; ``metagnn`` reads some more."""
    case = fitted(slug)
    expected = call(case.explainer, case.model, case.batch).edge_mask
    for graphs in (
        Collection(case.graphs),
        Collection([make_graph(9), *case.graphs])[1:],
        case.batch,
        DataLoader(case.graphs, batch_size=4),
        (graph for graph in case.graphs),
    ):
        explainer = make_explainer(slug).fit(case.model, graphs, progress=False)
        assert torch.equal(call(explainer, case.model, case.batch).edge_mask, expected)


@slugs
def test_mini_batches(slug):
    case = fitted(slug)
    explainer = make_explainer(slug, batch_size=2).fit(case.model, case.graphs, progress=False)
    small = explainer.explain(case.model, case.graphs, progress=False)
    explainer.batch_size = 100
    for one, other in zip(
        small, explainer.explain(case.model, case.graphs, progress=False), strict=True
    ):
        close(one.edge_mask, other.edge_mask)


@slugs
def test_precision_of_the_model_does_not_matter(slug):
    model = make_target("gcn", slug).double()
    graphs = make_graphs()
    for graph in graphs:
        graph.x = graph.x.double()
    explainer = make_explainer(slug).fit(model, graphs, progress=False)
    for explanation, graph in zip(
        explainer.explain(model, graphs, progress=False), graphs, strict=True
    ):
        assert explanation.edge_mask.shape == (graph.num_edges,)
        assert bool(((explanation.edge_mask >= 0) & (explanation.edge_mask <= 1)).all())


@slugs
def test_weights_of_the_graphs_themselves(slug):
    model, graphs = make_target("gcn", slug), make_graphs()
    for graph in graphs:
        graph.edge_weight = 0.5 + torch.rand(graph.num_edges, generator=torch.Generator())
    explainer = make_explainer(slug).fit(model, graphs, progress=False)
    for explanation, graph in zip(
        explainer.explain(model, graphs, progress=False), graphs, strict=True
    ):
        assert_valid(explanation, graph)


@slugs
def test_constructor_arguments_are_kept_as_given(slug):
    explainer = make_explainer(slug, seed=7, batch_size=3)
    config = explainer.config()
    assert config["seed"] == 7
    assert config["batch_size"] == 3
    assert {key: config[key] for key in CHEAP[slug]} == CHEAP[slug]
    assert type(explainer)(**config).config() == config


@slugs
def test_regression(slug):
    graphs, model = make_graphs(), make_target("gcn", slug)
    model.out = torch.nn.Linear(16, 1)
    explainer = make_explainer(slug).fit(model, graphs, mode="regression", progress=False)
    batch = Batch.from_data_list(graphs)
    assert_valid(call(explainer, model, batch), batch)
