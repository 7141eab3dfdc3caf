"""Joined graphs against the same graphs joined one pair at a time."""

import pytest
import torch
from torch_geometric.data import Batch, Data

from contract import make_graph, make_target
from hpme.data import GraphStore
from hpme.explainers.shared.templates import draw_partners, matched, unite
from hpme.models.explained import ExplainedModel


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def united(target="gcn", bridges=3):
    features = target == "gine"
    first = [make_graph(seed, edge_features=features) for seed in range(4)]
    second = [make_graph(seed, edge_features=features) for seed in range(7, 11)]
    stores = [GraphStore.from_graphs(graphs).batch() for graphs in (first, second)]
    return first, second, unite(*stores, bridges, generator())


def test_one_forward_equals_one_per_pair():
    model = make_target("gcn").eval()
    first, second, union = united()
    weights = [
        [torch.rand(g.num_edges, generator=generator(i)) for i, g in enumerate(graphs)]
        for graphs in (first, second)
    ]
    together = (
        ExplainedModel(model)
        .adapter(weighting="edge_weight")
        .predict(union.graphs, union.per_edge(*(torch.cat(part) for part in weights)))
    )
    bridge = union.graphs.edge_index[:, -union.num_bridges :]
    for number, (a, b) in enumerate(zip(first, second, strict=True)):
        own = bridge[:, union.graphs.batch[bridge[0]] == number] - union.graphs.ptr[number]
        alone = model(
            torch.cat([a.x, b.x]),
            torch.cat([a.edge_index, b.edge_index + a.num_nodes, own], dim=1),
            torch.zeros(a.num_nodes + b.num_nodes, dtype=torch.long),
            torch.cat([weights[0][number], weights[1][number], torch.ones(own.shape[1])]),
        )
        torch.testing.assert_close(together[number : number + 1], alone)


def test_bridges_join_the_two_graphs_in_both_directions():
    first, second, union = united(bridges=5)
    assert union.num_bridges == 2 * 5 * 4
    bridge = union.graphs.edge_index[:, -union.num_bridges :]
    one_way, back = bridge.split(20, dim=1)
    assert torch.equal(one_way, back.flip(0))
    graph = union.graphs.batch[one_way]
    assert torch.equal(graph[0], graph[1])
    assert graph[0].bincount().tolist() == [5] * 4
    local = one_way - union.graphs.ptr[graph]
    border = torch.tensor([g.num_nodes for g in first])[graph[0]]
    assert bool((local[0] < border).all())
    assert bool((local[1] >= border).all())
    ends = {(int(g), int(i)) for g, i in zip(graph[0], local[0], strict=True)}
    assert len(ends) > 8  # not always the same node
    assert union.graphs.sizes.tolist() == [
        a.num_nodes + b.num_nodes for a, b in zip(first, second, strict=True)
    ]


def test_no_bridges():
    *_, union = united(bridges=0)
    assert union.num_bridges == 0
    assert union.per_edge(torch.zeros(2), torch.ones(1)).tolist() == [0, 0, 1]


def test_bridges_have_features_of_real_edges():
    first, second, union = united("gine")
    own = torch.cat([g.edge_attr for g in (*first, *second)])
    attr = union.graphs.edge_attr
    assert torch.equal(attr[: -union.num_bridges], own)
    for row in attr[-union.num_bridges :]:
        assert bool((own == row).all(1).any())


def test_bridges_weigh_one_beside_the_graphs_own_weights():
    graphs = [make_graph(seed) for seed in range(2)]
    for graph in graphs:
        graph.edge_weight = torch.full((graph.num_edges,), 0.5)
    a, b = (GraphStore.from_graphs([graph]).batch() for graph in graphs)
    weight = unite(a, b, 1, generator()).graphs.edge_weight
    assert weight.tolist() == [0.5] * (graphs[0].num_edges + graphs[1].num_edges) + [1, 1]


def test_partners_are_others():
    ids = torch.arange(5).repeat(400)
    partners = draw_partners(ids, 5, generator())
    counts = torch.zeros(5, 5).index_put((ids, partners), torch.ones(()), accumulate=True)
    assert bool((counts.diagonal() == 0).all())
    assert bool((counts[~torch.eye(5, dtype=torch.bool)] > 50).all())
    assert draw_partners(torch.tensor([0, 0]), 1, generator()).tolist() == [0, 0]


def test_union_is_a_batch_as_pyg_makes_it():
    """Nodes of a pair lie side by side: aggregations that need a sorted batch work."""
    first, second, union = united(bridges=0)
    joined = Batch.from_data_list(
        [Data(x=torch.cat([a.x, b.x])) for a, b in zip(first, second, strict=True)]
    )
    assert torch.equal(union.graphs.x, joined.x)
    assert torch.equal(union.graphs.batch, joined.batch)


@pytest.mark.parametrize("count", [2, 3, 8, 9])
def test_every_graph_is_matched_with_another(count):
    ids = torch.arange(count) + 10
    first, second = matched(ids, 40, generator())
    assert len(first) == len(second) == (count + 1) // 2
    assert not bool((first == second).any())
    times = torch.bincount(torch.cat([first, second]))[10:]
    assert sorted(times.tolist()) == [1] * (count - count % 2) + [2] * (count % 2)


def test_a_single_graph_has_any_other_for_a_partner():
    first, second = matched(torch.tensor([3]), 5, generator())
    assert first.tolist() == [3] and second.tolist() != [3]
